#pragma once

// Frames in a file, as the server sent them. A line names the format. Then come, for each frame,
// its number (8 bytes, the most significant first, as on the wire), the length of its payload (4
// bytes, in the same order), and the payload. Nothing is decoded before it is written, so frames of
// later versions can be recorded, too. From a file that is cut, all whole frames are read.

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "instruments/watch/kv_events.h"

namespace watch {

class RecordingWriter final : public FrameSink {
 public:
  /// Replaces an existing file. Throws UserError.
  explicit RecordingWriter(const std::filesystem::path& file);
  /// Writes the frame to the file before it returns. Throws UserError.
  void send(const Frame& frame) override;

 private:
  void write(const std::string& bytes);

  std::string name_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

class RecordingReader {
 public:
  /// Throws UserError for a file that cannot be read, or is no recording.
  explicit RecordingReader(const std::filesystem::path& file);
  /// Returns false at the end. Throws UserError for a number or a length that no frame has.
  bool next(Frame& frame);
  /// After the end: true if the file ends in the middle of a frame.
  bool is_cut() const { return is_cut_; }

 private:
  bool read(std::string& bytes, size_t count);

  std::string name_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  int64_t at_ = 0;  // bytes read
  bool is_cut_ = false;
};

}  // namespace watch
