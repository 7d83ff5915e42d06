#include "block_key.h"

#include <xxhash.h>

#include <cstring>

#include "lessons/06_prefix_hashing/block_hash.h"

namespace lesson07 {

uint64_t hash_block(std::optional<uint64_t> parent, std::span<const int32_t> tokens,
                    const ExtraKeys& extra_keys) {
  if (extra_keys.empty()) return lesson06::xxh64_block(parent, tokens);
  // The tokens' hash in front; then everything that is of any length, each with its length.
  std::string bytes;
  const auto add = [&](uint64_t number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  add(lesson06::xxh64_block(parent, tokens));
  for (const ExtraKey& key : extra_keys) {
    add(static_cast<uint64_t>(key.kind));
    add(key.value.size());
    bytes += key.value;
  }
  return XXH64(bytes.data(), bytes.size(), 0);
}

}  // namespace lesson07
