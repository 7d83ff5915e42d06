#pragma once

// A file that is read and written at any place, by one process at a time.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

namespace kv {

/// Owns an open file and its lock. Reading and writing never throw: a cache goes on without its
/// file.
class File {
 public:
  /// Opens a file for reading and writing, an empty one if it is not there. Throws UserError: not a
  /// regular file, not allowed, open in another process (or here, once more).
  explicit File(const std::filesystem::path& path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// How many bytes were read: fewer than wanted if the file ends before; -1: the disk failed.
  int64_t read_at(int64_t offset, std::span<std::byte> bytes) const;
  /// False: not everything was written (a full disk, a limit).
  bool write_at(int64_t offset, std::span<const std::byte> bytes);

  /// Asked before each write of this process, to play a disk that loses some: if it returns false,
  /// nothing is written, and write_at() returns true all the same. Empty: no write is lost.
  static inline std::function<bool(int64_t offset, std::span<const std::byte> bytes)> reaches_disk;

  int64_t size() const;  // -1: nobody knows
  bool resize(int64_t bytes);
  /// True: all of it is on the disk, and stays there without power.
  bool sync();
  /// For messages: what went wrong last.
  static std::string last_error();

 private:
  int fd_ = -1;
};

/// So is the folder's entry of a file that was just made.
bool sync_folder_of(const std::filesystem::path& path);

}  // namespace kv
