// Cost of a check of k guesses against a pass of one row, and the gain on ordinary text and on text
// that repeats itself.
//
//   lesson09_bench [--model DIR] [--device NAME] [--longest N] [--no-texts] [--judging] [--json
//   FILE]

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "engine.h"
#include "kernels/argmax.h"
#include "programs/lab.h"
#include "programs/measure_gpu.h"
#include "reject_guesses.h"

namespace {

using lesson08::ServeOptions;
using lesson09::LookaheadEngine;

constexpr int kMostGuesses = 8;
constexpr int kRounds = 5;  // the median of their times is reported

/// The device finds the largest logit, so that passes are measured and not the logits' way to a
/// digest.
ServeOptions serve_options() {
  ServeOptions options = lesson09::default_serve_options();
  options.choose_on_device = true;
  return options;
}

/// Guesses the text that it was given, so it is always right.
class Told : public lesson09::Drafter {
 public:
  explicit Told(std::vector<int32_t> text) : text_(std::move(text)) {}
  std::vector<int32_t> propose(int64_t, std::span<const int32_t> tokens, int max_guesses) override {
    const auto rest = std::span(text_).subspan(tokens.size());
    const auto guesses = rest.first(std::min<size_t>(rest.size(), max_guesses));
    return {guesses.begin(), guesses.end()};
  }

