#pragma once

// Frames in a file, as they travelled: a line that names the format, then for each frame its number
// (8 bytes, the most significant first, as on the wire), the length of its payload (4 bytes, the
// same way), and the payload. Nothing is decoded on the way in, so a recording shows what the
// server really sent, and what a later version sends can be recorded by this one. It can be cut
// anywhere, and all frames that are whole are read.

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "kv_events.h"

namespace lesson07::watch {

class RecordingWriter final : public FrameSink {
 public:
  /// A file that is there is replaced. Throws UserError.
  explicit RecordingWriter(const std::filesystem::path& file);
  /// Each frame is in the file when this returns. Throws UserError.
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
  /// False at the end. Throws UserError for a length that no frame has.
  bool next(Frame& frame);
  /// At the end: whether the file ends in the middle of a frame.
  bool is_cut() const { return is_cut_; }

 private:
  bool read(std::string& bytes, size_t count);

  std::string name_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  int64_t at_ = 0;  // bytes read
  bool is_cut_ = false;
};

}  // namespace lesson07::watch
