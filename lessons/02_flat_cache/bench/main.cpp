// Cost of a step with a flat cache and without one, for growing lengths, in one process.
//
//   lesson02_bench [--model DIR] [--device NAME] [--longest N] [--json FILE]

#include <algorithm>

#include "engine.h"
#include "lessons/01_no_cache/engine.h"
#include "programs/lab.h"

namespace {

constexpr int kRepeats = 9;  // of a pass without a cache
constexpr int kSteps = 41;   // of steps with a cache: shorter, so more of them

void run(kv::Lab& lab, const kv::BenchOptions& options) {
  kv::Model& model = lab.model();
  const auto none = lesson01::make_engine(model, {});
  const auto flat = lesson02::make_engine(model, {.max_seq_len = options.longest + 2 * kSteps});
  // The time of the token after `length` others; the steps that warm up are among them.
  const auto with_cache = [&](int length) {
    return kv::step_seconds(*flat, std::max(1, length - kv::kWarmUpSteps), kSteps);
  };
  lab.title("One step");
  kv::prompt_seconds(*none, options.longest, kRepeats);  // warm up: pages, workspace
  kv::Records points;
  for (int length = 1; length <= options.longest && !kv::interrupted(); length *= 2) {
    const double without = kv::prompt_seconds(*none, length, kRepeats);
    const double with = with_cache(length);
    model.set_kernel(kv::Kernel::kPlain);
    const double plain = with_cache(length);
    model.set_kernel(kv::kernel_of(options.model));
    points.add({{"tokens so far", kv::counted(length), "length"},
                {"no cache", kv::ms(without, 3), "no_cache_seconds"},
                {"flat cache", kv::ms(with, 3), "flat_seconds"},
                {"times faster", kv::decimal(without / with, 1)},
                {"on plain kernels", kv::ms(plain, 3), "flat_plain_seconds"}});
  }
  lab.report_records("points", points);
}

}  // namespace

int main(int argc, char** argv) {
  return kv::bench_main("02",
                        "Lesson 02: time of one step with and without a cache, against the length.",
                        argc, argv, run);
}
