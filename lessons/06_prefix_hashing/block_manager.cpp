#include "block_manager.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "lessons/05_refcount_cow/holders.h"

namespace lesson06 {

BlockManager::BlockManager(int num_blocks, int block_size, BlockHasher hasher,
                           PrefixIndex::Check check)
    : block_size_(BlockTable(block_size).block_size()),
      hasher_(std::move(hasher)),
      pool_(num_blocks),
      index_(num_blocks, check) {}

BlockManager::Start BlockManager::start(std::span<const int32_t> tokens) {
  Sequence sequence{.table = BlockTable(block_size_), .num_published = 0, .hash = {}, .prefix = {}};
  const auto size = static_cast<size_t>(block_size_);
  for (size_t end = size; end < tokens.size(); end += size) {  // < : the last token is left
    const auto block = tokens.subspan(end - size, size);
    const uint64_t hash = hasher_(sequence.hash, block);
    const auto match = index_.find(hash, sequence.prefix, block);
    if (!match) break;
    pool_.take(match->block_id);
    sequence.table.extend(block_size_, {&match->block_id, 1});
    sequence.hash = hash;
    sequence.prefix = match->prefix;
    ++sequence.num_published;
  }
  const int cached = sequence.table.num_tokens();
  num_asked_ += static_cast<int64_t>(tokens.size());
  num_found_ += cached;
  sequences_.emplace(next_seq_, std::move(sequence));
  return {.seq = next_seq_++, .num_cached_tokens = cached};
}

bool BlockManager::extend(std::span<const Growth> growths) {
  const std::map<int, int> more = lesson03::tokens_by_sequence(growths);
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
  Sequence& sequence = find(seq);
  const BlockTable& table = sequence.table;
  if (tokens.size() < static_cast<size_t>(table.num_tokens())) {
    throw std::invalid_argument(fmt::format("publish: {} tokens for {} slots of sequence {}",
                                            tokens.size(), table.num_tokens(), seq));
  }
  const auto size = static_cast<size_t>(block_size_);
  for (const int num_full = table.num_tokens() / block_size_; sequence.num_published < num_full;
       ++sequence.num_published) {
    const auto i = static_cast<size_t>(sequence.num_published);
    const auto block = tokens.subspan(i * size, size);
    const uint64_t hash = hasher_(sequence.hash, block);
    sequence.prefix = index_.publish(table.block_ids()[i], hash, sequence.prefix, block);
    sequence.hash = hash;
  }
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
