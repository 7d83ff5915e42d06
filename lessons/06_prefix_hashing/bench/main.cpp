// Cost of a hit, and its gain: finding the blocks of a prompt against computing them.
//
//   lesson06_bench [--model DIR] [--device NAME] [--longest N] [--json FILE]

#include <cmath>
#include <random>
#include <vector>

#include "engine.h"
#include "programs/lab.h"

namespace {

constexpr int kBlockSize = 16;

/// Seconds to hash, look up, compare, take and give back all full blocks of a prompt of num_tokens
/// tokens. One call is too short to time, so kFinds are timed together.
double find_seconds(int num_tokens) {
  constexpr int kFinds = 100;
  std::mt19937 rng(1);
  std::vector<int32_t> tokens(num_tokens);
  for (int32_t& token : tokens) token = static_cast<int32_t>(rng() % 150'000);
  lesson06::BlockPool pool(lesson06::blocks_for(num_tokens, kBlockSize), kBlockSize);
  lesson06::KvCacheManager manager(pool);
  manager.allocate_slots(0, num_tokens);
  lesson06::BlockHashes hashes;
  manager.cache_blocks(0, tokens, hashes, num_tokens);
  manager.free(0);
  const double all = kv::median_seconds([&] {
    for (int i = 0; i < kFinds; ++i) {
      lesson06::BlockHashes new_hashes;  // every request makes its own
      const lesson06::ComputedBlocks computed = manager.get_computed_blocks(tokens, new_hashes);
      manager.allocate_slots(1, 0, computed);
      manager.free(1);
    }
  });
  return all / kFinds;
}

double prefill_seconds(kv::Model& model, int num_tokens) {
  const auto engine = lesson06::make_engine(model, {.block_size = kBlockSize});
  kv::Request request = kv::request_of_length(num_tokens, 1);
  int first_token = 0;  // another one each time: nothing is found
  return kv::median_seconds([&] {
    request.prompt[0] = first_token++;
    engine->generate({&request, 1});
  });
}

void run(kv::Lab& lab, const kv::BenchOptions& options) {
  lab.title(fmt::format("A prompt found, and computed, blocks of {}", kBlockSize));
  kv::Records points;
  for (int length = 64; length <= options.longest && !kv::interrupted(); length *= 2) {
    const int blocks = (length - 1) / kBlockSize;  // the last token has to run
    const double find = find_seconds(length);
    const double compute = prefill_seconds(lab.model(), length);
    points.add({{"prompt", kv::counted(length), "length"},
                {"blocks found", kv::counted(blocks), "blocks"},
                {"found in", kv::us(find, 2), "find_seconds"},
                {"a block", kv::ns(find / blocks, 0)},
                {"computed in", kv::ms(compute, 2), "prefill_seconds"},
                {"times", kv::counted(std::llround(compute / find))}});
  }
  lab.report_records("points", points);
}

}  // namespace

int main(int argc, char** argv) {
  return kv::bench_main("06",
                        "Lesson 06: time of finding a prompt's blocks, and of computing them.",
                        argc, argv, run);
}
