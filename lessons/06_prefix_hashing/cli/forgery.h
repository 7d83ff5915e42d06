#pragma once

// Two different blocks of tokens with the same XXH64, whatever the parent. XXH64 was made to be
// fast and not to resist attacks: finding such a pair takes about a second.

#include <cstdint>
#include <optional>
#include <vector>

namespace lesson06 {

struct ForgedPair {
  std::vector<int32_t> first, second;  // [block_size] each
};

/// A pair that was found once: legal ids of Qwen3's vocabulary, one hash under every parent.
inline const std::vector<int32_t> kForgedA{1000, 1001, 148912, 115505, 1004, 1005, 1006, 1007,
                                           1008, 1009, 37649,  19953,  1012, 1013, 1014, 1015};
inline const std::vector<int32_t> kForgedB{1000, 1001, 70013, 105460, 1004, 1005, 1006, 1007,
                                           1008, 1009, 0,     0,      1012, 1013, 1014, 1015};

/// A pair of blocks with ids below vocab_size and one hash under every parent. No value if none of
/// the millions tried is one. Blocks of 16 tokens need a vocabulary of some ten thousand ids,
/// blocks of 32 only 2,048. Deterministic. Throws std::invalid_argument for blocks under 16 tokens.
std::optional<ForgedPair> forge_pair(int32_t vocab_size, int block_size);

}  // namespace lesson06
