// The host's pool in a file: what is saved, what the next start finds, and each place where a block
// can be damaged.

#include <doctest/doctest.h>

#include <functional>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "common/defer.h"
#include "common/error.h"
#include "file_changes.h"
#include "lessons/07_lru_eviction/test/queue_of.h"
#include "places.h"
#include "tests/support/temp_dir.h"

namespace {

using namespace lesson12;
using lesson12_test::kBlockSize;
using lesson12_test::Moves;
using lesson12_test::on_file_change;
using lesson12_test::Places;
using Ids = std::vector<int32_t>;

void flip_bit(std::byte& byte) { byte ^= std::byte{4}; }

struct InFolder {
  kvtest::TempDir folder;
  std::filesystem::path path() const { return folder.path() / "blocks"; }
  /// Flips a bit of the file, which is closed.
  void flip(int64_t at) const {
    auto bytes = lesson12_test::bytes_of(path());
    flip_bit(bytes[at]);
    lesson12_test::put_bytes(path(), bytes);
  }
};
const FileLayout kLayout({.block_size = kBlockSize, .bytes_per_block = 256});

}  // namespace

TEST_CASE_FIXTURE(InFolder, "what is offloaded is in the file, and found by the next start") {
  for (const auto run : {kv::RunJobs::kAtOnce, kv::RunJobs::kThread}) {
    std::filesystem::remove(path());
    std::vector<std::byte> content;
    int32_t host = 0;
    {
      Places places(path(), run);
      host = places.offload(3, 30);
      places.offload(4, 40);
      CHECK(places.tier.num_unsaved() == 2);
      CHECK(places.pool.num_used() == 2);  // nothing is written over them yet
      places.complete();
      CHECK(places.metrics.num_saved == 2);
      CHECK(places.pool.num_used() == 0);
      const auto block = places.memory.block(host);
      content.assign(block.begin(), block.end());
    }
    Places again(path(), run);
    REQUIRE(again.metrics.num_restored == 2);
    CHECK(again.can_be_found(30));
    CHECK(again.can_be_found(40));
    CHECK(again.pool.index().block(host)->prefix == 30);  // its number, and not a new one
    CHECK(again.pool.num_used() == 0);                    // no one holds what was restored
    CHECK(std::ranges::equal(again.memory.block(host), content));
    CHECK(again.load(host, 6).empty());
  }
}

TEST_CASE_FIXTURE(InFolder, "the next start overwrites first what was written first") {
  const auto queue_after = [&](const Ids& nums) {
    {
      Places places(path());
      for (const int num : nums) {
        places.offload(1, num);
        places.complete();
      }
    }
    return lesson07_test::queue_of(Places(path()).pool);
  };
  CHECK(queue_after({10, 20}) == Ids{4, 3, 2, 1, 6, 5});
  CHECK(queue_after({30}) == Ids{3, 2, 1, 6, 5, 4});
  CHECK(queue_after({40, 50, 60, 70}) == Ids{5, 4, 3, 2, 1, 6});  // 70 has taken the place of 10
}

TEST_CASE_FIXTURE(InFolder, "a start goes on when all that it found is on the disk") {
  int num_writes = 0;
  const auto is_synced = [&] {
    bool synced = false;
    num_writes = 0;
    on_file_change = [&](const auto& change) {
      synced = change.kind == lesson12_test::Change::Kind::kSync;
      num_writes += change.kind == lesson12_test::Change::Kind::kWrite;
    };
    const kv::Defer stop{[] { on_file_change = nullptr; }};
    const Places places(path());
    return synced;
  };
  CHECK(is_synced());
  {
    Places places(path());
    places.offload(1, 10);
    places.complete();
  }
  CHECK(is_synced());
  CHECK(num_writes == 0);  // the empty records are a hole of the file, and the disk may be full
}

TEST_CASE_FIXTURE(InFolder, "a block with extra keys is not saved, and can be found in the host") {
  Places places(path());
  const int32_t host = places.offload(1, 10, {{lesson06::ExtraKey::Kind::kSalt, "a salt"}});
  places.complete();
  CHECK(places.pool.index().block(host) != nullptr);
  CHECK(places.metrics.num_saved == 0);
  CHECK(places.pool.num_used() == 0);
}

