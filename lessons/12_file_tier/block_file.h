#pragma once

// Blocks in a file that survives a restart, also one in the middle of a write. The layout, all
// numbers little endian:
//
// clang-format off
//   0             file header, one page:
//      0  8 bytes "KVBLOCKS"
//      8  8       version: 2
//     16  8       fingerprint
//     24  8       block_size
//     32  8       bytes_per_block
//     40  8       XXH64 of these 40 bytes
//   page          record 1: its header, in whole pages, and its content, padded to whole pages
//   ...           record 2, of the same size, and so on
//
//   record header:
//      0  8 bytes "KVRECORD"
//      8  8       XXH64 of the rest of the header, its padding included
//     16  8       checksum of the content, as checksum_of() gives it
//     24  8       age
//     32  8       hash
//     40  8       1: there is a parent, 0: there is none
//     48  8       the parent's prefix, or 0
//     56  8       prefix
//     64  8       number of extra keys
//     72  4 each  tokens, block_size of them
//         24 each kind, offset and length of an extra key, then its value: one key after the other
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

using lesson06::BlockKey;
using lesson06::ExtraKey;
using lesson06::ExtraKeys;
using lesson06::PrefixId;

/// The meaning of a file's bytes. A file of another shape is refused.
struct FileShape {
  /// Stands for all that K and V depend on besides the tokens: the model's weights and config, the
  /// device and its arithmetic. See fingerprint_of().
  uint64_t fingerprint = 0;
  int block_size = 0;           // tokens
  int64_t bytes_per_block = 0;  // K and V, all layers
  friend bool operator==(const FileShape&, const FileShape&) = default;
};

/// A record's description of its block.
struct RecordKey {
  uint64_t hash = 0;
  std::optional<PrefixId> parent;
  PrefixId prefix = 0;
  std::vector<int32_t> tokens;  // [block_size]
  ExtraKeys extra_keys;
  uint64_t age = 0;  // grows with every write

  BlockKey key() const {  // points into this
    return {.hash = hash,
            .parent = parent,
            .tokens = tokens,
            .extra_keys = extra_keys,
            .prefix = prefix};
  }
};

/// A record's header, with the checksum of the record's content.
struct RecordHeader {
  RecordKey key;
  uint64_t content_checksum = 0;
};

constexpr int64_t kPage = 4096;

/// Offsets and sizes in a file of this shape.
struct FileLayout {
  /// Throws std::invalid_argument for a shape that no file has.
  explicit FileLayout(const FileShape& shape);

  int64_t header_bytes;   // of a record: its tokens, and at least kMinExtraBytes for extra keys
  int64_t content_bytes;  // without padding
  int64_t stride;         // from record to record
  int64_t begin_of(int32_t record) const { return kPage + (record - 1) * stride; }
  /// Records that a file of `bytes` bytes has, the last one perhaps in part.
  int num_records(int64_t bytes) const;
  int64_t content_of(int32_t record) const { return begin_of(record) + header_bytes; }
  int64_t end_of(int32_t record) const { return content_of(record) + content_bytes; }

  static constexpr int64_t kMinExtraBytes = 1024;
};

std::vector<std::byte> encode_file_header(const FileShape& shape);  // [kPage]
/// Describes the fault in the first bytes of a file; empty if there is none.
std::string fault_of_file_header(std::span<const std::byte> bytes, const FileShape& wanted);
/// Returns whether these are all bytes of a file whose maker ended too early: such a file holds
/// nothing yet.
bool is_half_made(std::span<const std::byte> bytes);

/// Empty if the extra keys find no room.
std::optional<std::vector<std::byte>> encode_record_header(const RecordHeader& header,
                                                           int64_t header_bytes);
/// Empty if there is no header, or if it is damaged. Any bytes may be given.
std::optional<RecordHeader> decode_record_header(std::span<const std::byte> bytes, int block_size);

/// Records 1, 2, ... of one block each, at fixed places. Block 0 is lesson 07's null block, and has
/// no record. A record is overwritten in place. If any of it is torn, cut off or flipped, its
/// checksums tell: the block is lost, and the other records are not.
class BlockFile {
 public:
  /// Opens a file, or makes one. Throws UserError for a file that is no block file, has another
  /// shape (both are named), is in use, or cannot be made, read or written; then it is unchanged.
  BlockFile(const std::filesystem::path& path, const FileShape& shape);

  const FileShape& shape() const { return shape_; }
  /// The key of each record that was valid when the file was opened; empty where the record is
  /// missing or damaged. The content is checked when it is read.
  const std::vector<std::optional<RecordKey>>& found() const { return found_; }  // [records + 1]

  /// Overwrites a record; key.prefix is given. Returns false if it cannot be written (a full disk,
  /// extra keys that find no room), and then the record holds nothing.
  bool write(int32_t record, const BlockKey& key, std::span<const std::byte> content,
             uint64_t content_checksum);
  /// Returns the checksum of the content if the record holds this block and nothing is damaged.
  /// Otherwise `content` may hold anything.
  std::optional<uint64_t> read(int32_t record, const BlockKey& key, std::span<std::byte> content);
  /// Empties the record. Returns false if the file cannot be changed.
  bool erase(int32_t record);
  /// Erases all records. Throws UserError if the file cannot be changed.
  void clear();
  /// Waits until all that was written is on the disk; returns false if that fails.
  bool sync() { return file_.sync(); }

 private:
  void open_or_make(const std::filesystem::path& path);
  std::optional<RecordHeader> read_header(int32_t record);
  void check(int32_t record, const BlockKey& key, size_t content_bytes) const;

  FileShape shape_;
  FileLayout layout_;
  kv::File file_;
  std::vector<std::optional<RecordKey>> found_;
  std::vector<std::byte> header_;  // [layout_.header_bytes], the last one that was read
  uint64_t next_age_ = 0;
};

}  // namespace lesson12
