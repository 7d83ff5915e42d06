#include "instruments/load/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>
#include <span>

#include "common/error.h"
#include "common/json.h"
#include "common/utf8.h"

namespace load {
namespace {

using Fields = nlohmann::ordered_json;

constexpr size_t kMaxFile = size_t{1} << 30;
constexpr int kSystems = 4;  // different system prompts

/// The same numbers with every standard library.
class Dice {
 public:
  explicit Dice(uint64_t seed) : rng_(seed) {}
  size_t below(size_t n) { return rng_() % n; }
  template <size_t N>
  std::string one_of(const std::array<const char*, N>& words) {
    return words[below(N)];
  }

 private:
  std::mt19937_64 rng_;
};

constexpr std::array kHeroes{"cat",  "dog",  "bird", "girl",  "boy",
                             "bear", "frog", "king", "mouse", "fish"};
constexpr std::array kKinds{"little", "happy", "brave", "sad", "big",
                            "clever", "kind",  "red",   "old", "shy"};
constexpr std::array kThings{"ball", "boat", "cake", "tree", "hat",
                             "kite", "book", "bell", "star", "shoe"};
constexpr std::array kDeeds{"finds",  "loses", "wants", "makes", "hides",
                            "paints", "eats",  "sees",  "gives", "breaks"};
constexpr std::array kOpenings{"Tell me of", "Once upon a time there was", "One day I met",
                               "Here is a story of"};

std::string scene(Dice& dice) {
  return fmt::format("a {} {} who {} a {} {}", dice.one_of(kKinds), dice.one_of(kHeroes),
                     dice.one_of(kDeeds), dice.one_of(kKinds), dice.one_of(kThings));
}

std::string system_prompt(Dice& dice, int words) {
  constexpr int kWordsOfAScene = 8;
  std::string text = "Be kind and use simple words.";
  for (int i = 6; i + kWordsOfAScene <= words; i += kWordsOfAScene + 1)
    text += " Say " + scene(dice) + ".";
  return text;
}

/// Fields that the options set and the line leaves open.
void add_common(Fields& fields, bool chat, const WorkloadOptions& options, uint64_t index,
                int max_tokens) {
  if (options.max_tokens || fields["max_tokens"].is_null()) {
    fields["max_tokens"] = options.max_tokens.value_or(max_tokens);
  }
  if (options.temperature) fields["temperature"] = *options.temperature;
  if (fields["seed"].is_null()) fields["seed"] = options.seed + index;
  if (options.logprobs) fields["logprobs"] = chat ? Fields(true) : Fields(0);
}

/// Refuses a line of text that is JSON of another kind than an object, or begins as a list does:
/// its brackets and quotes would be sent as the text of a prompt. "[INST] Hello" is text.
void refuse_other_json(const std::string& line, const std::string& where) {
  constexpr const char* kWanted =
      "a prompt's text, or {\"prompt\": ..}, on a line of its own; convert the file";
  const size_t second = line.find_first_not_of(" \t", 1);
  const bool opens = line[0] == '[' && (second == line.npos || line[second] == '{' ||
                                        line[second] == '"' || line[second] == '\'');
  const kv::Json json = nlohmann::json::parse(line, nullptr, false);
  if (opens || json.is_array()) kv::user_error("{}: a JSON array, wanted {}", where, kWanted);
  if (json.is_string()) kv::user_error("{}: a JSON string, wanted {}", where, kWanted);
}

Ask line_of_file(const std::string& line, const std::string& where) {
  Ask ask;
  if (!line.starts_with('{')) {
    refuse_other_json(line, where);
    ask.fields["prompt"] = line;
    return ask;
  }
  const kv::Json json = kv::parse_json(line, where);
  ask.chat = json.contains("messages");
  if (ask.chat == json.contains("prompt")) {
    kv::user_error("{}: wanted \"prompt\" or \"messages\", one of them", where);
  }
  ask.fields = json;
  // ./course run 8 counts arrivals in passes. The others are for this program to set.
  for (const char* name : {"pass", "model", "stream", "stream_options"}) ask.fields.erase(name);
  return ask;
}

/// The tokens of request `i`: equal ids are equal tokens, in a last block that is not full, too.
std::vector<int> tokens_of(const replay::Batch& batch, size_t i, int block_size, int shrink) {
  const std::span<const uint64_t> ids = batch.request(i);
  const replay::Batch::Size& size = batch.sizes[i];
  const auto tokens_of_block = std::max(1, block_size / shrink);
  const auto wanted = static_cast<size_t>(std::max<int64_t>(1, size.input_tokens / shrink));
  std::vector<int> tokens;
  for (size_t block = 0; tokens.size() < wanted; ++block) {
    const uint64_t id = block < ids.size()                 ? ids[block]
                        : block == ids.size() && size.tail ? *size.tail
                                                           : ~uint64_t{block};
    Dice dice(id);
    for (int t = 0; t < tokens_of_block && tokens.size() < wanted; ++t) {
      tokens.push_back(static_cast<int>(dice.below(256)));
    }
  }
  return tokens;
}

/// Calls use(line, "FILE, line N") for each line that is not empty.
void each_line(const std::filesystem::path& file, const auto& use) {
  const std::string text = kv::read_file(file, kMaxFile);
  int number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    constexpr const char* kSpaces = " \t\r";
    std::string line = text.substr(begin, end - begin);
    if (line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);  // files that were joined have several
    line.erase(line.find_last_not_of(kSpaces) + 1);
    // An object may be indented. The spaces before a text are part of it.
    if (const size_t first = line.find_first_not_of(kSpaces);
        first != line.npos && (line[first] == '{' || line[first] == '[')) {
      line.erase(0, first);
    }
    const std::string where = fmt::format("{}, line {}", file.string(), ++number);
    if (!kv::is_valid_utf8(line) || line.find('\0') != line.npos) {
      kv::user_error("{}: not text in UTF-8; unpack the file, or convert it", where);
    }
    if (!line.empty() && !use(line, where)) return;
    begin = end + 1;
  }
}

}  // namespace

