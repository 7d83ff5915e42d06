#pragma once

// XXH64 (https://xxhash.com), seed 0.

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace kv {

uint64_t xxh64(std::span<const std::byte> bytes);

/// The digest of the objects' bytes as they lie in memory. T must have no padding.
template <typename T>
uint64_t xxh64_of(std::span<const T> objects) {
  static_assert(std::has_unique_object_representations_v<T>);
  return xxh64(std::as_bytes(objects));
}

}  // namespace kv
