// The mirror of a server's cache against the very texts that ./course serve sends.
#include <doctest/doctest.h>

#include "instruments/route/cache_mirror.h"
#include "instruments/serve/events.h"

using route::CacheMirror;

namespace {

/// A server's cache: what it holds, and what it says of it.
class Cache {
 public:
  explicit Cache(double started = 1, size_t max_kept = 100) : ts_(started), events_(max_kept) {}

  /// Returns the event's text.
  std::string store(std::vector<uint64_t> blocks) {
    watch::BlockStored stored{.block_size = 1};
    for (const uint64_t block : blocks) {
      stored.block_hashes.push_back(watch::hash_of(block));
      stored.token_ids.push_back(1);
    }
    return add(stored);
  }
  std::string remove(std::vector<uint64_t> blocks) {
    watch::BlockRemoved removed;
    for (const uint64_t block : blocks) removed.block_hashes.push_back(watch::hash_of(block));
    return add(removed);
  }
  std::string add(const watch::Event& event) {
    return events_.add(
        {.seq = seq_++, .payload = watch::encode({.ts = ts_ += .5, .events = {event}})});
  }
  void skip_a_number() { ++seq_; }
  /// The frames sent to a client that has the events up to this one.
  std::string after(const std::string& last) const {
    return ": events of the KV cache\n\n" + (last.empty() ? "" : events_.after(std::stoull(last)));
  }
  std::string snapshot() const { return events_.snapshot(1, 50); }

 private:
  double ts_;
  uint64_t seq_ = 0;
  serve::CacheEvents events_;
};

std::vector<uint64_t> blocks_of(const CacheMirror& mirror) {
  std::vector<uint64_t> blocks;
  for (uint64_t block = 0; block < 100; ++block) {
    if (mirror.has(block)) blocks.push_back(block);
  }
  return blocks;
}
using Blocks = std::vector<uint64_t>;

/// A mirror that follows the cache from now on.
CacheMirror following(const Cache& cache) {
  CacheMirror mirror;
  mirror.take(cache.after(mirror.begin_stream()));
  mirror.take_snapshot(cache.snapshot());
  return mirror;
}

}  // namespace

TEST_CASE("route: a late mirror begins with a snapshot, and follows the events") {
  Cache cache;
  cache.store({1, 2, 3});
  CacheMirror mirror;
  CHECK(mirror.begin_stream().empty());
  CHECK(mirror.wants_snapshot());
  CHECK(!mirror.is_exact());
  const std::string before = cache.store({4});  // in the snapshot, too
  const std::string snapshot = cache.snapshot();
  mirror.take(cache.after("") + before);
  mirror.take(cache.remove({3}));  // after the snapshot
  mirror.take_snapshot(snapshot);
  CHECK(mirror.is_exact());
  CHECK(blocks_of(mirror) == Blocks{1, 2, 4});
  CHECK(mirror.block_size() == 1);
  CHECK(mirror.pool_blocks() == 50);
  const std::string text = cache.store({7, 8});
  for (const char one : text) mirror.take({&one, 1});  // however it is cut
  CHECK(blocks_of(mirror) == Blocks{1, 2, 4, 7, 8});
  mirror.take(cache.add(watch::AllBlocksCleared{}));
  CHECK(blocks_of(mirror).empty());
  CHECK(mirror.last() == 4);
}

TEST_CASE("route: a block that is stored twice is there until it is removed twice") {
  Cache cache;
  cache.store({5});
  cache.store({5});
  CacheMirror mirror = following(cache);
  mirror.take(cache.remove({5}));
  CHECK(mirror.has(5));
  mirror.take(cache.remove({5}));
  CHECK(!mirror.has(5));
  mirror.take(cache.remove({5}));  // one more is no harm
  CHECK(mirror.num_blocks() == 0);
}

TEST_CASE("route: after a lost connection the missing events are replayed") {
  Cache cache;
  CacheMirror mirror = following(cache);
  mirror.take(cache.store({1}));
  mirror.take(cache.store({2}));
  cache.store({3});
  cache.remove({1});
  mirror.take("id: 9\ndata: {cut");
  const std::string last = mirror.begin_stream();
  CHECK(last == "0");
  CHECK(mirror.waits_for_replay());
  mirror.take(cache.after(last));
  CHECK(mirror.is_exact());
  CHECK(blocks_of(mirror) == Blocks{2, 3});
  CHECK(mirror.num_replays() == 1);
  CHECK(mirror.num_snapshots() == 1);
}

TEST_CASE("route: another server at the same address is seen") {
  Cache cache;
  CacheMirror mirror = following(cache);
  for (uint64_t block = 1; block < 5; ++block) mirror.take(cache.store({block}));
  Cache other(77);
  SUBCASE("that has as many events") {
    for (uint64_t block = 1; block < 9; ++block) other.store({block + 20});
    mirror.take(other.after(mirror.begin_stream()));
  }
  SUBCASE("that has fewer, and tells its next one") {
    other.store({21});
    mirror.take(other.after(mirror.begin_stream()));
    CHECK(mirror.waits_for_replay());
    mirror.take(other.store({22}));
  }
  SUBCASE("that has none, and says nothing") {
    mirror.take(other.after(mirror.begin_stream()));
    CHECK(mirror.waits_for_replay());
    mirror.give_up_replay();
  }
  CHECK(mirror.wants_snapshot());
  CHECK(mirror.num_restarts() == 1);
  CHECK(blocks_of(mirror).empty());
  mirror.take_snapshot(other.snapshot());
  mirror.take(other.store({30}));
  CHECK(mirror.is_exact());
  CHECK(mirror.has(30));
  CHECK(!mirror.has(1));
}

TEST_CASE("route: a gap that the server has forgotten needs a snapshot") {
  Cache cache(1, 3);
  CacheMirror mirror = following(cache);
  mirror.take(cache.store({1}));
  mirror.take(cache.store({2}));
  for (uint64_t block = 3; block < 9; ++block) cache.store({block});
  mirror.take(cache.after(mirror.begin_stream()));
  CHECK(mirror.wants_snapshot());
  mirror.take_snapshot(cache.snapshot());
  CHECK(mirror.is_exact());
  CHECK(mirror.num_blocks() == 8);
}

TEST_CASE("route: a number that is left out needs a snapshot, too") {
  Cache cache;
  CacheMirror mirror = following(cache);
  mirror.take(cache.store({1}));
  cache.skip_a_number();
  mirror.take(cache.store({2}));
  mirror.take(cache.store({3}));
  CHECK(mirror.wants_snapshot());
  CHECK(blocks_of(mirror) == Blocks{1});
  mirror.take_snapshot(cache.snapshot());
  CHECK(blocks_of(mirror) == Blocks{1, 2, 3});
}

TEST_CASE("route: what is no event is refused") {
  CacheMirror mirror = following(Cache());
  CHECK_THROWS(mirror.take("data: {\n\n"));
  CHECK_THROWS(mirror.take("data: {\"seq\":0,\"events\":[{}]}\n\n"));
  CHECK_THROWS(mirror.take(
      "data: {\"seq\":0,\"events\":[{\"type\":\"BlockStored\",\"block_hashes\":[\"xy\"]}]}\n\n"));
  CHECK_THROWS(mirror.take_snapshot("{}"));
  const std::string odd =
      R"({"seq":0,"blocks":[{"hash":")" + std::string(5000, 'z') + R"(","copies":1}]})";
  CHECK_THROWS_WITH(mirror.take_snapshot(odd),
                    doctest::Contains("zzz...\", wanted 16 hexadecimal digits"));
}