std::vector<Ask> chat_workload(const WorkloadOptions& options) {
  const int num_talks = (options.num_requests + options.turns - 1) / options.turns;
  const int num_different = (num_talks + options.copies - 1) / options.copies;
  std::vector<Ask> asks;
  for (int turn = 0; turn < options.turns; ++turn) {
    for (int talk = 0; talk < num_talks && std::ssize(asks) < options.num_requests; ++talk) {
      const auto different = static_cast<uint64_t>(talk % num_different);
      Dice dice(options.seed * 1'000'003 + different * 1009 + static_cast<uint64_t>(turn));
      Ask ask{.chat = true, .fields = {}, .question = {}, .follows = {}, .timestamp = {}};
      ask.question = dice.one_of(kOpenings) + " " + scene(dice) + ".";
      if (turn == 0) {
        Dice system(options.seed + different % kSystems);
        ask.fields["messages"] = {
            {{"role", "system"}, {"content", system_prompt(system, options.system_words)}}};
      } else {
        ask.follows = asks.size() - static_cast<size_t>(num_talks);
      }
      add_common(ask.fields, true, options, different * 64 + static_cast<uint64_t>(turn), 32);
      asks.push_back(std::move(ask));
    }
  }
  return asks;
}

std::vector<Ask> file_workload(const std::filesystem::path& file, const WorkloadOptions& options) {
  std::vector<Ask> lines;
  each_line(file, [&](const std::string& line, const std::string& where) {
    lines.push_back(line_of_file(line, where));
    add_common(lines.back().fields, lines.back().chat, options, lines.size() - 1, 32);
    return std::ssize(lines) < options.num_requests;
  });
  if (lines.empty()) kv::user_error("{}: no prompt in it; wanted one on each line", file.string());
  std::vector<Ask> asks;
  for (size_t i = 0; std::ssize(asks) < options.num_requests; ++i)
    asks.push_back(lines[i % lines.size()]);
  return asks;
}

std::vector<Ask> trace_workload(const std::filesystem::path& file, const WorkloadOptions& options) {
  replay::TraceReader reader(file, options.block_size, options.time_unit);
  replay::Batch batch;
  std::vector<Ask> asks;
  double first = 0;
  while (std::ssize(asks) < options.num_requests && reader.next(batch)) {
    for (size_t i = 0; i < batch.ends.size() && std::ssize(asks) < options.num_requests; ++i) {
      const replay::Batch::Size& size = batch.sizes[i];
      const char* const wrong = size.timestamp < 0       ? "no \"timestamp\", wanted a time"
                                : size.input_tokens == 0 ? "\"input_length\" is 0, wanted a prompt"
                                                         : nullptr;
      if (wrong) kv::user_error("{}, request {}: {}", file.string(), asks.size() + 1, wrong);
      if (asks.empty()) first = size.timestamp;
      Ask ask;
      ask.timestamp = std::max(0.0, size.timestamp - first) / 1000 / options.speed;
      ask.fields["prompt"] = tokens_of(batch, i, reader.block_size(), options.shrink);
      ask.fields["ignore_eos"] = true;  // so that an answer has the trace's length
      const int64_t output = std::max<int64_t>(1, size.output_tokens / options.shrink);
      add_common(ask.fields, false, options, asks.size(),
                 static_cast<int>(std::min<int64_t>(output, INT32_MAX)));
      asks.push_back(std::move(ask));
    }
  }
  return asks;
}

std::string body_of(const std::vector<Ask>& asks, size_t index, const std::string& model,
                    const std::vector<std::string>& answers, std::vector<Fields>& messages) {
  const Ask& ask = asks[index];
  Fields body = {{"model", model}};
  body.update(ask.fields);
  if (ask.chat) {
    Fields& mine = messages[index];
    mine = ask.follows ? messages[*ask.follows] : ask.fields.value("messages", Fields::array());
    if (ask.follows) mine.push_back({{"role", "assistant"}, {"content", answers[*ask.follows]}});
    if (!ask.question.empty()) mine.push_back({{"role", "user"}, {"content", ask.question}});
    body["messages"] = mine;
  }
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  return body.dump(-1, ' ', false, Fields::error_handler_t::replace);
}

}  // namespace load
