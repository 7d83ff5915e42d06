#include "instruments/load/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>

#include "common/error.h"
#include "common/json.h"

namespace load {
namespace {

using Fields = nlohmann::ordered_json;

constexpr size_t kMaxFile = size_t{1} << 30;
constexpr int kSystems = 4;  // different system prompts

/// The same numbers with every standard library.
class Dice {
 public:
  explicit Dice(uint64_t seed) : rng_(seed) {}
  size_t below(size_t n) { return static_cast<size_t>(rng_() % n); }
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
  if (options.max_tokens || !fields.contains("max_tokens")) {
    fields["max_tokens"] = options.max_tokens.value_or(max_tokens);
  }
  if (options.temperature) fields["temperature"] = *options.temperature;
  if (!fields.contains("seed")) fields["seed"] = options.seed + index;
  if (options.logprobs && chat) fields["logprobs"] = true;
  if (options.logprobs && !chat) fields["logprobs"] = 0;
}

Ask line_of_file(const std::string& line, const std::string& where) {
  Ask ask;
  if (!line.starts_with('{')) {
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

struct TraceLine {
  double seconds = 0;
  int64_t input = 0, output = 0, block_size = 512;
  std::vector<uint64_t> ids;
};

TraceLine line_of_trace(const std::string& text, const std::string& where) {
  const kv::Json json = kv::parse_json(text, where);
  const kv::JsonObject object(json, where);
  constexpr int64_t kMax = int64_t{1} << 24;
  TraceLine line;
  line.seconds = object.number("timestamp") / 1000;
  line.input = object.integer("input_length", 1, kMax);
  line.output = object.integer("output_length", 0, kMax);
  if (object.has("block_size")) line.block_size = object.integer("block_size", 1, kMax);
  for (const kv::Json& id : object.array("hash_ids")) {
    if (!id.is_number_unsigned()) object.wrong("hash_ids", "integers from 0 on");
    line.ids.push_back(id.get<uint64_t>());
  }
  if (!(line.seconds >= 0)) object.wrong("timestamp", "milliseconds, a number from 0 on");
  if (std::ssize(line.ids) < line.input / line.block_size) {
    kv::user_error(
        "{}: {} hash ids for {} input tokens in blocks of {}; wanted one for each full block",
        where, line.ids.size(), line.input, line.block_size);
  }
  return line;
}

std::vector<int> tokens_of(const TraceLine& line, int shrink) {
  const auto block_size = std::max<int64_t>(1, line.block_size / shrink);
  const auto wanted = static_cast<size_t>(std::max<int64_t>(1, line.input / shrink));
  std::vector<int> tokens;
  for (size_t i = 0; tokens.size() < wanted; ++i) {
    Dice dice(i < line.ids.size() ? line.ids[i] : ~line.ids.size());
    for (int64_t t = 0; t < block_size && tokens.size() < wanted; ++t) {
      tokens.push_back(static_cast<int>(dice.below(256)));
    }
  }
  return tokens;
}

/// Calls use(line, "FILE, line N") for each line that is not empty.
void each_line(const std::filesystem::path& file, const auto& use) {
  const std::string text = kv::read_file(file, kMaxFile);
  int number = 0;
  for (size_t begin = text.starts_with("\xEF\xBB\xBF") ? 3 : 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    while (line.ends_with('\r') || line.ends_with(' ')) line.pop_back();
    ++number;
    if (!line.empty() && !use(line, fmt::format("{}, line {}", file.string(), number))) return;
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
  std::vector<Ask> asks;
  double first = 0;
  each_line(file, [&](const std::string& text, const std::string& where) {
    const TraceLine line = line_of_trace(text, where);
    if (asks.empty()) first = line.seconds;
    Ask ask;
    ask.timestamp = std::max(0.0, line.seconds - first) / options.speed;
    ask.fields["prompt"] = tokens_of(line, options.shrink);
    ask.fields["ignore_eos"] = true;  // so that an answer has the trace's length
    const int64_t output = std::max<int64_t>(1, line.output / options.shrink);
    add_common(ask.fields, false, options, asks.size(), static_cast<int>(output));
    asks.push_back(std::move(ask));
    return std::ssize(asks) < options.num_requests;
  });
  if (asks.empty())
    kv::user_error("{}: no request in it; wanted a trace, a JSON object on each line",
                   file.string());
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
