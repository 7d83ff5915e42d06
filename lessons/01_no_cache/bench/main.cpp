// Cost of a step without a cache: a pass over the whole sequence, for growing lengths.
//
//   lesson01_bench [--model DIR] [--device NAME] [--longest N] [--json FILE]

#include <nlohmann/json.hpp>
#include <vector>

#include "common/table.h"
#include "engine.h"
#include "programs/bench.h"
#include "programs/report.h"

namespace {

/// Median time of the pass that gives the token after `length` others.
double step_seconds(kv::Engine& engine, int length) {
  const kv::Request request = kv::request_of_length(length, 1);
  std::vector<double> times;
  constexpr int kRepeats = 9;
  for (int i = 0; i < kRepeats; ++i) {
    times.push_back(engine.generate({&request, 1}).passes.at(0).seconds);
  }
  return kv::median(times);
}

void run(const kv::BenchOptions& options) {
  const kv::Console console(options.model.json_file);
  kv::Model model = kv::load_model(options.model);
  const auto engine = lesson01::make_engine(model, {});
  const std::string device = kv::describe(model.device());
  console.print("One step without a cache, on {}\n\n", device);

  nlohmann::json points = nlohmann::json::array();
  kv::Table table({"tokens so far", "rows", "time of the next token", "on plain kernels"});
  step_seconds(*engine, options.longest);  // warm up: pages, workspace
  for (int length = 1; length <= options.longest && !kv::interrupted(); length *= 2) {
    const double seconds = step_seconds(*engine, length);
    model.set_kernel(kv::Kernel::kPlain);
    const double plain = step_seconds(*engine, length);
    model.set_kernel(kv::kernel_of(options.model));
    table.add({kv::with_commas(length), kv::with_commas(length),
               fmt::format("{:.3f} ms", 1e3 * seconds), fmt::format("{:.3f} ms", 1e3 * plain)});
    points.push_back(
        {{"length", length}, {"rows", length}, {"seconds", seconds}, {"plain_seconds", plain}});
  }
  console.write(table.to_string());
  kv::write_json(options.model.json_file,
                 {{"lesson", "01"}, {"device", device}, {"points", points}});
}

}  // namespace

int main(int argc, char** argv) {
  kv::BenchOptions options;
  kv::CommandLine command("Lesson 01: time of one step without a cache, against the length.");
  kv::add_bench_options(command, options);
  return kv::run_main(command, argc, argv, [&] { run(options); });
}
