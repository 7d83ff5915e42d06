#include "block_hash.h"

#include <openssl/evp.h>
#include <xxhash.h>

#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <stdexcept>

#include "common/error.h"

namespace lesson06 {
namespace {

static_assert(std::endian::native == std::endian::little, "hashed bytes are little endian");

/// What a hash is taken of, in one piece: on the stack, unless blocks are very long.
class HashedBytes {
 public:
  HashedBytes(std::optional<uint64_t> parent, std::span<const int32_t> tokens)
      : size_((parent ? sizeof(uint64_t) : 0) + tokens.size_bytes()) {
    uint8_t* bytes = few_;
    if (size_ > sizeof few_) {
      many_.resize(size_);
      bytes = many_.data();
    }
    data_ = bytes;
    if (parent) {
      std::memcpy(bytes, &*parent, sizeof(uint64_t));
      bytes += sizeof(uint64_t);
    }
    if (!tokens.empty()) std::memcpy(bytes, tokens.data(), tokens.size_bytes());
  }
  HashedBytes(const HashedBytes&) = delete;
  HashedBytes& operator=(const HashedBytes&) = delete;

  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  size_t size_;
  const uint8_t* data_;
  uint8_t few_[sizeof(uint64_t) + 256 * sizeof(int32_t)];  // not set before it is written
  std::vector<uint8_t> many_;
};

}  // namespace

uint64_t xxh64_block(std::optional<uint64_t> parent, std::span<const int32_t> tokens) {
  const HashedBytes bytes(parent, tokens);
  return XXH64(bytes.data(), bytes.size(), 0);
}

uint64_t sha256_block(std::optional<uint64_t> parent, std::span<const int32_t> tokens) {
  const HashedBytes bytes(parent, tokens);
  std::array<uint8_t, EVP_MAX_MD_SIZE> digest{};
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1) {
    throw std::runtime_error("SHA-256 is not available in this OpenSSL");
  }
  uint64_t first = 0;
  std::memcpy(&first, digest.data(), sizeof first);
  return first;
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
