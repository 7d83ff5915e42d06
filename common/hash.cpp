#include "common/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kv {

uint64_t xxh64(std::span<const std::byte> bytes) { return XXH64(bytes.data(), bytes.size(), 0); }

}  // namespace kv
