#include "block_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "checksum_blocks.h"
#include "common/error.h"
#include "common/hash.h"

namespace lesson12 {
namespace {

constexpr std::string_view kFileMagic = "KVBLOCKS";
constexpr std::string_view kRecordMagic = "KVRECORD";
constexpr std::array<std::byte, 8> kNoMagic{};
constexpr uint64_t kVersion = 2;
constexpr size_t kFileHeader = 48;    // with its checksum
constexpr size_t kRecordHeader = 72;  // before the tokens
constexpr size_t kExtraHeader = 24;   // before a value
// The next number after one from a file must still be a number.
constexpr uint64_t kMaxAge = uint64_t{1} << 62;
constexpr PrefixId kMaxPrefix = PrefixId{1} << 62;

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

/// Decodes everything after the two checksums. Returns false for bytes that no writer writes.
bool decode_key(Reader in, int block_size, RecordKey& key) {
  key.age = in.number();
  key.hash = in.number();
  const uint64_t has_parent = in.number();
  const auto parent = static_cast<PrefixId>(in.number());
  key.prefix = static_cast<PrefixId>(in.number());
  const uint64_t num_extra = in.number();
  const auto is_prefix = [](PrefixId id) { return id > -kMaxPrefix && id < kMaxPrefix; };
  if (key.age >= kMaxAge || has_parent > 1 || !is_prefix(parent) || !is_prefix(key.prefix) ||
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

FileLayout::FileLayout(const FileShape& shape)
    : header_bytes(whole_pages(static_cast<int64_t>(kRecordHeader) + int64_t{4} * shape.block_size +
                               kMinExtraBytes)),
      content_bytes(shape.bytes_per_block),
      stride(header_bytes) {
  constexpr int64_t kMaxBytes = int64_t{1} << 30;  // 2^31 such records are less than 2^62 bytes
  if (shape.block_size < 1 || content_bytes < 1 || content_bytes > kMaxBytes) {
    throw std::invalid_argument(fmt::format(
        "BlockFile: blocks of {} tokens and {} bytes, wanted at least 1 of each, and at "
        "most {} bytes",
        shape.block_size, content_bytes, kMaxBytes));
  }
  stride += whole_pages(content_bytes);
}

int FileLayout::num_records(int64_t bytes) const {
  const int64_t records = bytes <= kPage ? 0 : (bytes - kPage + stride - 1) / stride;
  return static_cast<int>(std::min(records, int64_t{INT32_MAX - 1}));
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

BlockFile::BlockFile(const std::filesystem::path& path, const FileShape& shape)
    : shape_(shape), layout_(shape), file_(path) {
  header_.resize(static_cast<size_t>(layout_.header_bytes));
  open_or_make(path);
  const int num_records = layout_.num_records(file_.size());
  found_.resize(static_cast<size_t>(num_records) + 1);
  for (int32_t record = 1; record <= num_records; ++record) {
    std::optional<RecordHeader> header = read_header(record);
    if (!header || layout_.end_of(record) > file_.size()) continue;
    next_age_ = std::max(next_age_, header->key.age + 1);
    found_[static_cast<size_t>(record)] = std::move(header->key);
  }
}

void BlockFile::open_or_make(const std::filesystem::path& path) {
  const auto fail = [&](const char* doing) {
    kv::user_error("{}: {} failed: {}; free the disk, remove the file, or give another path",
                   path.string(), doing, kv::File::last_error());
  };
  std::vector<std::byte> start(kPage);
  const int64_t size = file_.size();
  const int64_t read = size < 0 ? -1 : file_.read_at(0, start);
  if (read < 0) fail("reading");
  start.resize(static_cast<size_t>(read));
  if (size <= kPage && is_half_made(start)) {
    if (!file_.write_at(0, encode_file_header(shape_))) fail("writing");
    kv::sync_folder_of(path);
  } else if (const std::string fault = fault_of_file_header(start, shape_); !fault.empty()) {
    kv::user_error("{}: {}; remove it, or give another path", path.string(), fault);
  }
  // Prefixes are numbered from those that are found now. Without this sync a power cut could bring
  // back older records, whose numbers other prefixes have got since.
  if (!file_.sync()) fail("syncing");
}

std::optional<RecordHeader> BlockFile::read_header(int32_t record) {
  const int64_t read = file_.read_at(layout_.begin_of(record), header_);
  if (read != layout_.header_bytes) return std::nullopt;
  return decode_record_header(header_, shape_.block_size);
}

void BlockFile::check(int32_t record, const BlockKey& key, size_t content_bytes) const {
  if (record < 1) {
    throw std::out_of_range(fmt::format("BlockFile: record {}, wanted at least 1", record));
  }
  if (std::ssize(key.tokens) != shape_.block_size ||
      content_bytes != static_cast<size_t>(shape_.bytes_per_block)) {
    throw std::invalid_argument(
        fmt::format("BlockFile: a block of {} tokens and {} bytes, wanted {} and {}",
                    key.tokens.size(), content_bytes, shape_.block_size, shape_.bytes_per_block));
  }
}

// First the record's name is erased, then its content is written, then its header. So a process
// that is killed leaves no header without its content. A power cut may leave any of the three
// writes, in any order; then a checksum is wrong.
bool BlockFile::write(int32_t record, const BlockKey& key, std::span<const std::byte> content,
                      uint64_t content_checksum) {
  check(record, key, content.size());
  RecordHeader header{.key = {}, .content_checksum = content_checksum};
  header.key = {.hash = key.hash,
                .parent = key.parent,
                .prefix = key.prefix.value(),
                .tokens = {key.tokens.begin(), key.tokens.end()},
                .extra_keys = {key.extra_keys.begin(), key.extra_keys.end()},
                .age = next_age_++};
  const auto bytes = encode_record_header(header, layout_.header_bytes);
  return erase(record) && bytes.has_value() &&
         file_.write_at(layout_.content_of(record), content) &&
         file_.write_at(layout_.begin_of(record), *bytes);
}

std::optional<uint64_t> BlockFile::read(int32_t record, const BlockKey& key,
                                        std::span<std::byte> content) {
  check(record, key, content.size());
  const std::optional<RecordHeader> header = read_header(record);
  const bool is_whole =
      header.has_value() && header->key.hash == key.hash && same_content(header->key.key(), key) &&
      file_.read_at(layout_.content_of(record), content) == shape_.bytes_per_block &&
      checksum_of(content) == header->content_checksum;
  if (!is_whole) return std::nullopt;
  return header->content_checksum;
}

bool BlockFile::erase(int32_t record) { return file_.write_at(layout_.begin_of(record), kNoMagic); }

void BlockFile::clear() {
  if (!file_.resize(kPage) || !file_.sync()) {
    kv::user_error("the file of blocks cannot be cleared: {}; remove it", kv::File::last_error());
  }
  found_.assign(found_.size(), std::nullopt);
}

}  // namespace lesson12
