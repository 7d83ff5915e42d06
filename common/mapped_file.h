#pragma once

// A file as read-only bytes in memory. The system loads each page when it is first touched.

#include <cstddef>
#include <filesystem>
#include <span>

namespace kv {

/// Owns one mapping. Neither copied nor moved: views into it stay valid as long as it lives.
class MappedFile {
 public:
  /// Throws UserError: no such file, not a regular file, not readable, cannot be mapped.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// Empty for an empty file.
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  void* data_ = nullptr;  // of the mapping
  size_t size_ = 0;
};

}  // namespace kv
