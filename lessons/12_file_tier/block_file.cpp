#include "block_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "checksum_blocks.h"
#include "common/error.h"
#include "common/hash.h"

namespace lesson12 {
namespace {

static_assert(std::endian::native == std::endian::little);

using Magic = std::array<char, 8>;
constexpr Magic kFileMagic{'K', 'V', 'B', 'L', 'O', 'C', 'K', '3'};
constexpr Magic kRecordMagic{'K', 'V', 'R', 'E', 'C', 'O', 'R', 'D'};
constexpr Magic kNoMagic{};

struct FileHeader {
  Magic magic = kFileMagic;
  FileShape shape;
};

/// The first bytes of a record's header. The tokens follow.
struct Fields {
  Magic magic = kRecordMagic;
  uint64_t checksum = 0;  // of all that comes after it
  uint64_t content_checksum = 0;
  uint64_t age = 0, hash = 0;
  PrefixId prefix = 0;
  uint64_t has_parent = 0;
  PrefixId parent = 0;
};
constexpr size_t kChecked = offsetof(Fields, content_checksum);

int64_t whole_pages(int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

/// Whether no writer writes these numbers. The next number after one from a file must be one, too.
bool is_absurd(const Fields& fields) {
  constexpr auto kMax = uint64_t{1} << 62;
  const auto number = [](PrefixId id) { return static_cast<uint64_t>(id); };
  return fields.age >= kMax || number(fields.prefix) >= kMax || number(fields.parent) >= kMax ||
         fields.has_parent > 1 || (fields.has_parent == 0 && fields.parent != 0);
}

std::string text_of(const FileShape& shape) {
  return fmt::format("blocks of {} tokens and {} bytes{} with fingerprint {:016x}",
                     shape.block_size, shape.bytes_per_block, shape.format == 0 ? "" : " in FP8",
                     shape.fingerprint);
}

}  // namespace

FileLayout::FileLayout(const FileShape& shape)
    : header_bytes(whole_pages(static_cast<int64_t>(sizeof(Fields)) + 4 * shape.block_size)),
      content_bytes(shape.bytes_per_block),
      stride(header_bytes + whole_pages(content_bytes)) {
  constexpr int64_t kMax = int64_t{1} << 30;  // 2^31 such records are less than 2^63 bytes
  if (shape.block_size < 1 || shape.block_size > kMax / 4 || content_bytes < 1 ||
      content_bytes > kMax) {
    throw std::invalid_argument(
        fmt::format("BlockFile: found {}, wanted at least 1 of each, and at most {} bytes",
                    text_of(shape), kMax));
  }
}

int FileLayout::num_records(int64_t bytes) const {
  const int64_t records = bytes <= kPage ? 0 : (bytes - kPage + stride - 1) / stride;
  return static_cast<int>(std::min(records, int64_t{INT32_MAX - 1}));
}

std::vector<std::byte> encode_file_header(const FileShape& shape) {
  const FileHeader header{.shape = shape};
  std::vector<std::byte> page(kPage);
  std::memcpy(page.data(), &header, sizeof header);
  return page;
}

std::string fault_of_file_header(std::span<const std::byte> bytes, const FileShape& wanted) {
  FileHeader found{.magic = kNoMagic, .shape = {}};
  std::memcpy(&found, bytes.data(), std::min(bytes.size(), sizeof found));
  if (found.magic != kFileMagic) {
    return fmt::format("is no file of blocks, which begins with '{}'; give another path",
                       std::string(kFileMagic.begin(), kFileMagic.end()));
  }
  if (found.shape == wanted) return {};
  return fmt::format(
      "holds {}, wanted {}; the fingerprint stands for the model, the device and the kernel; "
      "remove it, or give another path",
      text_of(found.shape), text_of(wanted));
}

std::vector<std::byte> encode_header(const Record& record, int64_t header_bytes) {
  Fields fields{.content_checksum = record.content_checksum,
                .age = record.age,
                .hash = record.hash,
                .prefix = record.prefix,
                .has_parent = record.parent.has_value() ? 1u : 0u,
                .parent = record.parent.value_or(0)};
  std::vector<std::byte> bytes(header_bytes);
  std::memcpy(bytes.data(), &fields, sizeof fields);
  std::ranges::copy(std::as_bytes(std::span(record.tokens)), bytes.begin() + sizeof fields);
  fields.checksum = kv::xxh64(std::span(bytes).subspan(kChecked));
  std::memcpy(bytes.data(), &fields, sizeof fields);
  return bytes;
}

std::optional<Record> decode_header(std::span<const std::byte> bytes, int64_t block_size) {
  const size_t token_bytes = 4 * static_cast<size_t>(block_size);
  Fields fields;
  if (bytes.size() < sizeof fields + token_bytes) return std::nullopt;
  std::memcpy(&fields, bytes.data(), sizeof fields);
  if (fields.magic != kRecordMagic || fields.checksum != kv::xxh64(bytes.subspan(kChecked)) ||
      is_absurd(fields)) {
    return std::nullopt;
  }
  Record record{.content_checksum = fields.content_checksum,
                .age = fields.age,
                .hash = fields.hash,
                .prefix = fields.prefix,
                .parent = {},
                .tokens = std::vector<int32_t>(block_size)};
  if (fields.has_parent == 1) record.parent = fields.parent;
  std::memcpy(record.tokens.data(), bytes.data() + sizeof fields, token_bytes);
  return record;
}

BlockFile::BlockFile(const std::filesystem::path& path, const FileShape& shape)
    : shape_(shape), layout_(shape), file_(path) {
  const auto must = [&](bool succeeds, const char* doing) {
    if (succeeds) return;
    kv::user_error("{}: {} failed: {}; free the disk, or give another path", path.string(), doing,
                   kv::File::last_error());
  };
  std::vector<std::byte> start(kPage);
  const int64_t size = file_.size(), num_read = file_.read_at(0, start);
  must(size >= 0 && num_read >= 0, "reading");
  start.resize(num_read);
  const bool is_zero = std::ranges::count(start, std::byte{0}) == num_read;
  if (size <= kPage && is_zero) {  // a new file, or one whose maker lost its power
    must(file_.write_at(0, encode_file_header(shape)) && file_.sync(), "writing");
    kv::sync_folder_of(path);
  } else if (const std::string fault = fault_of_file_header(start, shape); !fault.empty()) {
    kv::user_error("{}: {}", path.string(), fault);
  }
}

void BlockFile::check(int32_t record, const Record& header, size_t content_bytes) const {
  if (record >= 1 && std::ssize(header.tokens) == shape_.block_size &&
      content_bytes == static_cast<size_t>(shape_.bytes_per_block)) {
    return;
  }
  throw std::invalid_argument(fmt::format(
      "BlockFile: record {} of {} tokens and {} bytes, wanted record 1 or a later one "
      "of {} tokens and {} bytes",
      record, header.tokens.size(), content_bytes, shape_.block_size, shape_.bytes_per_block));
}

// First the record's magic number is erased, then its content is written, then its header. So a
// process that is killed leaves no header without its content. A power cut may leave any of the
// three writes, in any order; then a checksum is wrong.
bool BlockFile::write(int32_t record, const Record& header, std::span<const std::byte> content) {
  check(record, header, content.size());
  return erase(record) && file_.write_at(layout_.content_of(record), content) &&
         file_.write_at(layout_.begin_of(record), encode_header(header, layout_.header_bytes));
}

std::optional<Record> BlockFile::read_header(int32_t record) const {
  std::vector<std::byte> bytes(layout_.header_bytes);
  const int64_t num_read = file_.read_at(layout_.begin_of(record), bytes);
  return num_read == std::ssize(bytes) ? decode_header(bytes, shape_.block_size) : std::nullopt;
}

bool BlockFile::read_content(int32_t record, const Record& header,
                             std::span<std::byte> content) const {
  check(record, header, content.size());
  return file_.read_at(layout_.content_of(record), content) == std::ssize(content) &&
         checksum_of(content) == header.content_checksum;
}

bool BlockFile::is_empty(int32_t record) const {
  Magic magic = kRecordMagic;
  const auto bytes = std::as_writable_bytes(std::span(magic));
  return file_.read_at(layout_.begin_of(record), bytes) == std::ssize(bytes) && magic == kNoMagic;
}

bool BlockFile::erase(int32_t record) {
  return file_.write_at(layout_.begin_of(record), std::as_bytes(std::span(kNoMagic)));
}

void BlockFile::clear(uint64_t fingerprint) {
  shape_.fingerprint = fingerprint;
  const bool empty = file_.resize(kPage) && file_.sync();  // before it is another model's
  if (empty && file_.write_at(0, encode_file_header(shape_)) && file_.sync()) return;
  kv::user_error("the file of blocks cannot be cleared: {}; remove it", kv::File::last_error());
}

}  // namespace lesson12
