#pragma once

// The name of a block's content: a hash of its tokens and of everything before them. Source: vLLM's
// hash_block_tokens (v0.22.1: vllm/v1/core/kv_cache_utils.py).

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lesson06 {

/// The hash of one full block, given that of the block before it. The first block has no parent,
/// and that is no value: every number is a legal hash.
using BlockHasher =
    std::function<uint64_t(std::optional<uint64_t> parent, std::span<const int32_t> tokens)>;

/// XXH64, seed 0, over the parent's 8 bytes, if there is one, then 4 bytes for each token, all
/// little endian.
uint64_t xxh64_block(std::optional<uint64_t> parent, std::span<const int32_t> tokens);
/// The first 8 bytes of SHA-256 over the same bytes.
uint64_t sha256_block(std::optional<uint64_t> parent, std::span<const int32_t> tokens);
/// The lowest `bits` bits of xxh64_block, 0 to 64: a hash that collides as often as one likes.
BlockHasher narrow_hasher(int bits);

/// "xxh64", "sha256", or a number of bits. Throws UserError for anything else.
BlockHasher hasher_of(const std::string& name);

/// Hashes of all full blocks of a sequence, each over its parent's. A partly filled block has none.
std::vector<uint64_t> hash_chain(std::span<const int32_t> tokens, int block_size,
                                 const BlockHasher& hasher);

}  // namespace lesson06
