#pragma once

// Whether a block that was found holds the K and V that computing anew writes, bit for bit. For
// tests, and for the attack.

#include <cstring>
#include <vector>

#include "common/base/device.h"
#include "lessons/06_prefix_hashing/engine.h"

namespace lesson06 {

/// Generates, and says in which blocks.
inline kv::GenerateResult generate_in(std::vector<int32_t>& blocks, PrefixEngine& engine,
                                      const kv::Request& request) {
  return engine.generate({&request, 1}, [&](size_t, int32_t) {
    const auto ids = engine.manager()->table(0).block_ids();
    blocks.assign(ids.begin(), ids.end());
    return true;
  });
}

/// Elements of K and V, in all layers and slots, that are not the same bits in block `a` of one
/// cache and block `b` of another. 0.0 and -0.0 differ; a NaN is equal to itself.
inline int64_t num_differing(lesson03::PagedKvCache& first, int32_t a,
                             lesson03::PagedKvCache& second, int32_t b, const kv::Stream& stream) {
  const auto bytes = static_cast<size_t>(first.bytes_per_block() / first.num_layers() / 2);
  const size_t element = size_of(kv::activation_dtype(stream.device()));
  std::vector<char> ours(bytes), theirs(bytes);
  int64_t count = 0;
  for (int layer = 0; layer < first.num_layers(); ++layer) {
    const auto x = first.block(layer, a), y = second.block(layer, b);
    for (const auto& [p, q] : {std::pair{x.k, y.k}, std::pair{x.v, y.v}}) {
      kv::copy_to_host(ours.data(), p, bytes, stream);
      kv::copy_to_host(theirs.data(), q, bytes, stream);
      for (size_t at = 0; at < bytes; at += element) {
        count += std::memcmp(&ours[at], &theirs[at], element) != 0;
      }
    }
  }
  return count;
}

}  // namespace lesson06
