#pragma once

// A folder for files of one run.

#include <filesystem>

namespace kv {

/// A new folder that no other user can read, write or have made before. The destructor removes it
/// and its contents.
class TempFolder {
 public:
  /// Throws UserError if it cannot be made.
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace kv
