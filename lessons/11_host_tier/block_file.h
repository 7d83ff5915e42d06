#pragma once

// Blocks in a file that survives a restart, also one in the middle of a write.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "block_file_format.h"
#include "common/base/file.h"

namespace lesson11 {

/// Record 1 .. num_records, each of one block, at fixed places (0 is lesson 07's null block, and
/// has none). A record is written over in place. Whatever of it is torn, cut off or flipped, its
/// checksums tell: the block is lost, the other records are not.
class BlockFile {
 public:
  /// Opens a file, or makes one. Throws UserError for one that is no block file, has another shape
  /// (both are named), is in use, or cannot be made, read or written; nothing of it has changed
  /// then. A file of fewer records grows; one with more is cut: as long as a record is there nobody
  /// may give its prefix another meaning, so there is none that found() does not name.
  BlockFile(const std::filesystem::path& path, const FileShape& shape, int num_records);

  int num_records() const { return num_records_; }
  const FileShape& shape() const { return shape_; }
  /// Of the records that were whole when the file was opened, by record; no value: there is none,
  /// or what is there is damaged. The content itself is checked when it is read.
  const std::vector<std::optional<RecordKey>>& found() const { return found_; }  // [records + 1]

  /// Overwrites a record; the key names its prefix. False: it cannot be written (a full disk; extra
  /// keys that find no room), and then it holds nothing.
  bool write(int32_t record, const BlockKey& key, std::span<const std::byte> content);
  /// False, and anything stands in `content`: the record is damaged, or holds another block.
  bool read(int32_t record, const BlockKey& key, std::span<std::byte> content);
  /// Forgets all records; none of them comes back. Throws UserError if the file cannot be changed.
  void clear();
  /// All that was written is on the disk when this returns true.
  bool sync() { return file_.sync(); }

 private:
  void open_or_make(const std::filesystem::path& path);
  std::optional<RecordHeader> read_header(int32_t record);
  void check(int32_t record, const BlockKey& key, size_t content_bytes) const;

  FileShape shape_;
  int num_records_;
  FileLayout layout_;
  kv::File file_;
  std::vector<std::optional<RecordKey>> found_;
  std::vector<std::byte> header_;  // [layout_.header_bytes], the last one that was read
  uint64_t next_age_ = 0;
};

}  // namespace lesson11
