#include "common/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/error.h"

namespace kv {
namespace {

constexpr size_t kMaxAtOnce = size_t{1} << 30;  // one call moves less than 2 GiB

bool sync_descriptor(int fd) {
#ifdef F_FULLFSYNC  // macOS: fsync() leaves it to the disk when to write
  if (::fcntl(fd, F_FULLFSYNC) == 0) return true;
#endif
  return ::fsync(fd) == 0;
}

/// Calls pread or pwrite until all bytes are moved or a call moves none. Returns the bytes moved,
/// or -1 after an error.
template <class Call>
int64_t move_all(size_t bytes, Call call) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t n = call(done, std::min(bytes - done, kMaxAtOnce));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return static_cast<int64_t>(done);
}

}  // namespace

File::File(const std::filesystem::path& path) {
  // O_NONBLOCK, because opening a pipe could otherwise wait forever for its other end.
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
  if (fd_ < 0) {
    user_error("{}: opening failed: {}; wanted a file to read and write, check the path",
               path.string(), last_error());
  }
  struct stat info {};
  const bool regular = ::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode);
  // A system without locks is no reason to do without the file.
  const bool taken = regular && ::flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (regular && !taken) return;
  ::close(fd_);  // the destructor will not run
  if (taken) {
    user_error("{}: is in use; wait until the other program ends, or give another path",
               path.string());
  }
  user_error("{}: not a regular file, wanted one to read and write; give another path",
             path.string());
}

File::~File() { ::close(fd_); }

int64_t File::read_at(int64_t offset, std::span<std::byte> bytes) const {
  return move_all(bytes.size(), [&](size_t done, size_t n) {
    return ::pread(fd_, bytes.data() + done, n, offset + static_cast<int64_t>(done));
  });
}

bool File::write_at(int64_t offset, std::span<const std::byte> bytes) {
  if (reaches_disk && !reaches_disk(offset, bytes)) return true;
  return move_all(bytes.size(), [&](size_t done, size_t n) {
           return ::pwrite(fd_, bytes.data() + done, n, offset + static_cast<int64_t>(done));
         }) == static_cast<int64_t>(bytes.size());
}

int64_t File::size() const {
  struct stat info {};
  return ::fstat(fd_, &info) == 0 ? static_cast<int64_t>(info.st_size) : -1;
}

bool File::resize(int64_t bytes) { return ::ftruncate(fd_, bytes) == 0; }
bool File::sync() { return sync_descriptor(fd_); }
std::string File::last_error() { return std::strerror(errno); }

bool sync_folder_of(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const int fd = ::open(folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool synced = sync_descriptor(fd);
  ::close(fd);
  return synced;
}

}  // namespace kv
