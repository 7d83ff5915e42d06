#include "block_manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "lessons/05_refcount_cow/holders.h"

namespace lesson07 {

BlockManager::BlockManager(int num_blocks, int block_size, FreeOrder order, int hash_bits)
    : pool_(num_blocks, block_size, order, hash_bits) {}

std::vector<int32_t> BlockManager::computed_blocks(std::span<const int32_t> tokens,
                                                   Sequence& sequence) const {
  std::vector<int32_t> found;
  const auto size = static_cast<size_t>(block_size());
  for (size_t end = size; end < tokens.size(); end += size) {  // < : the last token is left
    const auto block = tokens.subspan(end - size, size);
    const uint64_t hash = hash_block(sequence.hash, block, sequence.extra_keys);
    const auto match = pool_.find(hash, sequence.prefix, block, sequence.extra_keys);
    if (!match) break;
    found.push_back(match->block_id);
    sequence.hash = hash;
    sequence.prefix = match->prefix;
    ++sequence.num_published;
  }
  return found;
}

std::optional<BlockManager::Start> BlockManager::start(std::span<const int32_t> tokens,
                                                       ExtraKeys extra_keys) {
  Sequence sequence{.table = BlockTable(block_size()),
                    .extra_keys = std::move(extra_keys),
                    .num_published = 0,
                    .hash = {},
                    .prefix = {}};
  const std::vector<int32_t> found = computed_blocks(tokens, sequence);
  const int cached = static_cast<int>(found.size()) * block_size();
  const int rest = static_cast<int>(tokens.size()) - cached;

  // A hit on a free block takes one from the free ones, too.
  const auto revived = std::count_if(found.begin(), found.end(),
                                     [&](int32_t id) { return pool_.block(id).ref_cnt == 0; });
  const int needed = blocks_for(rest, block_size());
  if (needed + revived > pool_.num_free()) return std::nullopt;

  // What allocates comes first; from the pin on nothing can fail.
  std::vector<int32_t> fresh(static_cast<size_t>(needed));
  make_room(sequence.table, found.size() + fresh.size());
  pool_.expect_events(fresh.size());
  BlockTable& table = sequences_.emplace(next_seq_, std::move(sequence)).first->second.table;
  pool_.touch(found);  // pinned, before anything else is taken
  pool_.get_new_blocks(fresh);
  table.extend(cached, found);
  table.extend(rest, fresh);
  num_asked_ += static_cast<int64_t>(tokens.size());
  num_found_ += cached;
  return Start{.seq = next_seq_++, .num_cached_tokens = cached};
}

bool BlockManager::extend(std::span<const Growth> growths) {
  const std::map<int, int> more = lesson03::tokens_by_sequence(growths);
  int64_t needed = 0;
  for (const auto& [seq, num_tokens] : more) needed += table(seq).blocks_to_extend(num_tokens);
  if (needed > pool_.num_free()) return false;
  std::vector<int32_t> fresh(static_cast<size_t>(needed));
  for (const auto& [seq, num_tokens] : more) {
    BlockTable& table = find(seq).table;
    make_room(table, static_cast<size_t>(table.num_blocks() + table.blocks_to_extend(num_tokens)));
  }
  pool_.expect_events(fresh.size());
  pool_.get_new_blocks(fresh);
  std::span<const int32_t> rest = fresh;
  for (const auto& [seq, num_tokens] : more) {
    BlockTable& table = find(seq).table;
    const auto count = static_cast<size_t>(table.blocks_to_extend(num_tokens));
    table.extend(num_tokens, rest.first(count));
    rest = rest.subspan(count);
  }
  return true;
}

/// For a table of so many blocks, and for giving all of them back: free_sequence() allocates
/// nothing.
void BlockManager::make_room(BlockTable& table, size_t num_blocks) {
  table.reserve(num_blocks);
  if (num_blocks > freed_.capacity()) freed_.reserve(2 * num_blocks);
}

void BlockManager::publish(int seq, std::span<const int32_t> tokens) {
  Sequence& sequence = find(seq);
  const BlockTable& table = sequence.table;
  if (tokens.size() < static_cast<size_t>(table.num_tokens())) {
    throw std::invalid_argument(fmt::format("publish: {} tokens for {} slots of sequence {}",
                                            tokens.size(), table.num_tokens(), seq));
  }
  const auto size = static_cast<size_t>(block_size());
  for (const int num_full = table.num_tokens() / block_size(); sequence.num_published < num_full;
       ++sequence.num_published) {
    const auto i = static_cast<size_t>(sequence.num_published);
    const auto block = tokens.subspan(i * size, size);
    const uint64_t hash = hash_block(sequence.hash, block, sequence.extra_keys);
    sequence.prefix = pool_.cache_full_block(table.block_ids()[i], hash, sequence.prefix, block,
                                             sequence.extra_keys);
    sequence.hash = hash;
  }
}

void BlockManager::free_sequence(int seq) {
  const std::span<const int32_t> ids = find(seq).table.block_ids();
  freed_.assign(ids.rbegin(), ids.rend());  // tails are taken before heads
  pool_.free_blocks(freed_);
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
  pool_.check();
  lesson05::Holders holders(pool_.num_blocks() + 1);  // block 0 is nobody's
  for (const auto& [seq, sequence] : sequences_) holders.add(seq, sequence.table);
  for (int32_t id = 1; id <= pool_.num_blocks(); ++id) holders.check(id, pool_.block(id).ref_cnt);
}

}  // namespace lesson07
