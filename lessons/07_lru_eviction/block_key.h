#pragma once

// What a block is found by: its tokens, its parent, and whatever else its K and V depend on.
// Source: vLLM's extra_keys (v0.22.1: generate_block_hash_extra_keys in
// vllm/v1/core/kv_cache_utils.py).

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lesson07 {

/// The number of a prefix that has been seen (see lesson 06). Never given again.
using PrefixId = int64_t;
/// The parent of a sequence's first block.
constexpr PrefixId kNoPrefix = -1;

/// One more thing that K and V of a block depend on, or that somebody wants kept apart. The kind is
/// part of the key: no salt can be written so that it looks like an adapter.
struct ExtraKey {
  enum class Kind : uint8_t {
    kAdapter = 1,  // which adapter (LoRA) computed it
    kContent = 2,  // which image, say, stands behind placeholder tokens: its id, never its looks
    kSalt = 3,     // who may share it
  };
  Kind kind = Kind::kSalt;
  std::string value;  // any bytes
  friend bool operator==(const ExtraKey&, const ExtraKey&) = default;
};
/// In the order of their kinds; two of one kind in the order in which they were given.
using ExtraKeys = std::vector<ExtraKey>;

/// XXH64 over the parent's hash, if there is one, the tokens, and each extra key as kind, length
/// and bytes: no key's text can imitate the end of one and the beginning of another. Without extra
/// keys it is lesson 06's hash.
uint64_t hash_block(std::optional<uint64_t> parent, std::span<const int32_t> tokens,
                    const ExtraKeys& extra_keys);

}  // namespace lesson07
