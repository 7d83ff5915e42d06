// Cost of a step without a cache: a pass over the whole sequence, for growing lengths.
//
//   lesson01_bench [--model DIR] [--device NAME] [--longest N] [--json FILE]

#include "engine.h"
#include "programs/lab.h"

namespace {

constexpr int kRepeats = 9;

void run(kv::Lab& lab, const kv::BenchOptions& options) {
  const auto engine = lesson01::make_engine(lab.model(), {});
  lab.title("One step without a cache");
  kv::prompt_seconds(*engine, options.longest, kRepeats);  // warm up: pages, workspace
  kv::Records points;
  for (int length = 1; length <= options.longest && !kv::interrupted(); length *= 2) {
    const double seconds = kv::prompt_seconds(*engine, length, kRepeats);
    lab.model().set_kernel(kv::Kernel::kPlain);
    const double plain = kv::prompt_seconds(*engine, length, kRepeats);
    lab.model().set_kernel(kv::kernel_of(options.model));
    points.add({{"tokens so far", kv::counted(length), "length"},
                {"rows", kv::counted(length), "rows"},
                {"time of the next token", kv::ms(seconds, 3), "seconds"},
                {"on plain kernels", kv::ms(plain, 3), "plain_seconds"}});
  }
  lab.report_records("points", points);
}

}  // namespace

int main(int argc, char** argv) {
  return kv::bench_main("01", "Lesson 01: time of one step without a cache, against the length.",
                        argc, argv, run);
}
