// A file of blocks whose writer ends at any moment: killed, without power, or without room.

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <map>
#include <thread>

#include "common/defer.h"
#include "file_changes.h"

std::function<void(const lesson12_test::Change&)> lesson12_test::on_file_change;
bool lesson12_test::file_change_fails = false;

namespace {

using namespace lesson12_test;
using lesson12::kPage;

template <class F>
F* next_of(F*, const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// The linker finds these before those of the system.
extern "C" {
ssize_t pwrite(int fd, const void* data, size_t size, off_t at) {
  const auto* bytes = static_cast<const std::byte*>(data);
  if (on_file_change) on_file_change({Change::Kind::kWrite, at, {bytes, bytes + size}});
  if (std::exchange(file_change_fails, false)) return errno = EIO, -1;
  static const auto next = next_of(&pwrite, "pwrite");
  return next(fd, data, size, at);
}
int ftruncate(int fd, off_t size) noexcept {
  if (on_file_change) on_file_change({Change::Kind::kResize, size});
  static const auto next = next_of(&ftruncate, "ftruncate");
  return next(fd, size);
}
int fsync(int) {  // not called: it is slow, and no power is cut here
  if (on_file_change) on_file_change({});
  return 0;
}
}

namespace {

constexpr int kRecords = 3;
using Held = std::vector<int64_t>;  // [kRecords] as number_in() gives them

void replay(Bytes& image, const Change& change) {
  if (change.kind == Change::Kind::kResize) image.resize(change.at);
  if (change.kind != Change::Kind::kWrite || change.bytes.empty()) return;
  const size_t end = static_cast<size_t>(change.at) + change.bytes.size();
  image.resize(std::max(image.size(), end));
  std::ranges::copy(change.bytes, image.begin() + change.at);
}

/// The blocks in the file's records, each of which is as it was once written there.
Held open_image(const Bytes& image) {
  static const kvtest::TempDir dir;
  put_bytes(dir.path() / "image", image);
  Held held = numbers_in(BlockFile(dir.path() / "image", kShape));
  held.resize(kRecords);  // a file ends with the last record that was written
  return held;
}

/// A program's changes of a file, and the blocks in its records by the number of changes made.
struct Story {
  std::vector<Change> changes;
  std::map<size_t, Held> held;

  explicit Story(uint64_t seed) {
    const kvtest::TempDir dir;
    kvtest::Random random(seed);
    on_file_change = [&](const Change& change) { changes.push_back(change); };
    const kv::Defer stop{[] { on_file_change = nullptr; }};
    Held now(kRecords);
    int64_t number = 0;
    for (int session = 0; session < 2; ++session) {
      BlockFile file(dir.path() / "blocks", kShape);
      file.sync();  // as FileTier does: the blocks found are there to stay
      held[changes.size()] = now;
      for (int i = 0; i < 12; ++i) {
        const int record = 1 + random.below(kRecords);
        const int what = random.below(12);
        if (what == 0) {
          file.clear(kShape.fingerprint);
          now.assign(kRecords, 0);
        } else if (what == 1) {
          file.sync();
        } else {
          REQUIRE(write(file, record, block_of(++number)));
          now[static_cast<size_t>(record) - 1] = number;
        }
        held[changes.size()] = now;
      }
    }
  }
};

/// The file after a power cut: of the changes after the last sync before `end`, some are lost,
/// torn, or done in another order.
Bytes after_a_power_cut(const std::vector<Change>& changes, size_t end, kvtest::Random& random) {
  Bytes image;
  size_t synced = end;
  while (synced > 0 && changes[synced - 1].kind != Change::Kind::kSync) --synced;
  for (size_t i = 0; i < synced; ++i) replay(image, changes[i]);
  std::vector<Change> window(changes.begin() + static_cast<std::ptrdiff_t>(synced),
                             changes.begin() + static_cast<std::ptrdiff_t>(end));
  for (size_t i = window.size(); i > 1; --i) {
    const size_t other = random.below(i);
    if (window[i - 1].kind == window[other].kind) std::swap(window[i - 1], window[other]);
  }
  for (Change& change : window) {
    const int what = random.below(4);
    if (what == 0) continue;
    constexpr size_t kSector = 512;
    const size_t sectors = change.bytes.size() / kSector;
    if (what == 1 && sectors > 0) {
      change.bytes.resize(kSector * static_cast<size_t>(random.below(sectors)));
    } else if (what == 1 && change.bytes.size() > 8 && change.at >= kPage) {
      change.bytes.resize(random.below(change.bytes.size()));
    }
    replay(image, change);
  }
  return image;
}

}  // namespace

TEST_CASE("a write that fails is the last one, and costs no other record") {
  for (const int failing : {1, 2, 3}) {  // of the name, the content and the header
    CAPTURE(failing);
    const kvtest::TempDir dir;
    BlockFile file(dir.path() / "blocks", kShape);
    for (const int32_t record : {1, 2}) REQUIRE(write(file, record, block_of(record)));
    int num_writes = 0;
    on_file_change = [&](const Change&) { file_change_fails = ++num_writes == failing; };
    const kv::Defer stop{[] { on_file_change = nullptr; }};
    CHECK_FALSE(write(file, 1, block_of(3)));
    CHECK(num_writes == failing);
    CHECK(number_in(file, 1) == (failing == 1 ? 1 : 0));  // until the magic number went
    CHECK(number_in(file, 2) == 2);
  }
}

TEST_CASE("a writer that is killed between two writes leaves what it had written") {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Story story(seed);
    Bytes image;
    for (size_t end = 0; end <= story.changes.size(); ++end) {
      if (end > 0) replay(image, story.changes[end - 1]);
      const Held held = open_image(image);
      CAPTURE(seed);
      CAPTURE(end);
      REQUIRE(std::ranges::count(held, -1) == 0);  // no header without its content
      const auto after = story.held.lower_bound(end);
      if (after != story.held.end() && after->first == end) {
        REQUIRE(held == after->second);
        continue;
      }
      // In the middle of an operation. One record may hold neither the old block nor the new one.
      const Held before = after == story.held.begin() ? Held(kRecords) : std::prev(after)->second;
      for (size_t i = 0; i < kRecords; ++i) {
        const bool changes = before[i] != after->second[i];
        REQUIRE((held[i] == before[i] || (changes && held[i] == 0)));
      }
    }
  }
}

TEST_CASE("a power cut loses blocks, and never gives a wrong one") {
  int64_t num_found = 0;
  int64_t num_unread = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Story story(seed);
    kvtest::Random random(seed);
    for (size_t end = 0; end <= story.changes.size(); ++end) {
      for (int i = 0; i < 4; ++i) {
        const Held held = open_image(after_a_power_cut(story.changes, end, random));
        num_found += kRecords - std::ranges::count(held, 0);
        num_unread += std::ranges::count(held, -1);
      }
    }
  }
  CHECK(num_unread > 0);  // the cuts were bad enough: headers without their content
  CHECK(num_found > num_unread);
}

