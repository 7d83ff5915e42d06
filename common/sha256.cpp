#include "common/sha256.h"

#include "common/error.h"

#if __has_include(<openssl/hmac.h>)
#include <openssl/evp.h>
#include <openssl/hmac.h>

namespace kv {
namespace {

const unsigned char* start_of(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* start_of(Digest& digest) { return reinterpret_cast<unsigned char*>(digest.data()); }

}  // namespace

bool has_sha256() { return true; }

Digest sha256(std::string_view bytes) {
  Digest digest{};
  if (EVP_Digest(bytes.data(), bytes.size(), start_of(digest), nullptr, EVP_sha256(), nullptr) !=
      1) {
    user_error("SHA-256 is not available in this OpenSSL");
  }
  return digest;
}

Digest hmac_sha256(std::string_view bytes, std::string_view secret) {
  Digest digest{};
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), start_of(bytes), bytes.size(),
       start_of(digest), nullptr);
  return digest;
}

}  // namespace kv
#else
#include <cstring>
#include <span>
#include <string>

#include "common/hash.h"

namespace kv {

bool has_sha256() { return false; }

Digest sha256(std::string_view bytes) {
  Digest digest{};
  std::string text(bytes);
  for (size_t i = 0; i < 4; ++i) {
    text += static_cast<char>(i);
    const uint64_t part = xxh64_of(std::span<const char>(text));
    std::memcpy(digest.data() + 8 * i, &part, 8);
  }
  return digest;
}

Digest hmac_sha256(std::string_view bytes, std::string_view secret) {
  return sha256(std::string(secret) + std::string(bytes));
}

}  // namespace kv
#endif
