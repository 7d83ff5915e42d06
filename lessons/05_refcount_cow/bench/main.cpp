// Cost of another continuation of a prompt, up to its first token: a fork and its end, a private
// copy of the prompt's blocks, or the prompt computed again. Also the copy of one block that a fork
// may cause later.
//
//   lesson05_bench [--model DIR] [--device NAME] [--longest N] [--json FILE]

#include <stdexcept>
#include <vector>

#include "copy_blocks.h"
#include "engine.h"
#include "programs/lab.h"

namespace {

constexpr int kBlockSize = 16;
constexpr int kRepeats = 15;

/// Seconds of a fork of a sequence of num_tokens tokens, and its end. One is too short to time, so
/// kForks are timed together.
double fork_and_free_seconds(int num_tokens) {
  constexpr int kForks = 200;
  lesson05::BlockManager manager(lesson05::blocks_for(num_tokens, kBlockSize), kBlockSize);
  const lesson05::Growth growth{.seq = manager.add_sequence(), .num_tokens = num_tokens};
  if (!manager.append({&growth, 1})) throw std::logic_error("the pool is large enough");
  const double all = kv::median_seconds([&] {
    for (int i = 0; i < kForks; ++i) manager.free_sequence(manager.fork(growth.seq));
  });
  return all / kForks;
}

/// Seconds to copy `num_blocks` blocks from the first half of a cache to its second half.
double copy_seconds(const kv::Model& model, int num_blocks) {
  lesson03::PagedKvCache cache(model.config(), model.stream(), 2 * num_blocks, kBlockSize);
  const lesson05::BlockRegions regions = lesson05::regions_of(cache, model.stream());
  std::vector<lesson05::BlockCopy> copies;
  for (int i = 0; i < num_blocks; ++i) copies.push_back({i, num_blocks + i});
  return kv::median_seconds([&] {
    lesson05::copy_blocks({.regions = &regions, .copies = copies}, model.stream());
    model.stream().synchronize();
  });
}

void run(kv::Lab& lab, const kv::BenchOptions& options) {
  kv::Model& model = lab.model();
  lab.title(fmt::format("One more continuation of a prompt, blocks of {}", kBlockSize));
  const double one_block = copy_seconds(model, 1);
  const auto engine = lesson05::make_engine(model, {.block_size = kBlockSize});
  kv::Records points;
  for (int length = 64; length <= options.longest && !kv::interrupted(); length *= 2) {
    const int blocks = lesson05::blocks_for(length, kBlockSize);
    const double fork = fork_and_free_seconds(length);
    const double copy = copy_seconds(model, blocks);
    const double again = kv::prompt_seconds(*engine, length, kRepeats);
    points.add({{"prompt", kv::counted(length), "length"},
                {"blocks", kv::counted(blocks)},
                {"fork + free", kv::us(fork, 2), "fork_and_free_seconds"},
                {"one block copied", kv::us(one_block, 2), "one_block_copy_seconds"},
                {"private copy", kv::us(copy, 2), "private_copy_seconds"},
                {"computed again", kv::ms(again, 2), "prefill_seconds"}});
  }
  lab.report_records("points", points);
}

}  // namespace

int main(int argc, char** argv) {
  return kv::bench_main("05",
                        "Lesson 05: time of a fork, of copies, and of computing a prompt again.",
                        argc, argv, run);
}
