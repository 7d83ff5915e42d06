#pragma once

// A file that is read and written at any offset, by one process at a time.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

namespace kv {

/// Owns an open file and its lock. Reading and writing never throw, because a cache must go on when
/// its file fails.
class File {
 public:
  /// Opens a file for reading and writing, and creates it if it does not exist. Throws UserError if
  /// it is not a regular file, may not be opened, or is already open (here or in another process).
  explicit File(const std::filesystem::path& path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// Returns the number of bytes read: fewer than wanted if the file ends before, -1 if the disk
  /// failed.
  int64_t read_at(int64_t offset, std::span<std::byte> bytes) const;
  /// Returns false if not everything was written (a full disk, a limit).
  bool write_at(int64_t offset, std::span<const std::byte> bytes);

  /// For tests: simulates a disk that loses writes. If it returns false, write_at() writes nothing
  /// and still returns true. Empty means that no write is lost.
  static inline std::function<bool(int64_t offset, std::span<const std::byte> bytes)> reaches_disk;

  int64_t size() const;  // bytes; -1 if the system cannot tell
  bool resize(int64_t bytes);
  /// Waits until all of the file is on the disk, where it survives a power failure. Returns false
  /// if that failed.
  bool sync();
  /// The text of errno, for messages.
  static std::string last_error();

 private:
  int fd_ = -1;
};

/// Syncs the folder of `path`, so that the entry of a new file survives a power failure. Returns
/// false if that failed.
bool sync_folder_of(const std::filesystem::path& path);

}  // namespace kv
