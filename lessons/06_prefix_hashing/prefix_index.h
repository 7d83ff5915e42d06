#pragma once

// Which blocks hold which prefixes. A hash finds candidates and proves nothing: a hit also needs
// the same tokens and the same parent, and so, block by block, the same prefix from token 0 on.
// Source: vLLM's BlockHashToBlockMap (v0.22.1: vllm/v1/core/block_pool.py), which trusts the hash.

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace lesson06 {

/// A prefix that has been seen: token 0 up to the end of some block. Equal numbers mean equal
/// prefixes; a number is never given again. Blocks that hold the same behind the same number share
/// one as long as one of them is there. A prefix that was lost and is computed again has a new
/// number, and what is cached behind the old one is not found any more.
using PrefixId = int64_t;

/// A full block's content, as far as the index is concerned.
struct BlockContent {
  uint64_t hash = 0;
  std::optional<PrefixId> parent;  // no value: the first block
  PrefixId prefix = 0;             // with this block
  std::vector<int32_t> tokens;     // [block_size]
};

class PrefixIndex {
 public:
  enum class Check {
    kExact,     // tokens and parent must be equal
    kHashOnly,  // the mistake that this lesson shows: an equal hash is taken for equal content
  };
  struct Match {
    int32_t block_id = 0;
    PrefixId prefix = 0;
  };

  /// Throws std::invalid_argument unless there is at least one block.
  explicit PrefixIndex(int num_blocks, Check check = Check::kExact);

  /// A block that holds these tokens after this parent. Several may: any of them.
  std::optional<Match> find(uint64_t hash, std::optional<PrefixId> parent,
                            std::span<const int32_t> tokens) const;
  /// The block holds these tokens from now on: its K and V are written. Returns the number of its
  /// prefix, an old one if another block holds the same. Throws std::logic_error if the block is in
  /// the index already.
  PrefixId publish(int32_t block_id, uint64_t hash, std::optional<PrefixId> parent,
                   std::span<const int32_t> tokens);
  /// The block's K and V are about to be overwritten. False if it was not in the index.
  bool forget(int32_t block_id);

  /// Null: the block is not in the index. Throws std::out_of_range for an unknown block.
  const BlockContent* content(int32_t block_id) const;
  size_t size() const { return by_hash_.size(); }
  /// Candidates with the right hash and another content, refused so far.
  int64_t num_refused() const { return num_refused_; }

  /// Throws std::logic_error unless hashes and blocks name each other.
  void check() const;

 private:
  bool equal(const BlockContent& content, std::optional<PrefixId> parent,
             std::span<const int32_t> tokens) const;

  Check check_;
  std::vector<std::optional<BlockContent>> contents_;   // [num_blocks]
  std::unordered_multimap<uint64_t, int32_t> by_hash_;  // to block ids
  PrefixId next_prefix_ = 0;
  mutable int64_t num_refused_ = 0;
};

}  // namespace lesson06
