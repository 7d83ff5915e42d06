// Cost of a step with a flat cache and without one, for growing lengths, in one process.
//
//   lesson02_bench [--model DIR] [--device NAME] [--longest N] [--json FILE]

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/table.h"
#include "engine.h"
#include "lessons/01_no_cache/engine.h"
#include "programs/bench.h"
#include "programs/report.h"

namespace {

constexpr int kRepeats = 9;  // of a pass without a cache
constexpr int kSteps = 41;   // of steps with a cache: shorter, so more of them

/// Median time of the pass that gives the token after `length` others, all of them run again.
double step_without_cache(kv::Engine& engine, int length) {
  const kv::Request request = kv::request_of_length(length, 1);
  std::vector<double> times;
  for (int i = 0; i < kRepeats; ++i) {
    times.push_back(engine.generate({&request, 1}).passes.at(0).seconds);
  }
  return kv::median(times);
}

/// The same token with a cache: the prompt is prefilled but for its last tokens, then one row per
/// pass. The first steps warm up (and, on CUDA, capture the graph).
double step_with_cache(kv::Engine& engine, int length) {
  constexpr int kWarmUp = 3;
  const int prompt = std::max(1, length - kWarmUp);
  const kv::Request request = kv::request_of_length(prompt, 1 + kWarmUp + kSteps);
  const auto passes = engine.generate({&request, 1}).passes;
  std::vector<double> times;
  for (size_t i = passes.size() - kSteps; i < passes.size(); ++i) {
    times.push_back(passes[i].seconds);
  }
  return kv::median(times);
}

void run(const kv::BenchOptions& options) {
  const kv::Console console(options.model.json_file);
  kv::Model model = kv::load_model(options.model);
  const auto none = lesson01::make_engine(model, {});
  const auto flat = lesson02::make_engine(model, {.max_seq_len = options.longest + 2 * kSteps});
  const std::string device = kv::describe(model.device());
  console.print("One step, on {}\n\n", device);

  nlohmann::json points = nlohmann::json::array();
  kv::Table table({"tokens so far", "no cache", "flat cache", "times faster", "on plain kernels"});
  step_without_cache(*none, options.longest);  // warm up: pages, workspace
  for (int length = 1; length <= options.longest && !kv::interrupted(); length *= 2) {
    const double without = step_without_cache(*none, length);
    const double with = step_with_cache(*flat, length);
    model.set_kernel(kv::Kernel::kPlain);
    const double plain = step_with_cache(*flat, length);
    model.set_kernel(kv::kernel_of(options.model));
    table.add({kv::with_commas(length), fmt::format("{:.3f} ms", 1e3 * without),
               fmt::format("{:.3f} ms", 1e3 * with), fmt::format("{:.1f}", without / with),
               fmt::format("{:.3f} ms", 1e3 * plain)});
    points.push_back({{"length", length},
                      {"no_cache_seconds", without},
                      {"flat_seconds", with},
                      {"flat_plain_seconds", plain}});
  }
  console.write(table.to_string());
  kv::write_json(options.model.json_file,
                 {{"lesson", "02"}, {"device", device}, {"points", points}});
}

}  // namespace

int main(int argc, char** argv) {
  kv::BenchOptions options;
  kv::CommandLine command(
      "Lesson 02: time of one step with and without a cache, against the length.");
  kv::add_bench_options(command, options);
  return kv::run_main(command, argc, argv, [&] { run(options); });
}
