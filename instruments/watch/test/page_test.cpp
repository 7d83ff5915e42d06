// A server's cache on the page: small and large, from a recording and from a server that runs.

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "instruments/watch/page/watched_cache.h"
#include "instruments/watch/recording.h"
#include "instruments/watch/sockets/sockets.h"
#include "tests/support/temp_dir.h"
#include "tests/viz/page_fixture.h"
#include "viz/drawing/layout.h"
#include "viz/shell/session.h"

namespace watch {
std::unique_ptr<viz::Page> make_page(const viz::PageContext& context);
}

namespace {

using namespace watch;
using kvtest::PageFixture;
using std::chrono::milliseconds;

constexpr viz::Room kLarge{3000, 2000};  // every tile has its words

struct Fixture : PageFixture {
  Fixture() : PageFixture(make_page({})) {}
};

/// Blocks of one token each, which is their hash, too; each continues the one before.
BlockStored stored(const std::vector<uint64_t>& hashes, std::optional<uint64_t> parent = {}) {
  BlockStored event{.block_size = 1};
  for (const uint64_t hash : hashes) {
    event.block_hashes.push_back(hash_of(hash));
    event.token_ids.push_back(static_cast<int32_t>(hash));
  }
  if (parent) event.parent_block_hash = hash_of(*parent);
  return event;
}
BlockRemoved removed(const std::vector<uint64_t>& hashes) {
  BlockRemoved event;
  for (const uint64_t hash : hashes) event.block_hashes.push_back(hash_of(hash));
  return event;
}
Frame frame(uint64_t seq, std::vector<Event> events, double started = 0) {
  return {.seq = seq,
          .payload =
              encode({.ts = started + static_cast<double>(seq + 1), .events = std::move(events)})};
}
std::vector<uint64_t> from(uint64_t first, uint64_t count) {
  std::vector<uint64_t> all(count);
  for (uint64_t i = 0; i < count; ++i) all[i] = first + i;
  return all;
}

/// The words of each tile: "17" of block 3.
std::map<int, std::string> tiles_of(const viz::Scene& scene) {
  std::map<int, std::string> tiles;
  for (const viz::Shape& shape : scene.shapes()) {
    int id = 0, slot = 0;
    if (std::sscanf(shape.id.c_str(), "slot %d/%d/token", &id, &slot) == 2 &&
        shape.id.ends_with("/token")) {
      tiles[id] = shape.text;
    }
  }
  return tiles;
}
std::set<std::string> words_of(const viz::Scene& scene) {
  std::set<std::string> words;
  for (const auto& [id, word] : tiles_of(scene)) words.insert(word);
  return words;
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "watched: of a cache of any size what happens is shown") {
  const kvtest::TempDir dir;
  const std::string file = (dir.path() / "large.kvevents").string();
  constexpr uint64_t kPrompts = 40, kEach = 30;
  {  // prompts of 30 blocks: all share the first 5; from the 20th on the oldest go
    RecordingWriter writer(file);
    writer.send(frame(0, {stored(from(1, 5))}));
    for (uint64_t p = 1; p <= kPrompts; ++p) {
      std::vector<Event> events{stored(from(1000 * p, kEach - 5), 5)};
      if (p > 20) events.push_back(removed({1000 * (p - 20) + kEach - 6}));
      if (p == kPrompts) events.push_back(stored({1000 * (p - 20) + kEach - 6}));
      writer.send(frame(p, std::move(events)));
    }
  }
  run("watch \"" + file + "\"");
  std::map<int, std::string> before;
  for (uint64_t p = 0; p <= kPrompts; ++p) {
    CAPTURE(p);
    run("next");
    const viz::Scene scene = page.scene(kLarge);
    const std::map<int, std::string> tiles = tiles_of(scene);
    const std::set<std::string> words = words_of(scene);
    CHECK(words.size() == tiles.size());  // nothing appears twice
    CHECK(tiles.size() <= 64);
    for (const auto& [id, word] : tiles) {
      if (before.contains(id)) CHECK(before.at(id) == word);  // no tile is two blocks in one
    }
    before = tiles;
    if (p == 0) continue;
    for (const uint64_t block : from(1000 * p, kEach - 5))
      CHECK(words.contains(std::to_string(block)));
    if (p > 20) CHECK(words.contains(std::to_string(1000 * (p - 20) + kEach - 6)));
    if (p < 3) continue;
    // A prefix that is not shown whole says so, and so does the page of all that it leaves out.
    const int64_t num_more = value("more");
    const int64_t num_evicted =
        std::min<int64_t>(16, p > 20 ? static_cast<int64_t>(p) - 20 - (p == kPrompts) : 0);
    CHECK(num_more == value("standing") + num_evicted - std::ssize(tiles));
    CHECK(
        kvtest::shape(scene, "more").text.starts_with("and " + std::to_string(num_more) + " more"));
    CHECK(value("prefixes") == static_cast<int64_t>(p) + (p == kPrompts));
  }
  CHECK(value("again") == 1);
  check_refused("next", "the recording has ended");
}

TEST_CASE_FIXTURE(Fixture,
                  "watched: a prefix longer than the page has its first block and its last") {
  const kvtest::TempDir dir;
  const std::string file = (dir.path() / "long.kvevents").string();
  {
    RecordingWriter writer(file);
    writer.send(frame(0, {stored(from(1, 2000))}));
    writer.send(frame(1, {stored(from(2001, 3), 2000)}));
    writer.send(frame(2, {AllBlocksCleared()}));
  }
  run({"watch \"" + file + "\"", "next"});
  CHECK(words_of(page.scene(kLarge)).size() == 48);
  run("next");
  const viz::Scene scene = page.scene(kLarge);
  const auto words = words_of(scene);
  for (const char* word : {"1", "2003", "2002", "2001", "2000"}) CHECK(words.contains(word));
  CHECK(kvtest::shape(scene, "more").text == "and 1,955 more blocks in 1 prefix");
  CHECK(kvtest::shape(scene, "request A/0/name").text == "A   48 of 2,003 blocks");
  run("next");
  CHECK(value("standing") == 0);
  CHECK(page.scene(kLarge).find("more") == nullptr);
}

TEST_CASE_FIXTURE(Fixture, "watched: what cannot be watched is refused") {
  check_refused("watch /nowhere", "No such file");
  check_refused("watch example tcp://127.0.0.1:1", "a recording has no replay endpoint");
  check_refused("next", "nothing is watched");
  run({"watch example", "next 5"});
  CHECK(value("batch") == 5);
  CHECK(viz::layout_faults(page.scene({viz::kTextWidth, 475})).empty());  // nothing is evicted
  run("watch example");                                                   // from its beginning
  CHECK(value("batch") == 0);
}

#if KV_HAVE_ZMQ

namespace {

/// The page of a window, and a server.
struct Live {
  viz::Session session{make_page({})};
  std::unique_ptr<Publisher> server = std::make_unique<Publisher>("tcp://127.0.0.1:*");
  const std::string endpoint = server->endpoint();
  const std::string watch = "watch " + endpoint;