 private:
  std::vector<int32_t> text_;
};

/// Median seconds of the passes of `rows` rows.
double pass_seconds(const kv::GenerateResult& result, int rows) {
  std::vector<double> seconds;
  for (const kv::PassCost& pass : result.passes) {
    if (pass.rows == rows) seconds.push_back(pass.seconds);
  }
  return kv::median(std::move(seconds));
}

/// Passes of 1 row and of 2, 3, 5 and 9 after prompts of several lengths.
void measure_checks(kv::Lab& lab, int longest) {
  lab.console.print("A pass that checks guesses, microseconds (against a pass without)\n\n");
  const std::vector<int> guesses{0, 1, 2, 4, kMostGuesses};
  std::vector<std::string> columns{"tokens before"};
  for (const int k : guesses) columns.push_back(fmt::format("{} guesses", k));
  kv::Table table(std::move(columns));
  nlohmann::json rows = nlohmann::json::array();
  for (int length = 64; length <= longest && !kv::interrupted(); length *= 4) {
    const std::vector<kv::Request> requests{kv::request_of_length(length, 120)};
    std::vector<int32_t> text = requests[0].prompt;
    std::vector<std::string> cells{kv::with_commas(length)};
    double without = 0;
    for (const int k : guesses) {
      LookaheadEngine engine(lab.model(), {}, serve_options(), {.num_guesses = k},
                             std::make_unique<Told>(text));
      engine.generate(requests);  // warm: graphs are captured
      const auto result = engine.generate(requests);
      if (k == 0) {
        const auto& answer = result.completions[0].tokens;
        text.insert(text.end(), answer.begin(), answer.end());
      }
      const double seconds = pass_seconds(result, k + 1);
      if (k == 0) without = seconds;
      cells.push_back(fmt::format("{:.0f} ({:.2f})", 1e6 * seconds, seconds / without));
      rows.push_back({{"length", length}, {"guesses", k}, {"microseconds", 1e6 * seconds}});
    }
    table.add(std::move(cells));
  }
  lab.console.write(table.to_string());
  lab.report["checks"] = rows;
}

struct Text {
  std::string name;
  std::vector<kv::Request> requests = {};        // each runs alone
  std::vector<std::vector<int32_t>> known = {};  // the whole texts, if the drafter knows them
};

/// The requests for these prompts; without a tokenizer they have any tokens.
std::vector<kv::Request> requests_for(const std::filesystem::path& model_dir, int max_tokens,
                                      const std::vector<std::string>& prompts) {
  std::vector<kv::Request> requests;
  const auto add = [&](std::vector<int32_t> prompt) {
    requests.emplace_back().prompt = std::move(prompt);
    requests.back().max_tokens = max_tokens;
  };
  if (std::filesystem::exists(model_dir / "tokenizer.json")) {
    const auto tokenizer = kv::Tokenizer::load(model_dir);
    for (const std::string& prompt : prompts) add(tokenizer.encode(prompt));
  } else {
    for (const int length : {20, 50}) add(kv::request_of_length(length, 1).prompt);
  }
  return requests;
}

/// Answers that end where the model ends them; answers that may not end, which say much of it
/// again; answers to a word said again and again; and the second ones with a drafter that knows
/// them, the most that guesses can give.
std::vector<Text> texts_of(kv::Model& model, const std::filesystem::path& model_dir) {
  const auto stories = requests_for(
      model_dir, 200,
      {"Once upon a time", "One day, a little fox found a red kite in the forest.",
       "Once upon a time, there was a little boat. The boat was blue.", "The old owl was sad."});
  Text to_the_end{"to the end", stories};
  for (kv::Request& request : to_the_end.requests) {
    request.stop_token_ids = model.config().eos_token_ids;
  }
  const Text refrain{"a refrain",
                     requests_for(model_dir, 60,
                                  {"ha ha ha ha ha ha ha ha", "knock knock knock knock",
                                   "quack quack quack quack", "la la la la la la la"})};
  Text all_right{"all right", stories};
  for (const kv::Request& request : stories) {
    const auto answer = lesson08::ServingEngine(model, {}).generate({&request, 1});
    const auto& tokens = answer.completions[0].tokens;
    all_right.known.push_back(request.prompt);
    all_right.known.back().insert(all_right.known.back().end(), tokens.begin(), tokens.end());
  }
  return {to_the_end, {"on and on", stories}, refrain, all_right};
}

/// Engines with num_guesses guesses, one for each request, that have served the text before.
struct Way {
  int num_guesses;
  std::vector<std::unique_ptr<LookaheadEngine>> engines = {};
  std::vector<double> seconds = {};                            // of each round
  int64_t tokens = 0, passes = 0, proposed = 0, accepted = 0;  // of the last round
};

void make_engines(kv::Model& model, const Text& text, Way& way) {
  ServeOptions options = serve_options();
  options.caching = false;
  for (size_t i = 0; i < text.requests.size(); ++i) {
    std::unique_ptr<lesson09::Drafter> drafter;  // null means n-grams
    if (!text.known.empty()) drafter = std::make_unique<Told>(text.known[i]);
    way.engines.push_back(std::make_unique<LookaheadEngine>(
        model, lesson09::PagedOptions{.num_blocks = 64}, options,
        lesson09::LookaheadOptions{.num_guesses = way.num_guesses}, std::move(drafter)));
  }
}

void run_once(const Text& text, Way& way) {
  way.tokens = way.passes = way.proposed = way.accepted = 0;
  double seconds = 0;
  for (size_t i = 0; i < text.requests.size(); ++i) {
    const auto result = way.engines[i]->generate({&text.requests[i], 1});
    way.tokens += kv::num_generated_tokens(result);
    way.passes += result.counters.passes;
    way.proposed += result.counters.named("guesses_proposed");
    way.accepted += result.counters.named("guesses_accepted");
    seconds += result.counters.seconds;
  }
  way.seconds.push_back(seconds);
}

/// Runs all ways in turn, round by round, so that other load on the machine slows all of them
/// alike.
std::vector<Way> ways_of(kv::Model& model, const Text& text) {
  std::vector<Way> ways;
  for (const int k : {0, 2, 4, kMostGuesses}) ways.push_back({.num_guesses = k});
  for (Way& way : ways) {
    make_engines(model, text, way);
    for (int i = 0; i < 2; ++i) run_once(text, way);  // twice: graphs are captured
    way.seconds.clear();
  }
  for (int round = 0; round < kRounds && !kv::interrupted(); ++round) {
    for (Way& way : ways) run_once(text, way);
  }
  return ways;
}

void measure_texts(kv::Lab& lab) {
  lab.console.print("\nOne request at a time; guesses by n-grams, or all of them right\n\n");
  kv::Records rows;
  for (const Text& text : texts_of(lab.model(), lab.options.model_dir)) {
    const std::vector<Way> ways = ways_of(lab.model(), text);
    if (kv::interrupted()) break;
    const double without = kv::median(ways[0].seconds);
    for (const Way& way : ways) {
      const double seconds = kv::median(way.seconds);
      const auto tokens = static_cast<double>(way.tokens);
      rows.add({{"text", text.name, "text"},
                {"guesses", way.num_guesses, "guesses"},
                {"tokens a pass", kv::decimal(tokens / static_cast<double>(way.passes), 2)},
                {"right", kv::share(way.accepted, way.proposed)},
                {"tokens/s", kv::decimal(tokens / seconds, 0), "tokens_per_second"},
                {"speed-up", kv::decimal(without / seconds, 2)}});
      rows.note("tokens", way.tokens);
      rows.note("passes", way.passes);
      rows.note("proposed", way.proposed);
      rows.note("accepted", way.accepted);
    }
  }
  lab.report_records("texts", rows);
}

/// Seconds on the GPU of choosing a token for each row, and of judging four guesses of each
/// sequence right after it. All guesses are right, so each is read.
std::pair<double, double> judging_seconds([[maybe_unused]] const kv::Model& model,
                                          [[maybe_unused]] int num_rows) {
#if KV_HAVE_CUDA
  const kv::Stream& stream = model.stream();
  const size_t rows = num_rows;
  const size_t vocab = model.config().vocab_size;
  const kv::DeviceBuffer logits(model.device(), rows * vocab * sizeof(float));
  const kv::DeviceBuffer chosen(model.device(), rows * sizeof(int32_t));
  kv::fill_random(logits, 1, stream);
  const auto choose = [&](int) {
    kv::argmax(
        {logits.as<const float>(), num_rows, model.config().vocab_size, chosen.as<int32_t>()},
        stream);
  };
  choose(0);
  std::vector<int32_t> guesses(rows);
  kv::copy_to_host(guesses.data(), chosen.data(), rows * sizeof(int32_t), stream);
  // A guess is the choice of the row before.
  std::rotate(guesses.begin(), guesses.end() - 1, guesses.end());
  for (size_t row = 0; row < rows; row += 5) guesses[row] = -1;
  const auto on_device = kv::to_device<int32_t>(guesses, stream);
  const auto judge = [&](int) {
    choose(0);
    lesson09::reject_guesses({on_device.as<const int32_t>(), num_rows, chosen.as<int32_t>()},
                             stream);
  };
  constexpr int kCalls = 20;
  return {kv::graph_seconds(stream, kCalls, choose), kv::graph_seconds(stream, kCalls, judge)};
#else
  return {};
#endif
}

void measure_judging(kv::Lab& lab) {
  if (lab.device() != kv::Device::kCuda) {
    kv::user_error("--judging measures a kernel on a GPU: found --device cpu, wanted cuda");
  }
  lab.console.print("Guesses judged on the device, five rows a sequence, microseconds\n\n");
  kv::Records rows;
  for (const int num_rows : {5, 40, 320, 2560}) {
    const auto [choose, judge] = judging_seconds(lab.model(), num_rows);
    rows.add({{"rows of logits", kv::counted(num_rows), "rows"},
              {"argmax", kv::decimal(1e6 * choose, 2), "argmax_microseconds"},
              {"and reject_guesses", kv::decimal(1e6 * judge, 2), "judged_microseconds"},
              {"more", kv::decimal(1e6 * (judge - choose), 2)}});
  }
  lab.report_records("judging", rows);
}

void run(kv::Lab& lab, int longest, bool no_texts, bool judging) {
  lab.title("Lesson 09, guesses");
  if (judging) return measure_judging(lab);
  measure_checks(lab, longest);
  if (!no_texts) measure_texts(lab);
}

}  // namespace

int main(int argc, char** argv) {
  kv::BenchOptions options;
  bool no_texts = false, judging = false;
  kv::CommandLine command("Lesson 09: what a check of guesses costs, and what guessing gains.");
  kv::add_bench_options(command, options);
  command.flag("--no-texts", no_texts, "only what a check costs");
  command.flag("--judging", judging, "only what it takes to judge guesses on a GPU");
  return kv::run_bench("09", command, options.model, argc, argv,
                       [&](kv::Lab& lab) { run(lab, options.longest, no_texts, judging); });
}
