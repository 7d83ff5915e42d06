// A server's events over HTTP, in any order in which a client can get them.
#include "instruments/watch/sockets/server_events.h"

#include <doctest/doctest.h>

#include "instruments/watch/watcher.h"

using watch::ServerEvents;

namespace {

/// An event that stores a block of two tokens.
std::string stored(int seq, const std::string& hash, const std::string& parent = "null") {
  return R"({"seq":)" + std::to_string(seq) +
         R"(,"ts":1.5,"events":[{"type":"BlockStored","block_hashes":[")" + hash +
         R"("],"parent_block_hash":)" + parent +
         R"(,"token_ids":[7,8],"block_size":2,"medium":"GPU","group_idx":0}]})";
}
const std::string kSnapshot = R"({"seq":4,"block_size":2,"num_blocks":9,"blocks":[)"
                              R"({"hash":"0a","parent":null,"token_ids":[1,2],"copies":2},)"
                              R"({"hash":"0b","parent":"0a","token_ids":[3,4],"copies":1}]})";

}  // namespace

TEST_CASE("server events: what is in the cache, then what happens, nothing twice") {
  ServerEvents events;
  events.take_event(stored(4, "0b", "\"0a\""));  // part of the snapshot
  events.take_event(stored(5, "0c", "\"0b\""));
  CHECK(!events.any());
  events.take_snapshot(kSnapshot);
  events.take_event(stored(6, "0d"));
  events.take_event(
      R"({"seq":7,"ts":2,"events":[{"type":"BlockRemoved","block_hashes":["0d"],"medium":"GPU","group_idx":0}]})");
  watch::Watcher watcher;
  const std::vector<watch::Frame> frames = events.frames();
  REQUIRE(frames.size() == 4);
  CHECK(!events.any());
  for (size_t i = 0; i < frames.size(); ++i) {
    CHECK(frames[i].seq == i);
    CHECK(watcher.take(frames[i]).note.empty());
  }
  CHECK(watcher.mirror().num_blocks() == 4);  // two of 0a, 0b, 0c
  const watch::MirroredBlock* last = watcher.mirror().find("\x0c");
  REQUIRE(last != nullptr);
  CHECK(last->parent == "\x0b");
  CHECK(last->tokens == std::vector<int32_t>{7, 8});
  events.take_event(R"({"seq":8,"ts":3,"events":[{"type":"AllBlocksCleared"}]})");
  for (const watch::Frame& frame : events.frames()) watcher.take(frame);
  CHECK(watcher.mirror().num_blocks() == 0);
}

TEST_CASE("server events: one that is missing, and what is no event") {
  ServerEvents events;
  events.take_snapshot(R"({"seq":-1,"block_size":2,"num_blocks":9,"blocks":[]})");
  CHECK(!events.any());
  events.take_event(stored(0, "0a"));
  CHECK_THROWS_WITH(events.take_event(stored(2, "0b")), "events are missing");
  CHECK_THROWS(events.take_event("{}"));
  CHECK_THROWS(events.take_event("no JSON"));
  CHECK_THROWS(ServerEvents().take_snapshot("{}"));
  CHECK(events.frames().size() == 1);
}
