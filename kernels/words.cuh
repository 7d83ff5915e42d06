#pragma once

// Kernels that copy K and V give each thread 16 bytes, so a load of a warp is 512 bytes, not 64.

#include <cstdint>
#include <stdexcept>
#include <string>

namespace kv {

using Word = uint4;  // 16 bytes: 8 bf16

/// Number of words in `elements` elements of bf16. Throws std::invalid_argument unless it is whole,
/// as it is for every head_dim that attention serves.
inline int words_of(int elements) {
  if (elements % 8 == 0) return elements / 8;
  throw std::invalid_argument("copying K and V on CUDA: found " + std::to_string(elements) +
                              " elements in a piece, wanted a multiple of 8");
}

/// Throws std::invalid_argument unless a piece of `bytes` bytes is whole words.
inline void check_words(int bytes) {
  if (bytes % static_cast<int>(sizeof(Word)) == 0) return;
  throw std::invalid_argument("copying blocks on CUDA: found " + std::to_string(bytes) +
                              " bytes in a piece, wanted a multiple of 16");
}

}  // namespace kv
