#include "block_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/error.h"
#include "common/hash.h"
#include "lessons/12_file_tier/checksum_blocks.h"

#if __has_include(<openssl/hmac.h>)  // a browser has none
#include <openssl/evp.h>
#include <openssl/hmac.h>
#define KV_OPENSSL 1
#endif

namespace lesson13 {
namespace {

constexpr std::string_view kMagic = "KVSTORE1";

void append(std::string& bytes, const auto& value) {
  const auto raw = std::bit_cast<std::array<char, sizeof value>>(value);
  bytes.append(raw.data(), raw.size());
}
void append(std::string& bytes, std::span<const int32_t> tokens) {
  bytes.append(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
}

std::string header_of(uint64_t fingerprint, const BlockName& name, uint64_t checksum,
                      std::span<const int32_t> tokens) {
  std::string header(kMagic);
  append(header, fingerprint);
  append(header, name);
  append(header, checksum);
  append(header, tokens);
  return header;
}
constexpr size_t kChecksumAt = 48;

#ifdef KV_OPENSSL
Digest mac_of(std::string_view bytes, const std::string& secret) {
  Digest mac{};
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
       reinterpret_cast<unsigned char*>(mac.data()), nullptr);
  return mac;
}
#else
Digest mac_of(std::string_view bytes, const std::string& secret) {
  return digest_of(secret + std::string(bytes));
}
#endif

/// Takes as long for any two digests: its time tells nothing about the right one.
bool equal(const Digest& a, const char* b) {
  std::byte different{};
  for (size_t i = 0; i < a.size(); ++i) different |= a[i] ^ static_cast<std::byte>(b[i]);
  return different == std::byte{};
}

}  // namespace

Digest digest_of(std::string_view bytes) {
  Digest digest{};
#ifdef KV_OPENSSL
  auto* const out = reinterpret_cast<unsigned char*>(digest.data());
  if (EVP_Digest(bytes.data(), bytes.size(), out, nullptr, EVP_sha256(), nullptr) != 1) {
    kv::user_error("SHA-256 is not available in this OpenSSL");
  }
#else
  std::string text(bytes);
  for (size_t i = 0; i < 4; ++i) {
    text += static_cast<char>(i);
    const uint64_t part = kv::xxh64_of(std::span<const char>(text));
    std::memcpy(digest.data() + 8 * i, &part, 8);
  }
#endif
  return digest;
}

bool can_be_shared(std::span<const lesson06::ExtraKey> extra_keys) {
  return std::ranges::all_of(extra_keys, [](const lesson06::ExtraKey& key) {
    return key.kind == lesson06::ExtraKey::Kind::kSalt;
  });
}

BlockName root_name(uint64_t fingerprint, std::span<const lesson06::ExtraKey> extra_keys) {
  std::string bytes = "root";
  append(bytes, fingerprint);
  return digest_of(bytes + lesson06::hashed_bytes({}, {}, extra_keys));
}

BlockName name_of(const BlockName& parent, std::span<const int32_t> tokens) {
  std::string bytes = "block";
  append(bytes, parent);
  append(bytes, tokens);
  return digest_of(bytes);
}

void extend_names(std::vector<BlockName>& names, const BlockName& root,
                  std::span<const int32_t> tokens, int block_size) {
  const auto size = static_cast<size_t>(block_size);
  while ((names.size() + 1) * size <= tokens.size()) {
    const auto own = tokens.subspan(names.size() * size, size);
    names.push_back(name_of(names.empty() ? root : names.back(), own));
  }
}

std::string key_of(const BlockName& name) {
  std::string key = "kv1:";
  for (const std::byte byte : name) key += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return key;
}

std::string ValueFormat::encode(const BlockName& name, std::span<const int32_t> tokens,
                                uint64_t checksum, std::span<const std::byte> content) const {
  std::string value = header_of(fingerprint, name, checksum, tokens);
  value.append(reinterpret_cast<const char*>(content.data()), content.size());
  if (!secret.empty()) append(value, mac_of(value, secret));
  return value;
}

/// The reader knows all of the header but the checksum, so the right header can be made and
/// compared: no field of it has to be believed.
std::optional<uint64_t> ValueFormat::decode(std::string_view value, const BlockName& name,
                                            std::span<const int32_t> tokens,
                                            std::span<std::byte> content) const {
  const size_t header_bytes = kChecksumAt + sizeof(uint64_t) + tokens.size_bytes();
  const size_t mac_bytes = secret.empty() ? 0 : sizeof(Digest);
  if (value.size() != header_bytes + bytes_per_block + mac_bytes) return {};
  uint64_t checksum = 0;
  std::memcpy(&checksum, value.data() + kChecksumAt, sizeof checksum);
  if (!value.starts_with(header_of(fingerprint, name, checksum, tokens))) return {};
  if (mac_bytes > 0) {
    const std::string_view covered = value.substr(0, value.size() - mac_bytes);
    if (!equal(mac_of(covered, secret), value.data() + covered.size())) return {};
  }
  std::memcpy(content.data(), value.data() + header_bytes, bytes_per_block);
  if (lesson12::checksum_of(content) != checksum) return {};
  return checksum;
}

}  // namespace lesson13
