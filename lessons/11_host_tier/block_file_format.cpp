#include "block_file_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string_view>

#include "common/base/hash.h"

namespace lesson11 {
namespace {

constexpr std::string_view kFileMagic = "KVBLOCKS";
constexpr std::string_view kRecordMagic = "KVRECORD";
constexpr uint64_t kVersion = 1;
constexpr size_t kFileHeader = 48;    // with its checksum
constexpr size_t kRecordHeader = 72;  // before the tokens
constexpr size_t kExtraHeader = 24;   // before a value
// Whoever counts on from what a file says must not run out of numbers.
constexpr uint64_t kMostAge = uint64_t{1} << 62;
constexpr PrefixId kMostPrefix = PrefixId{1} << 62;

bool has_magic(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

/// Numbers one after the other, little endian on any machine.
class Writer {
 public:
  explicit Writer(std::span<std::byte> bytes) : left_(bytes) {}
  void number(uint64_t value, size_t size = 8) {
    for (size_t i = 0; i < size; ++i) left_[i] = static_cast<std::byte>(value >> (8 * i));
    left_ = left_.subspan(size);
  }
  void text(std::string_view value) {
    if (!value.empty()) std::memcpy(left_.data(), value.data(), value.size());
    left_ = left_.subspan(value.size());
  }

 private:
  std::span<std::byte> left_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}
  size_t left() const { return left_.size(); }
  uint64_t number(size_t size = 8) {
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i) value |= std::to_integer<uint64_t>(left_[i]) << (8 * i);
    left_ = left_.subspan(size);
    return value;
  }
  std::string text(size_t size) {
    std::string value(reinterpret_cast<const char*>(left_.data()), size);
    left_ = left_.subspan(size);
    return value;
  }

 private:
  std::span<const std::byte> left_;
};

int64_t whole_pages(int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

/// Everything after the two checksums; false for what no writer writes.
bool decode_key(Reader in, int block_size, RecordKey& key) {
  key.age = in.number();
  key.hash = in.number();
  const uint64_t has_parent = in.number();
  const auto parent = static_cast<PrefixId>(in.number());
  key.prefix = static_cast<PrefixId>(in.number());
  const uint64_t num_extra = in.number();
  const auto is_prefix = [](PrefixId id) { return id > -kMostPrefix && id < kMostPrefix; };
  if (key.age >= kMostAge || has_parent > 1 || !is_prefix(parent) || !is_prefix(key.prefix) ||
      (has_parent == 0 && parent != 0)) {
    return false;
  }
  if (has_parent == 1) key.parent = parent;
  for (int i = 0; i < block_size; ++i) key.tokens.push_back(static_cast<int32_t>(in.number(4)));
  for (uint64_t i = 0; i < num_extra; ++i) {  // ends with the bytes, whatever the number
    if (in.left() < kExtraHeader) return false;
    const uint64_t kind = in.number();
    const auto offset = static_cast<int64_t>(in.number());
    const uint64_t size = in.number();
    if (kind < 1 || kind > 3 || size > in.left()) return false;
    key.extra_keys.push_back(
        {static_cast<ExtraKey::Kind>(kind), in.text(static_cast<size_t>(size)), offset});
  }
  return true;
}

}  // namespace

FileLayout::FileLayout(const FileShape& shape, int num_records)
    : header_bytes(whole_pages(static_cast<int64_t>(kRecordHeader) + int64_t{4} * shape.block_size +
                               kMinExtraBytes)),
      content_bytes(shape.bytes_per_block),
      stride(header_bytes) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  if (shape.block_size < 1 || content_bytes < 1 || num_records < 1 ||
      content_bytes > kMost / 2 / (int64_t{num_records} + 1) - header_bytes - 2 * kPage) {
    throw std::invalid_argument(fmt::format(
        "BlockFile: {} records of {} tokens and {} bytes, wanted at least 1 of each, and a file of "
        "less than 2^62 bytes",
        num_records, shape.block_size, content_bytes));
  }
  stride += whole_pages(content_bytes);
}

