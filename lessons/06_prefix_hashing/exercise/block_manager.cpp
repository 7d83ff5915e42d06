// Exercise of lesson 06: write what is missing here, then `./course exercise 6`.
// What each function promises stands in ../block_manager.h. The lesson's version is
// ../block_manager.cpp: try before you look.

#include "block_manager.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "common/todo.h"
#include "lessons/05_refcount_cow/holders.h"

namespace lesson06 {

BlockManager::BlockManager(int num_blocks, int block_size, BlockHasher hasher,
                           PrefixIndex::Check check)
    : block_size_(BlockTable(block_size).block_size()),
      hasher_(std::move(hasher)),
      pool_(num_blocks),
      index_(num_blocks, check) {}

BlockManager::Start BlockManager::start(std::span<const int32_t> tokens) {
  // Full block by full block: hash it behind the last one, ask the index with the parent that was
  // matched, take() the block at once, go on. The first miss ends it, and the last token is never
  // cached. Count what was asked and found. Then the sequence has its number.
  KV_TODO("BlockManager::start");
}

bool BlockManager::extend(std::span<const Growth> growths) {
  std::map<int, int> more;  // a sequence may be named more than once
  for (const Growth& growth : growths) {
    int& sum = more[growth.seq];
    const int64_t tokens = int64_t{sum} + growth.num_tokens;
    if (growth.num_tokens < 0 || tokens > INT32_MAX) {
      throw std::invalid_argument(
          fmt::format("BlockManager: {} tokens more for sequence {}", tokens, growth.seq));
    }
    sum = static_cast<int>(tokens);
  }
  int64_t needed = 0;
  for (const auto& [seq, num_tokens] : more) needed += table(seq).blocks_to_extend(num_tokens);
  if (needed > pool_.num_free()) return false;

  for (const auto& [seq, num_tokens] : more) {
    BlockTable& table = find(seq).table;
    std::vector<int32_t> fresh;
    for (int i = table.blocks_to_extend(num_tokens); i > 0; --i) {
      fresh.push_back(*pool_.allocate());
      index_.forget(fresh.back());
    }
    table.extend(num_tokens, fresh);
  }
  return true;
}

void BlockManager::publish(int seq, std::span<const int32_t> tokens) {
  // The blocks from num_published on that are full by now, each behind the hash and the prefix of
  // the one before it. Fewer tokens than slots: std::invalid_argument.
  KV_TODO("BlockManager::publish");
}

void BlockManager::free_sequence(int seq) {
  // The pool is a stack, and what is freed last is taken first. So the tail is freed last: a head
  // is of use without its tail, a tail without its head is of none.
  for (const int32_t id : find(seq).table.block_ids()) pool_.release(id);
  sequences_.erase(seq);
}

BlockManager::Sequence& BlockManager::find(int seq) {
  const auto found = sequences_.find(seq);
  if (found == sequences_.end()) {
    throw std::out_of_range(fmt::format("BlockManager: there is no sequence {}", seq));
  }
  return found->second;
}

const BlockTable& BlockManager::table(int seq) const {
  return const_cast<BlockManager*>(this)->find(seq).table;
}

std::vector<int> BlockManager::sequences() const {
  std::vector<int> numbers;
  for (const auto& [seq, sequence] : sequences_) numbers.push_back(seq);
  return numbers;
}

void BlockManager::check() const {
  index_.check();
  lesson05::Holders holders(pool_.num_blocks());
  for (const auto& [seq, sequence] : sequences_) holders.add(seq, sequence.table);
  for (int32_t id = 0; id < pool_.num_blocks(); ++id) holders.check(id, pool_.ref_cnt(id));
  if (holders.num_held() != pool_.num_used()) {
    throw std::logic_error(fmt::format("{} blocks are held, the pool counts {} used",
                                       holders.num_held(), pool_.num_used()));
  }
}

}  // namespace lesson06
