#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "common/error.h"
#include "common/json.h"
#include "common/table.h"
#include "common/utf8.h"
#include "qwen3/safetensors.h"

namespace kv {
namespace {

// The length in 8 bytes, then the JSON, padded with spaces so that the data starts at a multiple of
// 8: a reader that maps the file then finds every tensor aligned whose size allows it.
std::string header_text(const std::vector<TensorSpec>& tensors, const std::filesystem::path& path,
                        uint64_t* data_bytes) {
  Json header = Json::object();
  uint64_t offset = 0;
  for (const TensorSpec& t : tensors) {
    const std::string where = fmt::format("{}: tensor {}", path.string(), quote(t.name));
    const uint64_t end = offset + tensor_bytes(t.dtype, t.shape, where);
    Json info = {{"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {offset, end}}};
    if (t.name == "__metadata__" || !is_valid_utf8(t.name) ||
        !header.emplace(t.name, std::move(info)).second) {
      user_error("{}: reserved, not UTF-8, or there twice; wanted distinct names", where);
    }
    offset = end;
  }
  *data_bytes = offset;
  std::string json = header.dump();
  json.append((8 - json.size() % 8) % 8, ' ');
  std::string text;
  for (size_t i = 0; i < 8; ++i) text.push_back(static_cast<char>((json.size() >> (8 * i)) & 0xFF));
  return text + json;
}

void write_all(int fd, const char* data, size_t bytes, bool* ok) {
  while (bytes > 0) {
    constexpr size_t kMax = size_t{1} << 30;  // one call writes at most 2 GiB
    const ssize_t n = ::write(fd, data, bytes < kMax ? bytes : kMax);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      *ok = false;
      return;
    }
    data += n;
    bytes -= static_cast<size_t>(n);
  }
  *ok = true;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     const std::vector<TensorSpec>& tensors)
    : path_(path), temporary_(path.string() + fmt::format(".{}.tmp", ::getpid())) {
  const std::string header = header_text(tensors, path, &bytes_left_);
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("creating");
  bool ok = false;
  write_all(fd_, header.data(), header.size(), &ok);
  if (!ok) {
    const int error = errno;  // this object's destructor will not run
    ::close(fd_);
    ::unlink(temporary_.c_str());
    errno = error;
    fail("writing");
  }
}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd_ < 0) return;  // finished
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void SafetensorsWriter::write(const void* data, size_t bytes) {
  if (bytes > bytes_left_) {
    throw std::logic_error(fmt::format("{}: {} bytes written, only {} left to write",
                                       path_.string(), bytes, bytes_left_));
  }
  bool ok = false;
  write_all(fd_, static_cast<const char*>(data), bytes, &ok);
  if (!ok) fail("writing");
  bytes_left_ -= bytes;
}

void SafetensorsWriter::finish() {
  if (bytes_left_ != 0) {
    throw std::logic_error(
        fmt::format("{}: finished with {} bytes missing", path_.string(), bytes_left_));
  }
  // Some file systems report a full disk only here.
  const bool closed = ::close(fd_) == 0;
  fd_ = -1;
  if (!closed || std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary_.c_str());
    errno = error;
    fail(closed ? "renaming" : "closing");
  }
}

void SafetensorsWriter::fail(const char* doing) const {
  user_error("{}: {} failed: {}; wanted a writable folder with enough space, nothing was written",
             path_.string(), doing, std::strerror(errno));
}

void write_safetensors(const std::filesystem::path& path,
                       const std::vector<TensorToWrite>& tensors) {
  std::vector<TensorSpec> specs;
  for (const TensorToWrite& t : tensors) {
    specs.push_back({t.name, t.dtype, t.shape});
    const std::string where = fmt::format("{}: tensor {}", path.string(), quote(t.name));
    const uint64_t wanted = tensor_bytes(t.dtype, t.shape, where);
    if (t.bytes != wanted) {
      user_error("{}: {} given, wanted {} for its shape", where,
                 count_of(static_cast<int64_t>(t.bytes), "byte"), wanted);
    }
  }
  SafetensorsWriter writer(path, specs);
  for (const TensorToWrite& t : tensors) writer.write(t.data, t.bytes);
  writer.finish();
}

}  // namespace kv