std::vector<std::byte> encode_file_header(const FileShape& shape) {
  std::vector<std::byte> page(kPage);
  const std::span checked = std::span(page).first(kFileHeader - 8);
  Writer out(page);
  out.text(kFileMagic);
  out.number(kVersion);
  out.number(shape.fingerprint);
  out.number(static_cast<uint64_t>(shape.block_size));
  out.number(static_cast<uint64_t>(shape.bytes_per_block));
  out.number(kv::xxh64(checked));
  return page;
}

std::string fault_of_file_header(std::span<const std::byte> bytes, const FileShape& wanted) {
  if (bytes.size() < kFileHeader || !has_magic(bytes, kFileMagic)) {
    return fmt::format("found no '{}' at its start, wanted a file of blocks", kFileMagic);
  }
  Reader in(bytes.subspan(kFileMagic.size()));
  const uint64_t version = in.number();
  if (version != kVersion) return fmt::format("found version {}, wanted {}", version, kVersion);
  const uint64_t fingerprint = in.number();
  const uint64_t block_size = in.number();
  const uint64_t bytes_per_block = in.number();
  const uint64_t checksum = in.number();
  if (const uint64_t made = kv::xxh64(bytes.first(kFileHeader - 8)); made != checksum) {
    return fmt::format("its header is damaged: found checksum {:016x}, wanted {:016x}", checksum,
                       made);
  }
  if (fingerprint != wanted.fingerprint) {
    return fmt::format(
        "holds blocks of another model, device or kernel: found fingerprint {:016x}, wanted "
        "{:016x}",
        fingerprint, wanted.fingerprint);
  }
  if (block_size != static_cast<uint64_t>(wanted.block_size)) {
    return fmt::format("found blocks of {} tokens, wanted {}", block_size, wanted.block_size);
  }
  if (bytes_per_block != static_cast<uint64_t>(wanted.bytes_per_block)) {
    return fmt::format("found blocks of {} bytes, wanted {}", bytes_per_block,
                       wanted.bytes_per_block);
  }
  return {};
}

bool is_half_made(std::span<const std::byte> bytes) {
  const size_t common = std::min(bytes.size(), kFileMagic.size());
  return (bytes.size() < kFileHeader && has_magic(bytes, kFileMagic.substr(0, common))) ||
         std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

std::optional<std::vector<std::byte>> encode_record_header(const RecordHeader& header,
                                                           int64_t header_bytes) {
  const RecordKey& key = header.key;
  size_t needed = kRecordHeader + 4 * key.tokens.size();
  for (const ExtraKey& extra : key.extra_keys) needed += kExtraHeader + extra.value.size();
  if (needed > static_cast<size_t>(header_bytes)) return std::nullopt;
  std::vector<std::byte> bytes(static_cast<size_t>(header_bytes));
  Writer out(std::span<std::byte>(bytes).subspan(16));
  out.number(header.content_checksum);
  out.number(key.age);
  out.number(key.hash);
  out.number(key.parent.has_value() ? 1 : 0);
  out.number(static_cast<uint64_t>(key.parent.value_or(0)));
  out.number(static_cast<uint64_t>(key.prefix));
  out.number(key.extra_keys.size());
  for (const int32_t token : key.tokens) out.number(static_cast<uint32_t>(token), 4);
  for (const ExtraKey& extra : key.extra_keys) {
    out.number(static_cast<uint64_t>(extra.kind));
    out.number(static_cast<uint64_t>(extra.offset));
    out.number(extra.value.size());
    out.text(extra.value);
  }
  Writer start(bytes);
  start.text(kRecordMagic);
  start.number(kv::xxh64(std::span(bytes).subspan(16)));
  return bytes;
}

std::optional<RecordHeader> decode_record_header(std::span<const std::byte> bytes, int block_size) {
  if (bytes.size() < kRecordHeader + 4 * static_cast<size_t>(block_size)) return std::nullopt;
  if (!has_magic(bytes, kRecordMagic)) return std::nullopt;
  Reader in(bytes.subspan(kRecordMagic.size()));
  if (in.number() != kv::xxh64(bytes.subspan(16))) return std::nullopt;
  RecordHeader header;
  header.content_checksum = in.number();
  if (!decode_key(in, block_size, header.key)) return std::nullopt;
  return header;
}

}  // namespace lesson11
