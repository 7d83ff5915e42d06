// The speed of offloads and loads, their cost for a pass beside them, and the number of tokens from
// which loading is quicker than computing.
//
//   lesson11_bench [--model DIR] [--device NAME] [--longest N] [--seed N] [--json FILE]

#include <nlohmann/json.hpp>

#include "crossing.h"
#include "programs/bench.h"
#include "programs/report.h"
#include "swap.h"

int main(int argc, char** argv) {
  kv::BenchOptions options;
  bool no_swaps = false;
  kv::CommandLine command("Lesson 11: copies between pools, and when they are worth while.");
  kv::add_bench_options(command, options);
  command.flag("--no-swaps", no_swaps, "only what is quicker, to load or to compute");
  return kv::run_main(command, argc, argv, [&] {
    const kv::Console console(options.model.json_file);
    const kv::Device device = kv::resolve_device(options.model.device);
    nlohmann::json document;
    if (!no_swaps) {
      document = bench::measure_swaps(console, device, options.model.sampling.seed);
      console.print("\n");
    }
    document["crossing"] = bench::measure_crossing(console, options);
    document["lesson"] = "11";
    document["device"] = kv::describe(device);
    kv::write_json(options.model.json_file, document);
  });
}
