#include "instruments/replay/trace/next_uses.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "common/error.h"
#include "common/table.h"

namespace replay {
namespace {

/// A file without a name, which is gone when it is closed, however the program ends.
int open_unnamed() {
  const char* const folder = std::getenv("TMPDIR");
  std::string path = std::string(folder != nullptr ? folder : "/tmp") + "/replay_";
  path.append(6, 'X');  // mkstemp puts in their place what makes the name a new one
  const int file = mkstemp(path.data());
  if (file < 0) {
    kv::user_error("cannot make a file {} for next uses: {}; set TMPDIR to another folder", path,
                   std::strerror(errno));
  }
  unlink(path.c_str());
  return file;
}

}  // namespace

NextUses::~NextUses() {
  for (int64_t* piece : pieces_) munmap(piece, sizeof(int64_t) * kPiece);
  if (file_ >= 0) close(file_);
}

void NextUses::add_piece() {
  if (file_ < 0) file_ = open_unnamed();
  constexpr auto kBytes = static_cast<off_t>(sizeof(int64_t) * kPiece);
  const auto begin = static_cast<off_t>(pieces_.size()) * kBytes;
  // All of it is on the disk before it is used: a full disk is an error here, not a crash later.
  int error = posix_fallocate(file_, begin, kBytes);
  void* piece = MAP_FAILED;
  if (error == 0) {
    piece = mmap(nullptr, static_cast<size_t>(kBytes), PROT_READ | PROT_WRITE, MAP_SHARED, file_,
                 begin);
    if (piece == MAP_FAILED) error = errno;
  }
  if (error != 0) {
    kv::user_error("no room for the next uses of {}: {}; set TMPDIR to another folder",
                   kv::count_of(num_uses_, "block"), std::strerror(error));
  }
  pieces_.push_back(static_cast<int64_t*>(piece));
}

void NextUses::add(const Batch& batch, LastUses& last) {
  for (const uint64_t id : batch.ids) {
    if (num_uses_ == std::ssize(pieces_) * kPiece) add_piece();
    *entry(num_uses_) = kNever;
    const auto [found, is_new] = last.try_emplace(id, num_uses_);
    if (!is_new) *entry(std::exchange(found->second, num_uses_)) = num_uses_;
    ++num_uses_;
  }
  num_different_ = std::ssize(last);
}

}  // namespace replay
