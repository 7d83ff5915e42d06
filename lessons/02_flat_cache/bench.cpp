// What a step costs with a flat cache and without one, for growing lengths, in one process.
//
//   lesson02_bench [--model DIR] [--device NAME] [--longest N] [--json FILE]

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/cli.h"
#include "engine.h"
#include "lessons/01_no_cache/engine.h"

namespace {

struct Options {
  kv::GenerateOptions model;
  int longest = 1024;
};

constexpr int kRepeats = 9;  // of a pass without a cache
constexpr int kSteps = 41;   // with one: shorter, so more of them

double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

kv::Request request_of(int length, int max_tokens) {
  kv::Request request;
  for (int i = 0; i < length; ++i) request.prompt.push_back(i % 200);
  request.max_tokens = max_tokens;
  return request;
}

/// Median time of the pass that gives the token after `length` others, all of them run again.
double step_without_cache(kv::Engine& engine, int length) {
  const kv::Request request = request_of(length, 1);
  std::vector<double> times;
  for (int i = 0; i < kRepeats; ++i) {
    times.push_back(engine.generate({&request, 1}).passes.at(0).seconds);
  }
  return median(times);
}

/// The same token with a cache: the prompt is prefilled but for its last tokens, then one row per
/// pass. The first steps warm up (and, on CUDA, capture the graph).
double step_with_cache(kv::Engine& engine, int length) {
  constexpr int kWarmUp = 3;
  const int prompt = std::max(1, length - kWarmUp);
  const kv::Request request = request_of(prompt, 1 + kWarmUp + kSteps);
  const auto passes = engine.generate({&request, 1}).passes;
  std::vector<double> times;
  for (size_t i = passes.size() - kSteps; i < passes.size(); ++i) {
    times.push_back(passes[i].seconds);
  }
  return median(times);
}

void run(const Options& options) {
  const kv::Console console(options.model.json_file);
  kv::Model model = kv::load_model(options.model);
  const auto none = lesson01::make_engine(model, {});
  const auto flat = lesson02::make_engine(model, {.max_seq_len = options.longest + 2 * kSteps});
  const std::string device = kv::describe(model.device());
  console.print("One step, on {}\n\n", device);

  nlohmann::json points = nlohmann::json::array();
  kv::Table table({"tokens so far", "no cache", "flat cache", "times faster"});
  step_without_cache(*none, options.longest);  // warm up: pages, workspace
  for (int length = 1; length <= options.longest && !kv::interrupted(); length *= 2) {
    const double without = step_without_cache(*none, length);
    const double with = step_with_cache(*flat, length);
    table.add({kv::with_commas(length), fmt::format("{:.3f} ms", 1e3 * without),
               fmt::format("{:.3f} ms", 1e3 * with), fmt::format("{:.1f}", without / with)});
    points.push_back({{"length", length}, {"no_cache_seconds", without}, {"flat_seconds", with}});
  }
  console.write(table.to_string());
  kv::write_json(options.model.json_file,
                 {{"lesson", "02"}, {"device", device}, {"points", points}});
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Lesson 02: time of one step with and without a cache, against the length.\n"};
  kv::add_model_options(app, options.model);
  app.add_option("--longest", options.longest, "longest sequence; lengths double from 1")
      ->type_name("N")
      ->check(kv::between(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--json", options.model.json_file, "also write the numbers as JSON; - for stdout")
      ->type_name("FILE");
  return kv::run_main(app, argc, argv, [&] { run(options); });
}
