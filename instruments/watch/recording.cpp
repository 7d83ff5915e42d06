#include "instruments/watch/recording.h"

#include <cerrno>
#include <cstring>
#include <string_view>

#include "common/error.h"

namespace watch {
namespace {

constexpr std::string_view kFirstLine = "page-by-page kv-events 1\n";

}  // namespace

RecordingWriter::RecordingWriter(const std::filesystem::path& file)
    : name_(file.string()), file_(std::fopen(name_.c_str(), "wb"), &std::fclose) {
  if (!file_) {
    kv::user_error("{}: cannot be written: {}; name a file in a folder that you can write to",
                   name_, std::strerror(errno));
  }
  write(std::string(kFirstLine));
}

void RecordingWriter::send(const Frame& frame) {
  if (frame.payload.size() > kMaxPayload) {
    kv::user_error("{}: a batch of {} bytes, wanted at most {}", name_, frame.payload.size(),
                   kMaxPayload);
  }
  write(seq_bytes(frame.seq) + seq_bytes(frame.payload.size()).substr(4) + frame.payload);
}

void RecordingWriter::write(const std::string& bytes) {
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size();
  if (!written || std::fflush(file_.get()) != 0) {
    kv::user_error("{}: cannot be written: {}; it ends in the middle of a frame", name_,
                   std::strerror(errno));
  }
}

RecordingReader::RecordingReader(const std::filesystem::path& file)
    : name_(file.string()), file_(std::fopen(name_.c_str(), "rb"), &std::fclose) {
  if (!file_) {
    kv::user_error("{}: cannot be read: {}; wanted a recording, or an address as tcp://HOST:5557",
                   name_, std::strerror(errno));
  }
  std::string line;
  if (!read(line, kFirstLine.size())) is_cut_ = true;
  if (line.empty() || !kFirstLine.starts_with(line)) {
    kv::user_error(
        "{}: not a recording of KV events, which begins with '{}'; watch --record "
        "makes one",
        name_, kFirstLine.substr(0, kFirstLine.size() - 1));
  }
}

bool RecordingReader::read(std::string& bytes, size_t count) {
  bytes.resize(count);
  bytes.resize(std::fread(bytes.data(), 1, count, file_.get()));
  if (std::ferror(file_.get()) != 0) kv::user_error("{}: {}", name_, std::strerror(errno));
  at_ += static_cast<int64_t>(bytes.size());
  return bytes.size() == count;
}

bool RecordingReader::next(Frame& frame) {
  if (is_cut_) return false;
  std::string head;
  if (!read(head, 12)) {
    is_cut_ = !head.empty();
    return false;
  }
  frame.seq = seq_of(std::string_view(head).substr(0, 8));
  if (frame.seq > kMaxSeq) {
    kv::user_error("{}: byte {}: a batch with number {}, wanted at most {}; the file is damaged",
                   name_, at_ - 12, frame.seq, kMaxSeq);
  }
  const uint64_t length = seq_of(std::string_view(head).substr(8));
  if (length > kMaxPayload) {
    kv::user_error("{}: byte {}: a frame of {} bytes, wanted at most {}; the file is damaged",
                   name_, at_ - 4, length, kMaxPayload);
  }
  is_cut_ = !read(frame.payload, static_cast<size_t>(length));
  return !is_cut_;
}

}  // namespace watch
