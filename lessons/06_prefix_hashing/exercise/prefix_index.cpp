// Exercise of lesson 06: write what is missing here, then `./course exercise 6`.
// What each function promises stands in ../prefix_index.h. The lesson's version is
// ../prefix_index.cpp: try before you look.

#include "prefix_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "common/todo.h"

namespace lesson06 {

PrefixIndex::PrefixIndex(int num_blocks, Check check) : check_(check) {
  if (num_blocks < 1) throw std::invalid_argument("PrefixIndex: wanted at least 1 block");
  contents_.resize(static_cast<size_t>(num_blocks));
}

bool PrefixIndex::equal(const BlockContent& content, std::optional<PrefixId> parent,
                        std::span<const int32_t> tokens) const {
  // kHashOnly trusts the hash. kExact wants the matched parent and the tokens.
  KV_TODO("PrefixIndex::equal");
}

std::optional<PrefixIndex::Match> PrefixIndex::find(uint64_t hash, std::optional<PrefixId> parent,
                                                    std::span<const int32_t> tokens) const {
  // Every block under this hash is a candidate. Count those that are refused.
  KV_TODO("PrefixIndex::find");
}

PrefixId PrefixIndex::publish(int32_t block_id, uint64_t hash, std::optional<PrefixId> parent,
                              std::span<const int32_t> tokens) {
  // If a block with the same content is there, the prefix has its number; else a new one. A block
  // that is in the index already is std::logic_error. Asking yourself with find() must not count as
  // refused.
  KV_TODO("PrefixIndex::publish");
}

bool PrefixIndex::forget(int32_t block_id) {
  // Take this block out, and not another one under the same hash.
  KV_TODO("PrefixIndex::forget");
}

const BlockContent* PrefixIndex::content(int32_t block_id) const {
  if (block_id < 0 || static_cast<size_t>(block_id) >= contents_.size()) {
    throw std::out_of_range(fmt::format("PrefixIndex: there is no block {}, the pool has {}",
                                        block_id, contents_.size()));
  }
  const std::optional<BlockContent>& content = contents_[static_cast<size_t>(block_id)];
  return content ? &*content : nullptr;
}

void PrefixIndex::check() const {
  size_t count = 0;
  for (const auto& content : contents_) count += content.has_value();
  if (count != by_hash_.size()) {
    throw std::logic_error(
        fmt::format("{} blocks are published, the index names {}", count, by_hash_.size()));
  }
  for (const auto& [hash, id] : by_hash_) {
    const auto& content = contents_.at(static_cast<size_t>(id));
    if (!content || content->hash != hash) {
      throw std::logic_error(fmt::format("the index names block {} under a hash it has not", id));
    }
  }
}

}  // namespace lesson06
