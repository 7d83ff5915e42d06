// The speed of offloads and loads, their cost for a pass beside them, and the number of tokens from
// which loading is quicker than computing.
//
//   lesson11_bench [--model DIR] [--device NAME] [--longest N] [--seed N] [--json FILE]

#include "parts.h"

int main(int argc, char** argv) {
  kv::BenchOptions options;
  bool no_swaps = false;
  kv::CommandLine command("Lesson 11: copies between pools, and when they are worth while.");
  kv::add_bench_options(command, options);
  command.flag("--no-swaps", no_swaps, "only what is quicker, to load or to compute");
  return kv::run_bench("11", command, options.model, argc, argv, [&](kv::Lab& lab) {
    if (!no_swaps) bench::measure_swaps(lab);
    bench::measure_crossing(lab, options.longest);
  });
}