TEST_CASE_FIXTURE(InFolder, "damage on the way to the host is found before the block is saved") {
  Places places(path());
  const int32_t host = places.offload(1, 10);
  flip_bit(places.memory.block(host)[100]);
  places.complete();
  CHECK(places.metrics.num_damaged_to_host == 1);
  CHECK(places.metrics.num_saved == 0);
  CHECK(places.file.num_records() == 0);  // nothing was written
  CHECK_FALSE(places.can_be_found(10));
  CHECK(places.pool.num_used() == 0);
}

TEST_CASE_FIXTURE(InFolder, "a block that has left the pool is saved as it was") {
  Places places(path());
  const int32_t host = places.offload(1, 10);
  places.pool.evict_blocks({&host, 1});
  places.complete();
  CHECK(places.metrics.num_saved == 1);
  CHECK(places.file.read_header(host)->prefix == 10);
}

TEST_CASE_FIXTURE(InFolder, "the thread that saves does not change the pool") {
  bool is_changed = false;
  {
    Places places(path(), kv::RunJobs::kThread);
    const int32_t host = places.offload(1, 10);
    flip_bit(places.memory.block(host)[100]);
    places.pool.set_event_sink([&, here = std::this_thread::get_id()](const auto&) {
      is_changed = is_changed || std::this_thread::get_id() != here;
    });
    places.complete();
    CHECK(places.metrics.num_damaged_to_host == 1);
  }
  CHECK_FALSE(is_changed);
}

TEST_CASE_FIXTURE(InFolder, "damage in the host's memory, or on the way to the device, is found") {
  Places places(path());
  const int32_t host = places.offload(1, 10);
  places.complete();
  CHECK(places.load(host, 2).empty());
  CHECK(places.pool.num_used() == 0);
  flip_bit(places.memory.block(host)[8]);
  CHECK(places.load(host, 3) == Moves{{3, host}});
  flip_bit(places.memory.block(host)[8]);
  // On the way: a block of the device changes between its load and the check.
  places.swapper.wait(places.swapper.start(Direction::kLoad, Moves{{4, host}}));
  places.swapper.completed();
  flip_bit(*places.device.regions.layer(1)[1].block(4));
  CHECK(places.swapper.verify() == Moves{{4, host}});
  CHECK(checksum_of(places.memory.block(host)) == places.swapper.checksums()[host]);
  CHECK(places.pool.num_used() == 0);
}

TEST_CASE_FIXTURE(InFolder,
                  "a block in FP8 comes back with its scales, from the host and the file") {
  const auto bytes_on_device = [](Places& places, int32_t id) {
    return lesson05_test::read_block(places.device.regions, id, places.stream);
  };
  constexpr auto kRun = kv::RunJobs::kAtOnce;
  lesson05_test::Bytes computed;
  int32_t host = 0;
  {
    Places places(path(), kRun, kv::KvFormat::kFp8);
    computed = bytes_on_device(places, 1);
    host = places.offload(1, 10);
    places.complete();
    CHECK(places.load(host, 2).empty());
    CHECK(bytes_on_device(places, 2) == computed);
    // A scale that changes on the way to the device, and one in the host's memory.
    places.swapper.wait(places.swapper.start(Direction::kLoad, Moves{{4, host}}));
    places.swapper.completed();
    flip_bit(*places.device.regions.layer(1)[2].block(4));
    CHECK(places.swapper.verify() == Moves{{4, host}});
    const size_t scale = places.device.regions.layer(0)[2].begin;
    flip_bit(places.memory.block(host)[scale]);
    CHECK(places.load(host, 3) == Moves{{3, host}});
  }
  {
    Places again(path(), kRun, kv::KvFormat::kFp8);
    REQUIRE(again.metrics.num_restored == 1);
    CHECK(again.load(host, 5).empty());
    CHECK(bytes_on_device(again, 5) == computed);
    // A scale that changes in the file.
    flip(FileLayout(again.file.shape()).content_of(host) + again.device.regions.layer(0)[2].begin);
  }
  CHECK(Places(path(), kRun, kv::KvFormat::kFp8).metrics.num_damaged_in_file == 1);
  CHECK_THROWS_WITH_AS(Places(path(), kRun), doctest::Contains("in FP8"), kv::UserError);
}

