#include "common/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/error.h"

namespace kv {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const char* doing) {
  user_error("{}: {} failed: {}; wanted a readable file, check the path and its permissions",
             path.string(), doing, std::strerror(errno));
}

struct FileDescriptor {
  int fd = -1;
  ~FileDescriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  // O_NONBLOCK, because opening a pipe without a writer would wait forever.
  const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) fail(path, "opening");
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) fail(path, "stat");
  if (!S_ISREG(info.st_mode)) {
    user_error("{}: not a regular file, wanted one to map", path.string());
  }
  size_ = static_cast<size_t>(info.st_size);
  if (size_ == 0) return;  // mmap refuses an empty range
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.fd, 0);
  if (data == MAP_FAILED) fail(path, "mmap");
  data_ = data;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace kv