  int64_t value(const std::string& counter) const {
    return session.page().counter(counter).value();
  }
  std::string state() {
    std::string text = kvtest::state_of(session.page());
    for (const std::string& word : words_of(session.page().scene(kLarge))) {
      text += word + " ";
    }
    return text;
  }
  void wait_for_watcher() {
    for (int i = 0; i < 200 && server->num_watchers(milliseconds(100)) < 1; ++i) continue;
    REQUIRE(server->num_watchers(milliseconds(0)) == 1);
  }
  /// At the address that the one before had, as soon as its socket has closed.
  void restart() {
    server.reset();
    for (int i = 0; i < 1000 && !server; ++i) {
      try {
        server = std::make_unique<Publisher>(endpoint);
      } catch (const kv::UserError&) {
        std::this_thread::sleep_for(milliseconds(10));
      }
    }
    REQUIRE(server != nullptr);
  }
  /// Until the page has `count` frames.
  void wait_for_frames(int count) {
    const auto holds = [&] {
      for (const viz::Counter& counter : session.page().counters()) {
        if (counter.name == "batch") return counter.text.ends_with("/ " + std::to_string(count));
      }
      return false;
    };
    for (int i = 0; i < 2000 && !holds(); ++i) std::this_thread::sleep_for(milliseconds(10));
    REQUIRE(holds());
  }
  void send(uint64_t first, uint64_t count, double started = 0) {
    for (const uint64_t seq : from(first, count)) {
      server->send(
          frame(seq, {stored({seq + 1}, seq > 0 ? std::optional(seq) : std::nullopt)}, started));
    }
  }
};

}  // namespace

TEST_CASE_FIXTURE(Live, "live: a step takes what has come, and undo and redo meet the same") {
  REQUIRE(session.try_run(watch));
  wait_for_watcher();
  CHECK_FALSE(session.try_run("next"));
  CHECK(session.log().back().text.find("nothing at all has come from " + endpoint + " yet") !=
        std::string::npos);
  send(0, 3);
  wait_for_frames(3);
  REQUIRE(session.try_run("next"));
  CHECK(value("stored") == 3);
  const std::string three = state();
  CHECK_FALSE(session.try_run("next"));
  CHECK(session.log().back().text.find("nothing new") != std::string::npos);
  send(3, 5);
  wait_for_frames(8);
  REQUIRE(session.try_run("next 2"));
  CHECK(value("stored") == 5);
  const std::string five = state();
  session.undo();
  CHECK(state() == three);
  send(8, 4);  // comes while an earlier state is looked at
  wait_for_frames(12);
  session.redo();
  CHECK(state() == five);
  session.undo();
  session.undo();
  CHECK(value("stored") == 0);
  REQUIRE(session.try_run("next"));  // no more than it took the first time
  CHECK(state() == three);
  session.reset();
  REQUIRE(session.try_run(watch));
  REQUIRE(session.try_run("next"));
  CHECK(state() == three);
  REQUIRE(session.try_run("next 100"));
  CHECK(value("stored") == 12);
  CHECK(value("missing") == 0);
}

TEST_CASE_FIXTURE(Live, "live: playing waits for a slow server, and says nothing meanwhile") {
  REQUIRE(session.try_run(watch));
  wait_for_watcher();
  REQUIRE(session.can_step());
  session.playing = true;
  const size_t told = session.log().size();
  for (int i = 0; i < 10; ++i) session.advance(10);
  CHECK(session.playing);
  CHECK(session.log().size() == told);
  constexpr int kBatches = 200;
  std::thread sender([&] {
    for (uint64_t seq = 0; seq < kBatches; ++seq) {
      send(seq, 1);
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  bool always = true;  // also if a batch comes between two questions
  for (int i = 0; i < 20'000 && value("stored") < kBatches; ++i) {
    for (int k = 0; k < 1000; ++k) always &= session.can_step();
    session.advance(10);
  }
  sender.join();
  CHECK(always);
  CHECK(value("stored") == kBatches);
  CHECK(session.playing);
  session.playing = false;
  CHECK_FALSE(session.step());  // a button says why nothing happens
  CHECK(session.log().back().error);
}

TEST_CASE_FIXTURE(Live, "live: a server goes away, and comes back with an empty cache") {
  REQUIRE(session.try_run(watch));
  wait_for_watcher();
  send(0, 6);
  wait_for_frames(6);
  REQUIRE(session.try_run("next"));
  CHECK(value("standing") == 6);
  server.reset();
  CHECK_FALSE(session.try_run("next"));
  restart();
  wait_for_watcher();
  send(0, 2, 1000);
  wait_for_frames(8);
  REQUIRE(session.try_run("next"));
  CHECK(value("standing") == 2);
  CHECK(value("restarts") == 1);
  CHECK(session.log().back().text.find("restarted") != std::string::npos);
  session.undo();
  CHECK(value("standing") == 6);
}

TEST_CASE_FIXTURE(Live, "live: a late page asks for what came before") {
  server = std::make_unique<Publisher>("tcp://127.0.0.1:*", "", "tcp://127.0.0.1:*");
  send(0, 50);
  std::atomic<bool> done = false;
  REQUIRE(session.try_run("watch " + server->endpoint() + " " + server->replay_endpoint()));
  std::thread answers([&] {
    while (!done) server->answer_replays();
  });
  wait_for_frames(50);
  done = true;
  answers.join();
  REQUIRE(session.try_run("next"));
  CHECK(value("standing") == 50);
  CHECK(value("missing") == 0);
}

TEST_CASE_FIXTURE(Live, "live: no more than a thousand batches are taken at once") {
  REQUIRE(session.try_run(watch));
  wait_for_watcher();
  send(0, 1500);
  wait_for_frames(1500);
  REQUIRE(session.try_run("next"));
  CHECK(value("batch") == 1000);
  REQUIRE(session.try_run("next"));
  CHECK(value("batch") == 1500);
}

TEST_CASE_FIXTURE(Live, "live: of a long run the last frames are kept, and the cache before them") {
  constexpr size_t kMaxBytes = 400, kSteps = 20;
  const auto feed = std::make_shared<Feed>(endpoint, "", kMaxBytes);
  wait_for_watcher();
  const auto text_of = [](const WatchedCache& cache) {
    std::string text;
    for (const viz::Counter& one : cache.counters()) text += std::to_string(one.value) + " ";
    return text;
  };
  WatchedCache first(feed, {});
  std::vector<std::string> states;
  for (uint64_t step = 0; step < kSteps; ++step) {
    send(3 * step, 3);
    for (int i = 0; i < 2000 && feed->size() < 3 * step + 3; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    first.next(0);
    states.push_back(text_of(first));
  }
  size_t bytes = 0;
  for (size_t i = feed->num_dropped(); i < 3 * kSteps; ++i) bytes += feed->frame(i).payload.size();
  CHECK(bytes <= kMaxBytes + 3 * feed->frame(3 * kSteps - 1).payload.size());
  REQUIRE(feed->num_dropped() > 20);
  WatchedCache again(feed, {});  // as an undo replays it
  CHECK(again.next(0).find("no longer keeps") != std::string::npos);
  for (size_t step = 1; step < kSteps; ++step) {
    again.next(0);
    if (3 * step >= feed->num_dropped()) CHECK(text_of(again) == states[step]);
  }
  CHECK(again.story() == first.story());
}

TEST_CASE_FIXTURE(Live, "live: an endpoint that is none is refused by name") {
  CHECK_FALSE(session.try_run("watch nonsense://x"));
  CHECK(session.log().back().text.find("nonsense://x") != std::string::npos);
  CHECK_FALSE(session.can_undo());
}

#else

TEST_CASE_FIXTURE(Fixture, "live: a build without ZeroMQ says what is missing") {
  check_refused("watch tcp://127.0.0.1:5557", "libzmq3-dev");
}

#endif
