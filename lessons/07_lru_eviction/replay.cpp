#include "replay.h"

#include <algorithm>
#include <random>

namespace lesson07 {
namespace {

/// The first of those that nobody can find, else the one stored longest ago.
KvBlock& stored_longest_ago(FreeBlockQueue& queue) {
  const std::vector<const KvBlock*> all = queue.all();
  const auto age = [](const KvBlock* block) { return block->is_cached ? block->cached_at : -1; };
  return const_cast<KvBlock&>(**std::ranges::min_element(all, {}, age));
}

}  // namespace

const char* name_of(Policy policy) {
  return policy == Policy::kLru ? "LRU" : policy == Policy::kFifo ? "FIFO" : "random";
}

ReplayResult replay(const std::vector<TraceRequest>& trace, int num_blocks, int block_size,
                    Policy policy, FreeOrder order) {
  BlockManager manager(num_blocks, block_size, order);
  std::mt19937_64 rng(1);
  if (policy == Policy::kFifo) manager.pool().set_choose_victim(stored_longest_ago);
  if (policy == Policy::kRandom) {
    manager.pool().set_choose_victim([&rng](FreeBlockQueue& queue) -> KvBlock& {
      const std::vector<const KvBlock*> all = queue.all();
      return const_cast<KvBlock&>(*all[rng() % all.size()]);
    });
  }
  ReplayResult result;
  for (const TraceRequest& request : trace) {
    const auto start = manager.start(request.prompt);
    result.asked += static_cast<int64_t>(request.prompt.size());
    if (!start) {
      ++result.refused;
      continue;
    }
    result.found += start->num_cached_tokens;
    // The answer's last token is drawn and never run.
    std::vector<int32_t> tokens = request.prompt;
    tokens.insert(tokens.end(), request.answer.begin(), request.answer.end() - 1);
    const Growth growth{.seq = start->seq,
                        .num_tokens = static_cast<int>(request.answer.size()) - 1};
    manager.publish(start->seq, request.prompt);
    if (manager.extend({&growth, 1})) manager.publish(start->seq, tokens);
    manager.free_sequence(start->seq);
  }
  result.metrics = manager.pool().metrics();
  return result;
}

}  // namespace lesson07
