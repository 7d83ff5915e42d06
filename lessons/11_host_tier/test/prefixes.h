#pragma once

// Passes without a model: K and V of a token are numbers, which say which tokens they were computed
// from.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lessons/08_scheduler/scheduler.h"
#include "lessons/11_host_tier/test/token_bytes.h"

namespace lesson11_test {

/// A salt, or none if it is 0.
inline lesson06::ExtraKeys keys_of(int salt) {
  if (salt == 0) return {};
  return {{lesson06::ExtraKey::Kind::kSalt, std::to_string(salt)}};
}

/// Numbers of prefixes: for each token that of the prefix that ends with it. Equal numbers stand
/// for equal K and V.
class Prefixes {
 public:
  std::vector<int64_t> of(std::span<const int32_t> tokens, int salt = 0) {
    std::vector<int64_t> all;
    int64_t prefix = -salt;
    for (const int32_t token : tokens) {
      prefix = numbers_.try_emplace({prefix, token}, std::ssize(numbers_) + 1).first->second;
      all.push_back(prefix);
    }
    return all;
  }

 private:
  std::map<std::pair<int64_t, int32_t>, int64_t> numbers_;
};

/// Writes the tokens of each chunk into the blocks. Then compares all tokens that a chunk reads.
/// `prefixes_of` has the numbers of a request's tokens.
template <class Scheduler, class PrefixesOf>
void run_chunks(const lesson05::BlockRegions& regions, const Scheduler& scheduler,
                std::span<const lesson08::Chunk> chunks, const PrefixesOf& prefixes_of) {
  for (const bool writes : {true, false}) {
    for (const lesson08::Chunk& chunk : chunks) {
      const auto& request = scheduler.request(chunk.id);
      const auto blocks = scheduler.manager().table(chunk.id).block_ids();
      const std::vector<int64_t> wanted = prefixes_of(request);
      const int end = request.num_computed + chunk.num_tokens;
      for (int i = writes ? request.num_computed : 0; i < end; ++i) {
        const auto block = blocks[i / regions.block_size()];
        visit(regions, block, i % regions.block_size(), wanted[i], writes);
      }
    }
  }
}

/// Gives a token to each request of the pass that wants one. Calls `finish` for a request that got
/// its last one.
template <class Scheduler, class Finish>
void add_tokens(Scheduler& scheduler, std::span<const lesson08::Chunk> chunks, int32_t token,
                const Finish& finish) {
  for (const lesson08::Chunk& chunk : chunks) {
    if (!scheduler.wants_token(chunk.id)) continue;
    scheduler.add_token(chunk.id, token);
    const auto& request = scheduler.request(chunk.id);
    if (std::ssize(request.tokens) == request.num_prompt + request.max_tokens) finish(chunk.id);
  }
}

}  // namespace lesson11_test
