#pragma once

// Blocks in a file that survives a restart, also one in the middle of a write. The layout, in the
// byte order of x86 and ARM:
//
// clang-format off
//   0             file header, one page: 8 bytes "KVBLOCK3", then the FileShape
//   page          record 1: its header, in whole pages, and its content, padded to whole pages
//   ...           record 2, of the same size, and so on
//
//   record header:
//      0  8 bytes "KVRECORD"; zeros if the record is empty
//      8  8       XXH64 of the rest of the header, its padding included
//     16  8       checksum of the content, as checksum_of() gives it
//     24  8       age
//     32  8       hash
//     40  8       prefix
//     48  8       1: there is a parent, 0: there is none
//     56  8       the parent's prefix, or 0
//     64  4 each  tokens, block_size of them
// clang-format on
//
// A file that was cut off, or one with holes, is a file of fewer records. Only clear() makes a file
// shorter.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/file.h"
#include "lessons/06_prefix_hashing/prefix_index.h"

namespace lesson12 {

using lesson06::PrefixId;

/// The meaning of a file's bytes. A file of another shape is refused.
struct FileShape {
  /// Identifies all that K and V depend on besides the tokens: the model's weights and config, the
  /// device and its arithmetic. See kv::fingerprint_of().
  uint64_t fingerprint = 0;
  int64_t block_size = 0;       // tokens
  int64_t bytes_per_block = 0;  // all layers
  int64_t format = 0;           // of the cache, a kv::KvFormat; 0 means activation dtype
  friend bool operator==(const FileShape&, const FileShape&) = default;
};

/// The header of a record: the key of its block, and the checksum of its content.
struct Record {
  uint64_t content_checksum = 0;
  uint64_t age = 0;  // a larger number was written later
  uint64_t hash = 0;
  PrefixId prefix = 0;
  std::optional<PrefixId> parent;
  std::vector<int32_t> tokens;  // [block_size]
  friend bool operator==(const Record&, const Record&) = default;
};

constexpr int64_t kPage = 4096;

/// Offsets and sizes in a file of this shape.
struct FileLayout {
  /// Throws std::invalid_argument for a shape that no file has.
  explicit FileLayout(const FileShape& shape);

  int64_t header_bytes;   // of a record, in whole pages
  int64_t content_bytes;  // without padding
  int64_t stride;         // from record to record
  int64_t begin_of(int32_t record) const { return kPage + (record - 1) * stride; }
  int64_t content_of(int32_t record) const { return begin_of(record) + header_bytes; }
  /// Records that a file of `bytes` bytes has, the last one perhaps in part.
  int num_records(int64_t bytes) const;
};

std::vector<std::byte> encode_file_header(const FileShape& shape);  // [kPage]
/// Describes the fault in the first bytes of a file; empty if there is none.
std::string fault_of_file_header(std::span<const std::byte> bytes, const FileShape& wanted);

std::vector<std::byte> encode_header(const Record& record, int64_t header_bytes);
/// Empty if there is no header, or if it is damaged. Any bytes may be given.
std::optional<Record> decode_header(std::span<const std::byte> bytes, int64_t block_size);

/// Records 1, 2, ... of one block each, at fixed places. Block 0 is lesson 07's null block, and has
/// no record. A record is overwritten in place. If any of it is torn, cut off or flipped, its
/// checksums tell: the block is lost, and the other records are not.
class BlockFile {
 public:
  /// Opens a file, or makes one. Throws UserError for a file that is no block file, has another
  /// shape (both are named), is in use, or cannot be made, read or written; then it is unchanged.
  BlockFile(const std::filesystem::path& path, const FileShape& shape);

  const FileShape& shape() const { return shape_; }
  /// The number of the last record in the file.
  int num_records() const { return layout_.num_records(file_.size()); }

  /// Overwrites a record. Returns false if it cannot be written (a full disk, say); then the
  /// record holds nothing, or still what it held if even its magic number could not be erased.
  bool write(int32_t record, const Record& header, std::span<const std::byte> content);
  /// Empty if the record is empty, or its header is missing or damaged.
  std::optional<Record> read_header(int32_t record) const;
  /// Returns false if the content is not the one that belongs to this header. Then `content` may
  /// hold anything.
  bool read_content(int32_t record, const Record& header, std::span<std::byte> content) const;
  /// Whether the record has no magic number: it was erased, or never written, and may be a hole of
  /// the file.
  bool is_empty(int32_t record) const;
  /// Empties the record. Returns false if the file cannot be changed.
  bool erase(int32_t record);
  /// Erases all records; those to come are of the model with this fingerprint. Throws UserError if
  /// the file cannot be changed.
  void clear(uint64_t fingerprint);
  /// Waits until all that was written is on the disk; returns false if that fails.
  bool sync() { return file_.sync(); }

 private:
  void check(int32_t record, const Record& header, size_t content_bytes) const;

  FileShape shape_;
  FileLayout layout_;
  kv::File file_;
};

}  // namespace lesson12
