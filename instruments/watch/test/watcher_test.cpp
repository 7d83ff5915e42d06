// The watcher: what is missing, comes twice, or makes no sense is told, and nothing is made up.

#include "instruments/watch/watcher.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace {

using namespace watch;

Frame frame(uint64_t seq, double ts, Event event) {
  return {.seq = seq, .payload = encode({.ts = ts, .events = {std::move(event)}})};
}

Frame stores(uint64_t seq, uint64_t hash, double ts = 0) {
  return frame(seq, ts == 0 ? 1.0 + static_cast<double>(seq) : ts,
               BlockStored{.block_hashes = {hash_of(hash)}, .block_size = 16});
}

}  // namespace

TEST_CASE("watcher: frames in order leave nothing to tell") {
  Watcher watcher;
  for (uint64_t seq = 0; seq < 5; ++seq) {
    CHECK_FALSE(watcher.misses_before(stores(seq, seq)));
    const auto step = watcher.take(stores(seq, seq));
    CHECK(step.applied);
    CHECK(step.note.empty());
  }
  CHECK(watcher.is_complete());
  CHECK(watcher.mirror().num_blocks() == 5);
  CHECK(watcher.last_ts() - watcher.first_ts() == 4);
}

TEST_CASE("watcher: a gap is told, and what comes twice is passed over") {
  Watcher watcher;
  watcher.take(stores(0, 1));
  CHECK(watcher.misses_before(stores(3, 4)));
  CHECK(watcher.take(stores(3, 4)).note == "2 batches are missing before number 3");
  CHECK(watcher.counts().missing == 2);
  CHECK_FALSE(watcher.is_complete());
  CHECK_FALSE(watcher.take(stores(3, 4)).applied);
  CHECK_FALSE(watcher.take(stores(0, 1)).applied);
  CHECK(watcher.counts().repeated == 2);
  CHECK(watcher.mirror().num_blocks() == 2);
  CHECK(watcher.take(stores(5, 6)).note == "1 batch is missing before number 5");
  const auto removal = watcher.take(frame(6, 9, BlockRemoved{.block_hashes = {hash_of(2)}}));
  CHECK(removal.note == "1 block removed that had not been stored: something was missed");
}

TEST_CASE("watcher: a server that starts over has an empty cache") {
  Watcher watcher;
  for (uint64_t seq = 0; seq < 5; ++seq) watcher.take(stores(seq, seq));
  const auto step = watcher.take(stores(1, 70, 100));
  CHECK(step.note ==
        "the server restarted, its cache is empty; 1 batch is missing before number 1");
  CHECK(watcher.counts().restarts == 1);
  CHECK(watcher.mirror().num_blocks() == 1);
  CHECK(watcher.next_seq() == 2);
}

TEST_CASE("watcher: where nothing has come nothing is known to be complete") {
  CHECK_FALSE(Watcher().is_complete());
}

TEST_CASE("watcher: numbers that no server reaches neither wrap nor hide what is missing") {
  Watcher watcher;
  watcher.take(stores(0, 1));
  CHECK_FALSE(watcher.take(stores(~uint64_t{0}, 2, 10)).applied);
  CHECK(watcher.counts().missing == 0);
  CHECK(watcher.counts().unreadable == 1);
  CHECK(watcher.next_seq() == 1);
  watcher.take(stores(kMaxSeq, 3, 20));
  watcher.take(stores(kMaxSeq - 1, 4, 30));  // of a server that restarted
  CHECK(watcher.counts().missing == INT64_MAX);
  CHECK_FALSE(watcher.is_complete());
}

TEST_CASE("watcher: a batch that makes no sense is passed over and told") {
  Watcher watcher;
  watcher.take(stores(0, 1));
  const auto step = watcher.take({.seq = 1, .payload = "\xc1"});
  CHECK_FALSE(step.applied);
  CHECK(step.note == "batch 1 makes no sense: byte 1 of 1: no MessagePack, or cut");
  CHECK(watcher.take(stores(2, 3)).applied);
  CHECK(watcher.counts().unreadable == 1);
  CHECK(watcher.counts().missing == 0);
  CHECK_FALSE(watcher.is_complete());
  std::string strange;
  using nlohmann::json;
  json::to_msgpack(json::array({9.5, json::array({json::array({"BlockMoved", 1})})}), strange);
  CHECK(watcher.take({.seq = 3, .payload = strange}).note == "1 event of an unknown kind");
  CHECK(watcher.counts().unknown == 1);
}

TEST_CASE("watcher: an event that makes no sense is told, and the rest of its batch stands") {
  using nlohmann::json;
  Watcher watcher;
  const json good{"BlockStored", {7}, nullptr, {1, 2}, 2}, bad{"BlockStored", {8}, nullptr, {1}, 2};
  std::string payload;
  json::to_msgpack(json::array({9.5, json::array({bad, good})}), payload);
  const auto step = watcher.take({.seq = 0, .payload = payload});
  CHECK(step.applied);
  CHECK(step.note.find("batch 0 has a part that makes no sense: event 0, BlockStored") == 0);
  CHECK(watcher.mirror().num_blocks() == 2);  // the bad one's, whose tokens are not known
  CHECK(watcher.counts().senseless == 1);
  CHECK_FALSE(watcher.is_complete());
  payload.clear();
  json::to_msgpack(json::array({"now", json::array({good})}), payload);
  CHECK(watcher.take({.seq = 1, .payload = payload}).ts == 9.5);  // the time of the one before
}

TEST_CASE("watcher: another batch under the last number is another server's, whatever its clock") {
  Watcher watcher;
  for (uint64_t seq = 0; seq < 3; ++seq) watcher.take(stores(seq, seq));
  CHECK(watcher.is_last(stores(2, 2)));
  CHECK_FALSE(watcher.is_last(stores(2, 9)));
  CHECK_FALSE(watcher.is_last(stores(1, 1)));
  CHECK_FALSE(watcher.take(stores(2, 2)).applied);
  CHECK(watcher.take(stores(2, 9, 3.0)).note ==
        "the server restarted, its cache is empty; 2 batches are missing before number 2");
  CHECK(watcher.mirror().num_blocks() == 1);
}

TEST_CASE("watcher: of several data-parallel ranks in one stream the first one is watched") {
  Watcher watcher;
  watcher.take(stores(0, 1));
  const Frame other{.seq = 0, .payload = encode({.ts = 9, .events = {}, .data_parallel_rank = 1})};
  CHECK(watcher.take(other).note ==
        "batch 0 is of data-parallel rank 1, passed over: this watches rank 0");
  CHECK(watcher.counts().restarts == 0);
  CHECK(watcher.take(stores(1, 2)).applied);
  CHECK(watcher.is_complete());
}

TEST_CASE("watcher: after a lost connection it claims nothing") {
  Watcher watcher;
  CHECK_FALSE(watcher.is_last(stores(0, 0)));
  watcher.take(stores(0, 0));
  CHECK(watcher.is_complete());
  watcher.doubt();
  CHECK_FALSE(watcher.is_complete());
}
