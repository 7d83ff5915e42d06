// Blocks on their way between the host and a file.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <semaphore>
#include <utility>

#include "file_changes.h"
#include "file_transfers.h"
#include "tests/support/kv_shape.h"

namespace {

using namespace lesson11_test;
using lesson07::BlockPool;
using lesson11::BlockMove;
using lesson11::FileTransfers;
using lesson11::HostBlocks;
using lesson11::PagedKvCache;
using lesson11::Ticket;
using lesson11::Way;
using Run = FileTransfers::Run;
using Records = std::vector<int32_t>;

constexpr int kHost = 6;     // blocks
constexpr int kRecords = 4;  // and the null block

class Fixture {
 public:
  Fixture()
      : cache(kvtest::shape(2, 1, 8), stream, 1, 2),
        host(cache, kv::Device::kCpu, kHost),
        records(kRecords, 2),
        shape{.fingerprint = 5,
              .block_size = 2,
              .bytes_per_block = static_cast<int64_t>(host.bytes_per_block())} {
    open();
    Records ids(kRecords);
    records.get_new_blocks(ids);
  }
  void open() {
    file.reset();
    file = std::make_unique<BlockFile>(path(), shape, kRecords);
  }
  std::filesystem::path path() const { return dir.path() / "blocks"; }
  FileTransfers transfers(Run run) { return FileTransfers(*file, host, records, run); }
  /// The record is about to hold this block, or holds it.
  void name(int32_t record, const Block& block) {
    records.evict_blocks({&record, 1});
    records.cache_full_block(record, block.key.key());
  }
  void fill(int32_t upper, const Block& block) {
    std::ranges::copy(block.content, host.block(upper).begin());
  }
  Bytes content(int32_t upper) const {
    return {host.block(upper).begin(), host.block(upper).end()};
  }
  Block block(int64_t number) const { return block_of(number, shape); }

