#include "block_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "common/base/error.h"
#include "common/base/hash.h"

namespace lesson11 {

BlockFile::BlockFile(const std::filesystem::path& path, const FileShape& shape, int num_records)
    : shape_(shape), num_records_(num_records), layout_(shape, num_records), file_(path) {
  header_.resize(static_cast<size_t>(layout_.header_bytes));
  open_or_make(path);
  found_.resize(static_cast<size_t>(num_records) + 1);
  const int64_t size = file_.size();
  for (int32_t record = 1; record <= num_records && layout_.end_of(record) <= size; ++record) {
    std::optional<RecordHeader> header = read_header(record);
    if (!header) continue;
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
  const int64_t most = layout_.begin_of(num_records_ + 1);
  if (file_.size() > most && !file_.resize(most)) fail("cutting");
  // Prefixes are counted on from what is found now. Without this a power cut could bring back what
  // was there before, with prefixes beyond these.
  if (!file_.sync()) fail("syncing");
}

std::optional<RecordHeader> BlockFile::read_header(int32_t record) {
  const int64_t read = file_.read_at(layout_.begin_of(record), header_);
  if (read != layout_.header_bytes) return std::nullopt;
  return decode_record_header(header_, shape_.block_size);
}

void BlockFile::check(int32_t record, const BlockKey& key, size_t content_bytes) const {
  if (record < 1 || record > num_records_) {
    throw std::out_of_range(
        fmt::format("BlockFile: record {}, wanted 1 to {}", record, num_records_));
  }
  if (std::ssize(key.tokens) != shape_.block_size ||
      content_bytes != static_cast<size_t>(shape_.bytes_per_block)) {
    throw std::invalid_argument(
        fmt::format("BlockFile: a block of {} tokens and {} bytes, wanted {} and {}",
                    key.tokens.size(), content_bytes, shape_.block_size, shape_.bytes_per_block));
  }
}

// First nothing is said of the record, then its content comes, then its header: a process that is
// killed leaves no header without its content. A power cut may leave any of the three, in any
// order; then a checksum is wrong.
bool BlockFile::write(int32_t record, const BlockKey& key, std::span<const std::byte> content) {
  check(record, key, content.size());
  RecordHeader header{.key = {}, .content_checksum = kv::xxh64(content)};
  header.key = {.hash = key.hash,
                .parent = key.parent,
                .prefix = key.prefix.value(),
                .tokens = {key.tokens.begin(), key.tokens.end()},
                .extra_keys = {key.extra_keys.begin(), key.extra_keys.end()},
                .age = next_age_++};
  constexpr std::array<std::byte, 8> kNoMagic{};
  const auto bytes = encode_record_header(header, layout_.header_bytes);
  return file_.write_at(layout_.begin_of(record), kNoMagic) && bytes.has_value() &&
         file_.write_at(layout_.content_of(record), content) &&
         file_.write_at(layout_.begin_of(record), *bytes);
}

bool BlockFile::read(int32_t record, const BlockKey& key, std::span<std::byte> content) {
  check(record, key, content.size());
  const std::optional<RecordHeader> header = read_header(record);
  return header.has_value() && header->key.hash == key.hash &&
         same_content(header->key.key(), key) &&
         file_.read_at(layout_.content_of(record), content) == shape_.bytes_per_block &&
         kv::xxh64(content) == header->content_checksum;
}

void BlockFile::clear() {
  if (!file_.resize(kPage) || !file_.sync()) {
    kv::user_error("the file of blocks cannot be cleared: {}; remove it", kv::File::last_error());
  }
  found_.assign(found_.size(), std::nullopt);
}

}  // namespace lesson11
