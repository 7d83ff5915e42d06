#include "hashers.h"

#include <charconv>
#include <cstring>
#include <stdexcept>

#include "common/error.h"
#include "common/sha256.h"

namespace lesson06 {

uint64_t sha256_block(std::optional<uint64_t> parent, std::span<const int32_t> tokens,
                      std::span<const ExtraKey> extra_keys) {
  if (!kv::has_sha256()) {
    kv::user_error("hash sha256: this build has no OpenSSL; wanted xxh64 or a number of bits");
  }
  const kv::Digest digest = kv::sha256(hashed_bytes(parent, tokens, extra_keys));
  uint64_t first = 0;
  std::memcpy(&first, digest.data(), sizeof first);
  return first;
}

BlockHasher narrow_hasher(int bits) {
  if (bits < 0 || bits > 64) throw std::invalid_argument("narrow_hasher: wanted 0 to 64 bits");
  const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  return {.mask = mask};
}

BlockHasher hasher_of(const std::string& name) {
  if (name == "xxh64") return {};
  if (name == "sha256") return {.hash = sha256_block};
  int bits = -1;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, bits);
  if (error != std::errc() || stop != end || bits < 0 || bits > 64) {
    kv::user_error("--hash {}: wanted xxh64, sha256, or a number of bits from 0 to 64", name);
  }
  return narrow_hasher(bits);
}

std::vector<uint64_t> hash_chain(std::span<const int32_t> tokens, int block_size,
                                 const BlockHasher& hasher) {
  BlockHashes hashes;
  hashes.extend(tokens, block_size, hasher);
  return hashes.all();
}

}  // namespace lesson06
