#pragma once

// The name of a block's content: a hash of its tokens, of everything before them, and of all else
// that its K and V depend on. Source: vLLM's hash_block_tokens, generate_block_hash_extra_keys and
// get_request_block_hasher (v0.22.1: vllm/v1/core/kv_cache_utils.py).

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lesson06 {

/// One more thing that K and V depend on, or a salt that keeps requests apart. The kind is part of
/// the key, so no salt can imitate an adapter.
struct ExtraKey {
  enum class Kind : uint8_t {
    kAdapter = 1,  // which adapter (LoRA) computes them
    kContent = 2,  // the image that the placeholder tokens stand for, by its id, not its pixels
    kSalt = 3,     // only requests with the same salt share blocks
  };
  Kind kind = Kind::kSalt;
  std::string value;   // any bytes
  int64_t offset = 0;  // kContent: its first placeholder, counted from token 0
  friend auto operator<=>(const ExtraKey&, const ExtraKey&) = default;
};
using ExtraKeys = std::vector<ExtraKey>;  // sorted, wherever a block has them

/// The bytes that a block's hash covers, all numbers little endian. First the parent's hash, 8
/// bytes, if there is a parent; then each token, 4 bytes. For each extra key follow its kind, its
/// offset and its value's length, 8 bytes each, and the value. As the length comes first, no value
/// can imitate another key.
std::string hashed_bytes(std::optional<uint64_t> parent, std::span<const int32_t> tokens,
                         std::span<const ExtraKey> extra_keys);
/// XXH64 of these bytes, seed 0.
uint64_t xxh64_block(std::optional<uint64_t> parent, std::span<const int32_t> tokens,
                     std::span<const ExtraKey> extra_keys = {});

/// A hash of full blocks. The first block has no parent, which is std::nullopt and not 0, because
/// 0 can be a real hash.
struct BlockHasher {
  uint64_t (*hash)(std::optional<uint64_t> parent, std::span<const int32_t> tokens,
                   std::span<const ExtraKey> extra_keys) = xxh64_block;
  uint64_t mask = ~uint64_t{0};  // with fewer bits, hashes collide more often

  uint64_t operator()(std::optional<uint64_t> parent, std::span<const int32_t> tokens,
                      std::span<const ExtraKey> extra_keys) const {
    return hash(parent, tokens, extra_keys) & mask;
  }
};

/// The hashes of a request's full blocks, each over the one before it. They live as long as the
/// request, even while it waits or is preempted, so each is computed once.
class BlockHashes {
 public:
  /// The extra keys go into every block's hash. Their order makes no difference.
  BlockHashes() = default;
  explicit BlockHashes(ExtraKeys extra_keys);

  /// Hashes the blocks that have become full. `tokens` begin with those of the last call.
  void extend(std::span<const int32_t> tokens, int block_size, const BlockHasher& hasher);
  /// Reserves capacity for num_blocks blocks, up to which extend() allocates nothing.
  void reserve(size_t num_blocks) { hashes_.reserve(num_blocks); }

  const std::vector<uint64_t>& all() const { return hashes_; }          // [full blocks]
  std::span<const ExtraKey> extra_keys() const { return extra_keys_; }  // sorted

 private:
  ExtraKeys extra_keys_;
  std::vector<uint64_t> hashes_;
};

}  // namespace lesson06