  kvtest::TempDir dir;
  kv::Stream stream{kv::Device::kCpu};
  PagedKvCache cache;
  HostBlocks host;
  BlockPool records;
  FileShape shape;
  std::unique_ptr<BlockFile> file;
};

Ticket start(FileTransfers& transfers, Way way, const std::vector<BlockMove>& moves) {
  return transfers.start(way, moves);
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "blocks sink and rise, in the order in which they were told to") {
  for (const Run run : {Run::kThread, Run::kAtOnce}) {
    FileTransfers link = transfers(run);
    CHECK(link.completed() == 0);
    link.wait(0);
    for (const int32_t record : {1, 2}) {
      fill(record, block(record));
      name(record, block(record));
    }
    CHECK(start(link, Way::kDown, {{1, 1}, {2, 2}}) == 1);
    CHECK(start(link, Way::kUp, {{3, 1}, {4, 2}}) == 2);
    CHECK(start(link, Way::kUp, {}) == 3);
    if (run == Run::kAtOnce) CHECK(link.completed() == 3);
    link.wait(2);
    CHECK(link.completed() >= 2);
    CHECK(content(3) == block(1).content);
    CHECK(content(4) == block(2).content);
    link.wait(3);
    CHECK(link.completed() == 3);
    CHECK(link.take_damaged().empty());
    CHECK_THROWS_AS(link.wait(4), std::logic_error);
  }
}

TEST_CASE_FIXTURE(Fixture, "many batches over the same blocks do what one after the other does") {
  FileTransfers link = transfers(Run::kThread);
  std::vector<int64_t> upper(kHost), lower(kRecords + 1);  // the number of the block in each
  for (int32_t record = 1; record <= kRecords; ++record) name(record, block(100 + record));
  for (int32_t id = 0; id < kHost; ++id) fill(id, block(upper[static_cast<size_t>(id)] = id + 1));
  kvtest::Random random(3);
  Ticket last = 0;
  for (int i = 0; i < 2'000; ++i) {
    const auto up = static_cast<size_t>(random.below(kHost));
    const auto low = static_cast<size_t>(1 + random.below(kRecords));
    const Way way = lower[low] == 0 || random.below(2) == 0 ? Way::kDown : Way::kUp;
    way == Way::kDown ? lower[low] = upper[up] : upper[up] = lower[low];
    const Ticket ticket = start(link, way, {{static_cast<int32_t>(up), static_cast<int32_t>(low)}});
    REQUIRE(ticket == ++last);
    REQUIRE(link.completed() <= ticket);
    if (random.below(10) > 0) continue;
    link.wait(last);
    REQUIRE(content(static_cast<int32_t>(up)) == block(upper[up]).content);
    fill(static_cast<int32_t>(up), block(upper[up] = 1000 + i));  // or soon they would all be equal
  }
  link.wait(last);
  CHECK(link.completed() == last);
  CHECK(link.take_damaged().empty());
  for (int32_t id = 0; id < kHost; ++id) {
    CHECK(content(id) == block(upper[static_cast<size_t>(id)]).content);
  }
}

TEST_CASE_FIXTURE(Fixture, "a batch is done when all its blocks are there") {
  FileTransfers link = transfers(Run::kThread);
  name(1, block(1));
  std::binary_semaphore writes(0), may_write(0);
  bool is_first = true;
  on_file_change = [&](const Change&) {
    if (!std::exchange(is_first, false)) return;
    writes.release();
    may_write.acquire();
  };
  start(link, Way::kDown, {{0, 1}});
  writes.acquire();
  const Ticket completed = link.completed();
  const auto damaged = link.take_damaged();  // does not wait for the file
  may_write.release();
  link.wait(1);
  on_file_change = nullptr;
  CHECK(completed == 0);
  CHECK(damaged.empty());
  CHECK(link.completed() == 1);
}

TEST_CASE_FIXTURE(Fixture, "what a pool forgets meanwhile is written all the same") {
  {
    FileTransfers link = transfers(Run::kThread);
    for (int64_t number = 1; number <= 50; ++number) {
      fill(0, block(number));
      name(1, block(number));
      const Ticket ticket = start(link, Way::kDown, {{0, 1}});
      name(1, block(999));  // the pool has other plans for the record
      link.wait(ticket);
      REQUIRE(read(*file, 1, block(number).key) == block(number).content);
    }
  }
}

TEST_CASE_FIXTURE(Fixture, "records that cannot be read, or not be written, are named once") {
  for (const Run run : {Run::kThread, Run::kAtOnce}) {
    FileTransfers link = transfers(run);
    for (const int32_t record : {1, 2, 3}) {
      fill(record, block(record));
      name(record, block(record));
    }
    Block too_long = block(4);
    too_long.key.extra_keys = {{ExtraKey::Kind::kSalt, std::string(5000, 's')}};
    name(4, too_long);
    link.wait(start(link, Way::kDown, {{1, 1}, {2, 2}, {3, 3}, {0, 4}}));
    CHECK(link.take_damaged() == Records{4});
    CHECK(link.take_damaged().empty());
    const int fd = ::open(path().c_str(), O_WRONLY | O_CLOEXEC);
    const off_t in_second = lesson11::kPage + kRecord + lesson11::kPage + 5;
    const std::byte other = block(2).content[5] ^ std::byte{4};
    REQUIRE(::pwrite(fd, &other, 1, in_second) == 1);
    ::close(fd);
    name(3, block(33));  // not what is there
    const Ticket last = start(link, Way::kUp, {{5, 1}, {5, 2}, {5, 3}, {0, 1}});
    link.wait(last);
    CHECK(link.take_damaged() == Records{2, 3});
    CHECK(link.take_damaged().empty());
    CHECK(content(0) == block(1).content);
  }
}

TEST_CASE_FIXTURE(Fixture, "all that was started is in the file when the transfers end") {
  for (const Run run : {Run::kThread, Run::kAtOnce}) {
    {
      FileTransfers link = transfers(run);
      for (const int32_t record : {1, 2, 3, 4}) {
        fill(record, block(10 + record));
        name(record, block(10 + record));
        start(link, Way::kDown, {{record, record}});
      }
    }
    open();
    CHECK(numbers_found(*file) == std::vector<int64_t>{0, 11, 12, 13, 14});
    {
      FileTransfers link = transfers(run);
      start(link, Way::kDown, {{1, 1}});
      link.forget_all();
      CHECK(link.completed() == 1);
    }
    open();
    CHECK(numbers_found(*file) == std::vector<int64_t>(5));
  }
}

TEST_CASE_FIXTURE(Fixture, "what a block takes is measured on its way up") {
  FileTransfers link = transfers(Run::kAtOnce);
  name(1, block(1));
  fill(1, block(1));
  start(link, Way::kDown, {{1, 1}});
  CHECK(link.seconds_per_block() == 0);
  start(link, Way::kUp, {{2, 1}, {3, 1}});
  CHECK(link.seconds_per_block() > 0);
  CHECK(link.seconds_per_block() < 60);
}

TEST_CASE_FIXTURE(Fixture, "a move that means nothing is refused, and queues nothing") {
  FileTransfers link = transfers(Run::kThread);
  name(1, block(1));
  CHECK_THROWS_AS(start(link, Way::kUp, {{0, 1}, {0, 2}}), std::logic_error);  // of no known key
  CHECK_THROWS_AS(start(link, Way::kDown, {{kHost, 1}}), std::out_of_range);
  CHECK_THROWS_AS(start(link, Way::kDown, {{-1, 1}}), std::out_of_range);
  CHECK_THROWS_AS(start(link, Way::kDown, {{0, kRecords + 1}}), std::out_of_range);
  CHECK(start(link, Way::kDown, {{0, 1}}) == 1);
  const BlockPool larger(kRecords + 1, 2);
  CHECK_THROWS_AS(FileTransfers(*file, host, larger), std::invalid_argument);
  const BlockPool longer(kRecords, 3);
  CHECK_THROWS_AS(FileTransfers(*file, host, longer), std::invalid_argument);
}
