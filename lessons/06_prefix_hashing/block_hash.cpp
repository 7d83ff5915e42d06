#include "block_hash.h"

#define XXH_INLINE_ALL  // the call would cost as much as half a block
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace lesson06 {

static_assert(std::endian::native == std::endian::little, "hashed bytes are little endian");

uint64_t xxh64_block(std::optional<uint64_t> parent, std::span<const int32_t> tokens,
                     std::span<const ExtraKey> extra_keys) {
  if (parent && tokens.size() == 16 && extra_keys.empty()) {  // the usual block, without a string
    uint8_t bytes[72];
    std::memcpy(bytes, &*parent, 8);
    std::memcpy(bytes + 8, tokens.data(), 64);
    return XXH64(bytes, sizeof bytes, 0);
  }
  const std::string bytes = hashed_bytes(parent, tokens, extra_keys);
  return XXH64(bytes.data(), bytes.size(), 0);
}

std::string hashed_bytes(std::optional<uint64_t> parent, std::span<const int32_t> tokens,
                         std::span<const ExtraKey> extra_keys) {
  std::string bytes;
  bytes.reserve(sizeof(uint64_t) + tokens.size_bytes());
  const auto add = [&](uint64_t number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  if (parent) add(*parent);
  bytes.append(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
  for (const ExtraKey& key : extra_keys) {
    add(static_cast<uint64_t>(key.kind));
    add(static_cast<uint64_t>(key.offset));
    add(key.value.size());
    bytes += key.value;
  }
  return bytes;
}

BlockHashes::BlockHashes(ExtraKeys extra_keys) : extra_keys_(std::move(extra_keys)) {
  std::ranges::sort(extra_keys_);
}

void BlockHashes::extend(std::span<const int32_t> tokens, int block_size,
                         const BlockHasher& hasher) {
  const size_t size = block_size;
  while ((hashes_.size() + 1) * size <= tokens.size()) {
    std::optional<uint64_t> parent;  // the first block has none
    if (!hashes_.empty()) parent = hashes_.back();
    hashes_.push_back(hasher(parent, tokens.subspan(hashes_.size() * size, size), extra_keys_));
  }
}

}  // namespace lesson06
