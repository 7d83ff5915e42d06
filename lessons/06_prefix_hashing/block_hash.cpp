#include "block_hash.h"

#include <openssl/evp.h>
#define XXH_INLINE_ALL  // the call would cost as much as half a block
#include <xxhash.h>

#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <stdexcept>

#include "common/base/error.h"

namespace lesson06 {
namespace {

static_assert(std::endian::native == std::endian::little, "hashed bytes are little endian");

/// hash(bytes, size) of what a hash is taken of, in one piece: on the stack, unless blocks are
/// long.
template <class Hash>
uint64_t hash_bytes(std::optional<uint64_t> parent, std::span<const int32_t> tokens, Hash hash) {
  uint8_t few[sizeof(uint64_t) + 256 * sizeof(int32_t)];
  std::vector<uint8_t> many;
  uint8_t* bytes = few;
  const size_t head = parent ? sizeof(uint64_t) : 0;
  if (head + tokens.size_bytes() > sizeof few) {
    many.resize(head + tokens.size_bytes());
    bytes = many.data();
  }
  if (parent) std::memcpy(bytes, &*parent, sizeof(uint64_t));
  if (!tokens.empty()) std::memcpy(bytes + head, tokens.data(), tokens.size_bytes());
  return hash(bytes, head + tokens.size_bytes());
}

}  // namespace

uint64_t xxh64_block(std::optional<uint64_t> parent, std::span<const int32_t> tokens) {
  if (parent && tokens.size() == 16) {  // the usual block: copied without a loop
    uint8_t bytes[72];
    std::memcpy(bytes, &*parent, 8);
    std::memcpy(bytes + 8, tokens.data(), 64);
    return XXH64(bytes, sizeof bytes, 0);
  }
  return hash_bytes(parent, tokens, [](const uint8_t* bytes, size_t size) -> uint64_t {
    return XXH64(bytes, size, 0);
  });
}

uint64_t sha256_block(std::optional<uint64_t> parent, std::span<const int32_t> tokens) {
  return hash_bytes(parent, tokens, [](const uint8_t* bytes, size_t size) {
    std::array<uint8_t, EVP_MAX_MD_SIZE> digest{};
    if (EVP_Digest(bytes, size, digest.data(), nullptr, EVP_sha256(), nullptr) != 1) {
      throw std::runtime_error("SHA-256 is not available in this OpenSSL");
    }
    uint64_t first = 0;
    std::memcpy(&first, digest.data(), sizeof first);
    return first;
  });
}

BlockHasher narrow_hasher(int bits) {
  if (bits < 0 || bits > 64) throw std::invalid_argument("narrow_hasher: wanted 0 to 64 bits");
  const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  return [mask](std::optional<uint64_t> parent, std::span<const int32_t> tokens) {
    return xxh64_block(parent, tokens) & mask;
  };
}

BlockHasher hasher_of(const std::string& name) {
  if (name == "xxh64") return xxh64_block;
  if (name == "sha256") return sha256_block;
  int bits = -1;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, bits);
  if (error != std::errc() || stop != end || bits < 0 || bits > 64) {
    kv::user_error("hash {}: wanted xxh64, sha256, or a number of bits from 0 to 64", name);
  }
  return narrow_hasher(bits);
}

std::vector<uint64_t> hash_chain(std::span<const int32_t> tokens, int block_size,
                                 const BlockHasher& hasher) {
  std::vector<uint64_t> hashes;
  std::optional<uint64_t> parent;
  const auto size = static_cast<size_t>(block_size);
  for (size_t end = size; end <= tokens.size(); end += size) {
    parent = hasher(parent, tokens.subspan(end - size, size));
    hashes.push_back(*parent);
  }
  return hashes;
}

}  // namespace lesson06
