#pragma once

// Other hashes than XXH64, one that resists attackers and weak ones; and the hashes of a sequence.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lessons/06_prefix_hashing/block_hash.h"

namespace lesson06 {

/// The first 8 bytes of SHA-256 over hashed_bytes().
uint64_t sha256_block(std::optional<uint64_t> parent, std::span<const int32_t> tokens,
                      std::span<const ExtraKey> extra_keys = {});
/// The lowest `bits` bits of xxh64_block, 0 to 64: the fewer, the more often hashes collide.
BlockHasher narrow_hasher(int bits);

/// "xxh64", "sha256", or a number of bits. Throws UserError for anything else.
BlockHasher hasher_of(const std::string& name);

/// Hashes of all full blocks of a sequence, each over its parent's. A partly filled block has none.
std::vector<uint64_t> hash_chain(std::span<const int32_t> tokens, int block_size,
                                 const BlockHasher& hasher);

}  // namespace lesson06