TEST_CASE_FIXTURE(InFolder, "a restored block has its parent and its number") {
  {
    Places places(path());
    const std::vector<std::byte> content(places.file.shape().bytes_per_block, std::byte{9});
    REQUIRE(places.file.write(1,
                              {.content_checksum = lesson12::checksum_of(content),
                               .age = 1,
                               .hash = 7,
                               .prefix = 41,
                               .parent = 40,
                               .tokens = std::vector<int32_t>(kBlockSize, 3)},
                              content));
  }
  Places again(path());
  REQUIRE(again.metrics.num_restored == 1);
  CHECK(again.pool.index().block(1)->parent == 40);
  CHECK(again.pool.index().block(1)->prefix == 41);
}

TEST_CASE_FIXTURE(InFolder, "damage in the file is found by the start, and never comes back") {
  int32_t host = 0;
  {
    Places places(path());
    host = places.offload(1, 10);
    places.offload(2, 20);
    places.complete();
  }
  flip(kLayout.content_of(host) + 17);
  {
    Places places(path());
    CHECK(places.metrics.num_damaged_in_file == 1);
    CHECK(places.metrics.num_restored == 1);
    CHECK_FALSE(places.can_be_found(10));
    CHECK(places.can_be_found(20));
  }
  flip(kLayout.content_of(host) + 17);  // the content is as it was, but the record was erased
  Places again(path());
  CHECK(again.metrics.num_damaged_in_file == 0);
  CHECK(again.metrics.num_restored == 1);
}

TEST_CASE_FIXTURE(InFolder, "a record whose header is damaged never comes back") {
  int32_t host = 0;
  {
    Places places(path());
    host = places.offload(1, 10);
    places.complete();
  }
  flip(kLayout.begin_of(host) + 33);  // its hash
  CHECK(Places(path()).metrics.num_restored == 0);
  flip(kLayout.begin_of(host) + 33);  // the header is as it was, but for its name
  CHECK(Places(path()).metrics.num_restored == 0);
}

TEST_CASE_FIXTURE(InFolder, "of two records with one content one is kept, and the other erased") {
  {
    Places places(path());
    REQUIRE(places.offload(1, 10) == 6);
    places.complete();
    const auto block = places.memory.block(6);
    const Record same{.content_checksum = checksum_of(block),
                      .hash = 10,
                      .prefix = 99,
                      .parent = {},
                      .tokens = {10, 10}};
    REQUIRE(places.file.write(5, same, block));
    Record other = same;  // with the same hash
    other.tokens = {11, 11}, other.prefix = 98;
    REQUIRE(places.file.write(4, other, block));
  }
  flip(kLayout.content_of(6));  // damage in a record that need not be read
  {
    Places places(path());
    CHECK(places.metrics.num_restored == 2);
    CHECK(places.metrics.num_damaged_in_file == 0);
    CHECK(places.file.read_header(5));
    CHECK_FALSE(places.file.read_header(6));
  }
}

TEST_CASE_FIXTURE(InFolder, "a block that cannot be written stays in the host, whatever fails") {
  using lesson12_test::Change;
  const std::function<void(const Change&)> failures[] = {
      [](const Change&) { throw std::bad_alloc(); },  // as if memory had run out
      [](const Change&) { throw std::runtime_error("something else"); },
      [](const Change&) { lesson12_test::file_change_fails = true; }};
  for (int i = 0; i < 6; ++i) {
    CAPTURE(i);
    Places places(path(), i < 3 ? kv::RunJobs::kAtOnce : kv::RunJobs::kThread);
    places.offload(1, 10);
    on_file_change = [fail = failures[i % 3]](const Change& change) {
      if (change.kind == Change::Kind::kWrite) fail(change);
    };
    places.complete();
    on_file_change = nullptr;
    CHECK(places.metrics.num_not_saved == 1);
    CHECK(places.metrics.num_damaged_to_host == 0);
    CHECK(places.can_be_found(10));
    CHECK(places.pool.num_used() == 0);
    places.tier.forget_all(places.file.shape().fingerprint);
  }
}

TEST_CASE_FIXTURE(InFolder, "a pool with fewer blocks than the file has records is refused") {
  Places places(path());
  places.offload(1, 10);
  places.offload(2, 20);
  places.complete();
  const kvtest::TempDir other;
  std::filesystem::copy(path(), other.path() / "blocks");
  BlockFile file(other.path() / "blocks", places.file.shape());
  BlockPool small(1, kBlockSize);
  FileMetrics metrics;
  CHECK_THROWS_AS(FileTier(file, places.memory, small, places.swapper.checksums(), metrics),
                  std::invalid_argument);
}
