#include "block_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "lessons/12_file_tier/checksum_blocks.h"

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

/// Takes as long for any two digests: its time tells nothing about the right one.
bool equal(const Digest& a, const char* b) {
  std::byte different{};
  for (size_t i = 0; i < a.size(); ++i) different |= a[i] ^ static_cast<std::byte>(b[i]);
  return different == std::byte{};
}

}  // namespace

bool can_be_shared(std::span<const lesson06::ExtraKey> extra_keys) {
  return std::ranges::all_of(extra_keys, [](const lesson06::ExtraKey& key) {
    return key.kind == lesson06::ExtraKey::Kind::kSalt;
  });
}

BlockName root_name(uint64_t fingerprint, std::span<const lesson06::ExtraKey> extra_keys) {
  std::string bytes = "root";
  append(bytes, fingerprint);
  return kv::sha256(bytes + lesson06::hashed_bytes({}, {}, extra_keys));
}

BlockName name_of(const BlockName& parent, std::span<const int32_t> tokens) {
  std::string bytes = "block";
  append(bytes, parent);
  append(bytes, tokens);
  return kv::sha256(bytes);
}

void extend_names(std::vector<BlockName>& names, const BlockName& root,
                  std::span<const int32_t> tokens, int block_size) {
  const size_t size = block_size;
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
  if (!secret.empty()) append(value, kv::hmac_sha256(value, secret));
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
    if (!equal(kv::hmac_sha256(covered, secret), value.data() + covered.size())) return {};
  }
  std::memcpy(content.data(), value.data() + header_bytes, bytes_per_block);
  if (lesson12::checksum_of(content) != checksum) return {};
  return checksum;
}

}  // namespace lesson13