TEST_CASE("a writer that is killed at any moment leaves no record that cannot be read") {
  constexpr FileShape kLarge{.fingerprint = 1, .block_size = 3, .bytes_per_block = 300'000};
  constexpr int kMany = 8;
  const kvtest::TempDir dir;
  kvtest::Random random(11);
  int64_t next = 1;
  for (int round = 0; round < 15; ++round) {
    std::array<int, 2> written{};  // a byte for each record
    REQUIRE(::pipe(written.data()) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      BlockFile file(dir.path() / "blocks", kLarge);
      for (int64_t i = next;; ++i) {
        const bool ok = write(file, 1 + static_cast<int32_t>(i % kMany), block_of(i, kLarge));
        if (!ok || ::write(written[1], "", 1) != 1) ::_exit(1);
      }
    }
    ::close(written[1]);  // a child that is gone ends what is read
    const int at_least = 1 + random.below(kMany);
    char byte = 0;
    for (int i = 0; i < at_least; ++i) REQUIRE(::read(written[0], &byte, 1) == 1);
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(5'000)));
    REQUIRE(::kill(child, SIGKILL) == 0);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    ::close(written[0]);
    BlockFile file(dir.path() / "blocks", kLarge);
    int num_found = 0;
    for (const int64_t number : numbers_in(file)) {
      REQUIRE(number >= 0);  // no header without its content
      next = std::max(next, number + 1);
      num_found += number > 0;
    }
    CHECK(num_found >= at_least - 1);  // one of them may have been written over
  }
}

TEST_CASE("a full disk costs the record that is written, and no other") {
  const kvtest::TempDir dir;
  BlockFile file(dir.path() / "blocks", kShape);
  for (const int32_t record : {1, 2, 3}) REQUIRE(write(file, record, block_of(record)));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  // In the header of record 3, in its content, right before record 4.
  for (const int64_t limit :
       {kPage + 2 * kRecord + 100, 2 * kPage + 2 * kRecord + 10, kPage + 3 * kRecord}) {
    const rlimit full{.rlim_cur = static_cast<rlim_t>(limit), .rlim_max = before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &full) == 0);
    const bool fits = limit == kPage + 3 * kRecord;
    const bool third = write(file, 3, block_of(13));
    const bool fourth = write(file, 4, block_of(14));
    const bool first = write(file, 1, block_of(11));
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK(third == fits);
    CHECK_FALSE(fourth);
    CHECK(first);
    CHECK(number_in(file, 1) == 11);
    CHECK(number_in(file, 2) == 2);
    CHECK(number_in(file, 3) == (fits ? 13 : 0));
    CHECK(number_in(file, 4) == 0);
  }
  ::signal(SIGXFSZ, handler);
  CHECK(write(file, 4, block_of(4)));
  CHECK(number_in(file, 4) == 4);
}
