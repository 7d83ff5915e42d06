#include "prefix_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace lesson06 {

PrefixIndex::PrefixIndex(int num_blocks, Check check) : check_(check) {
  if (num_blocks < 1) throw std::invalid_argument("PrefixIndex: wanted at least 1 block");
  contents_.resize(static_cast<size_t>(num_blocks));
}

bool PrefixIndex::equal(const BlockContent& content, std::optional<PrefixId> parent,
                        std::span<const int32_t> tokens) const {
  if (check_ == Check::kHashOnly) return true;
  return content.parent == parent &&
         std::equal(content.tokens.begin(), content.tokens.end(), tokens.begin(), tokens.end());
}

std::optional<PrefixIndex::Match> PrefixIndex::find(uint64_t hash, std::optional<PrefixId> parent,
                                                    std::span<const int32_t> tokens) const {
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto candidate = begin; candidate != end; ++candidate) {
    const BlockContent& content = *contents_[static_cast<size_t>(candidate->second)];
    if (equal(content, parent, tokens)) {
      return Match{.block_id = candidate->second, .prefix = content.prefix};
    }
    ++num_refused_;
  }
  return std::nullopt;
}

PrefixId PrefixIndex::publish(int32_t block_id, uint64_t hash, std::optional<PrefixId> parent,
                              std::span<const int32_t> tokens) {
  if (content(block_id) != nullptr) {
    throw std::logic_error(fmt::format("PrefixIndex: block {} is in the index already", block_id));
  }
  const int64_t refused = num_refused_;
  const std::optional<Match> same = find(hash, parent, tokens);
  num_refused_ = refused;  // nobody asked
  const PrefixId prefix = same ? same->prefix : next_prefix_++;
  BlockContent content{
      .hash = hash, .parent = parent, .prefix = prefix, .tokens = {tokens.begin(), tokens.end()}};
  by_hash_.emplace(hash, block_id);
  contents_[static_cast<size_t>(block_id)] = std::move(content);  // what may throw has been done
  return prefix;
}

bool PrefixIndex::forget(int32_t block_id) {
  const BlockContent* const old = content(block_id);
  if (old == nullptr) return false;
  const auto [begin, end] = by_hash_.equal_range(old->hash);
  by_hash_.erase(std::find_if(begin, end, [&](const auto& e) { return e.second == block_id; }));
  contents_[static_cast<size_t>(block_id)].reset();
  return true;
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
