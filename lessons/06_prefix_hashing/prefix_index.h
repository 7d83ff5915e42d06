#pragma once

// Which blocks hold which prefixes. A hash finds candidates and proves nothing: a hit also needs
// the same tokens, the same extra keys and the same parent. Block by block, that proves the whole
// prefix from token 0 on. Source: vLLM's BlockHashToBlockMap (v0.22.1: vllm/v1/core/block_pool.py),
// which trusts the hash.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "block_hash.h"

namespace lesson06 {

/// A prefix that has been seen: token 0 up to the end of some block. Equal numbers mean equal
/// prefixes; a number is never reused. Either the index gives all numbers, or its caller does
/// (BlockKey::prefix): the index does not know which ones the caller gives. Blocks with equal
/// content after one parent share a number as long as one of them is there. A prefix that was lost
/// and is computed again has a new number; blocks cached after the old one are not found any more.
using PrefixId = int64_t;

/// The key under which a block is found.
struct BlockKey {
  uint64_t hash = 0;
  std::optional<PrefixId> parent;        // no value: the first block
  std::span<const int32_t> tokens;       // [block_size]
  std::span<const ExtraKey> extra_keys;  // sorted
  std::optional<PrefixId> prefix = {};   // number for a new prefix; no value means the next
};
/// Whether two blocks with one hash have the same content and parent, which a hash cannot prove.
bool same_content(const BlockKey& a, const BlockKey& b);

/// A block that can be found, and its key. One cache line.
struct alignas(64) CachedBlock {
  uint64_t hash = 0;
  std::optional<PrefixId> parent;
  PrefixId prefix = 0;  // with this block
  ExtraKeys extra_keys;
  int32_t id = 0;
  int32_t next = kNotCached;  // next block in its bucket's chain, or one of these
  static constexpr int32_t kEnd = -1, kNotCached = -2;
};

/// A hash table with its chains in an array. All memory is allocated at the start; only extra keys,
/// which are rare, take more.
class PrefixIndex {
 public:
  enum class Check {
    kExact,     // everything must be equal
    kHashOnly,  // the mistake that this lesson shows: an equal hash is taken for equal content
  };
  /// For blocks 0 .. num_ids - 1. Throws std::invalid_argument unless both numbers are at least 1.
  PrefixIndex(int num_ids, int block_size, Check check = Check::kExact);

  /// Returns the block with this content, of several the one inserted first; null if there is none.
  /// Adds the number of candidates with this hash and other content to `num_refused`.
  const CachedBlock* find(const BlockKey& key, int64_t* num_refused = nullptr) const;
  /// Records that the block holds this content; its K and V are written. Returns the number of its
  /// prefix, an old one if another block holds the same content. Throws std::logic_error for a
  /// block that is in the index already, std::invalid_argument for one that is not full; nothing
  /// has changed then.
  PrefixId insert(int32_t block_id, const BlockKey& key);
  /// Removes a block, because its K and V are about to be overwritten or its content shall be
  /// forgotten. Returns the hash under which it was found; no value if it was not in the index.
  std::optional<uint64_t> erase(int32_t block_id);

  int num_ids() const { return static_cast<int>(blocks_.size()); }
  int block_size() const { return block_size_; }
  int size() const { return size_; }
  /// Returns null if the block is not in the index. Throws std::out_of_range for an unknown block.
  const CachedBlock* block(int32_t id) const;
  std::span<const int32_t> tokens(int32_t id) const;  // [block_size], of a block in the index
  BlockKey key_of(const CachedBlock& block) const;    // points into the index
  /// Throws std::logic_error unless the chains name just the blocks that are in the index.
  void check() const;

 private:
  size_t bucket_of(uint64_t hash) const { return hash & (buckets_.size() - 1); }

  int block_size_;
  Check check_;
  std::vector<CachedBlock> blocks_;  // [num_ids]
  std::vector<int32_t> tokens_;      // [num_ids, block_size]
  std::vector<int32_t> buckets_;     // the first block of each chain; a power of two of them
  int size_ = 0;
  PrefixId next_prefix_ = 0;
};

}  // namespace lesson06
