// Publisher and subscriber over real sockets.

#include "instruments/watch/sockets/sockets.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/error.h"
#include "instruments/watch/sockets/catch_up.h"
#include "instruments/watch/sockets/listener.h"
#include "instruments/watch/watcher.h"
#include "tests/support/ipv6.h"
#include "tests/support/temp_dir.h"

using namespace watch;
using std::chrono::milliseconds;

#if KV_HAVE_ZMQ

namespace {

Frame frame(uint64_t seq) {
  BlockStored event{.block_hashes = {hash_of(seq)}, .block_size = 16};
  return {.seq = seq,
          .payload = encode({.ts = static_cast<double>(seq + 1), .events = {std::move(event)}})};
}

/// The next frame, or one without a payload.
Frame next(Subscriber& subscriber) {
  Frame frame;
  for (int i = 0; i < 200 && !subscriber.receive(frame, milliseconds(100)); ++i) continue;
  return frame;
}

void wait_for(Publisher& publisher, int watchers) {
  for (int i = 0; i < 200 && publisher.num_watchers(milliseconds(100)) < watchers; ++i) continue;
  REQUIRE(publisher.num_watchers(milliseconds(0)) == watchers);
}

}  // namespace

TEST_CASE("sockets: frames come as they were sent, to those of the topic") {
  const kvtest::TempDir dir;
  for (const std::string& at :
       {std::string("tcp://127.0.0.1:*"), "ipc://" + (dir.path() / "s").string()}) {
    Publisher publisher(at, "kv");
    Subscriber mine(publisher.endpoint(), "kv"), other(publisher.endpoint(), "other");
    wait_for(publisher, 2);
    for (uint64_t seq = 0; seq < 100; ++seq) publisher.send(frame(seq));
    for (uint64_t seq = 0; seq < 100; ++seq) {
      const Frame got = next(mine);
      CHECK(got.seq == seq);
      CHECK(got.payload == frame(seq).payload);
    }
    Frame none;
    CHECK_FALSE(other.receive(none, milliseconds(0)));
  }
}

TEST_CASE("sockets: a late watcher asks for what was before, and misses nothing") {
  Publisher publisher("tcp://127.0.0.1:*", "", "tcp://127.0.0.1:*");
  for (uint64_t seq = 0; seq < 50; ++seq) publisher.send(frame(seq));
  Subscriber subscriber(publisher.endpoint(), "", publisher.replay_endpoint());
  wait_for(publisher, 1);
  for (uint64_t seq = 50; seq < 60; ++seq) publisher.send(frame(seq));

  Watcher watcher;
  const Frame first = next(subscriber);
  CHECK(first.seq == 50);
  REQUIRE(watcher.misses_before(first));
  // No answer comes in time. A late answer does not get into the next one.
  CHECK_FALSE(subscriber.replay(7, milliseconds(20), [](const Frame&) {}));
  std::atomic<bool> done = false;
  std::thread server([&] {
    while (!done) publisher.answer_replays();
  });
  const bool answered = subscriber.replay(watcher.next_seq(), milliseconds(20'000),
                                          [&](const Frame& one) { watcher.take(one); });
  done = true;
  server.join();
  REQUIRE(answered);
  watcher.take(first);
  for (int i = 51; i < 60; ++i) watcher.take(next(subscriber));
  CHECK(watcher.is_complete());
  CHECK(watcher.next_seq() == 60);
  CHECK(watcher.mirror().num_blocks() == 60);
}

TEST_CASE("sockets: a restarted server is known by its last batch, not by numbers") {
  const auto of = [](uint64_t seq, uint64_t server) {
    BlockStored event{.block_hashes = {hash_of(1000 * server + seq)}, .block_size = 16};
    return Frame{
        .seq = seq,
        .payload = encode({.ts = static_cast<double>(100 * server + seq), .events = {event}})};
  };
  struct Case {
    int server, num_batches;  // of the server that runs now
    bool same;                // the watcher keeps what it has
  };
  for (const Case& c : {Case{2, 10, false}, Case{2, 6, false}, Case{2, 3, false}, Case{1, 10, true},
                        Case{1, 6, true}}) {
    const int server = c.server, num_batches = c.num_batches;
    CAPTURE(server);
    CAPTURE(num_batches);
    Watcher watcher;
    for (uint64_t seq = 0; seq < 6; ++seq) watcher.take(of(seq, 1));
    Publisher publisher("tcp://127.0.0.1:*", "", "tcp://127.0.0.1:*");
    for (int seq = 0; seq < num_batches; ++seq) {
      publisher.send(of(static_cast<uint64_t>(seq), static_cast<uint64_t>(server)));
    }
    Subscriber subscriber(publisher.endpoint(), "", publisher.replay_endpoint());
    std::atomic<bool> done = false;
    std::thread answers([&] {
      while (!done) publisher.answer_replays();
    });
    const bool answered = catch_up(subscriber, watcher, milliseconds(20'000),
                                   [&](const Frame& one) { watcher.take(one); });
    done = true;
    answers.join();
    CHECK(answered);
    CHECK(watcher.is_complete());
    CHECK(watcher.counts().restarts == (c.same ? 0 : 1));
    CHECK(watcher.mirror().num_blocks() == num_batches);
    CHECK(watcher.next_seq() == static_cast<uint64_t>(num_batches));
  }
}

TEST_CASE("sockets: a server that cannot be compared is doubted") {
  Watcher watcher;
  watcher.take(frame(0));
  Publisher silent("tcp://127.0.0.1:*", "", "tcp://127.0.0.1:*");
  Subscriber subscriber(silent.endpoint(), "", silent.replay_endpoint());
  CHECK_FALSE(catch_up(subscriber, watcher, milliseconds(20), [](const Frame&) {}));
  CHECK_FALSE(watcher.is_complete());
  CHECK(watcher.mirror().num_blocks() == 1);
}

TEST_CASE("sockets: a subscriber knows whether its server is there, and whether it was away") {
  auto publisher = std::make_unique<Publisher>("tcp://127.0.0.1:*");
  const std::string endpoint = publisher->endpoint();
  Subscriber subscriber(endpoint), other("tcp://127.0.0.1:1");
  const auto becomes = [&](bool connected) {
    for (int i = 0; i < 2000 && subscriber.is_connected() != connected; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    return subscriber.is_connected() == connected;
  };
  CHECK(becomes(true));
  CHECK_FALSE(other.is_connected());
  CHECK_FALSE(subscriber.reconnected());
  publisher.reset();
  CHECK(becomes(false));
  for (int i = 0; i < 200 && !publisher; ++i) {  // ZeroMQ closes the port some time later
    try {
      publisher = std::make_unique<Publisher>(endpoint);
    } catch (const kv::UserError&) {
      std::this_thread::sleep_for(milliseconds(10));
    }
  }
  REQUIRE(publisher);
  CHECK(becomes(true));
  CHECK(subscriber.reconnected());
  CHECK_FALSE(subscriber.reconnected());
}

TEST_CASE("sockets: IPv6 addresses in brackets, a scheme in capitals, a slash after the port") {
  if (!kvtest::has_ipv6()) return;
  Publisher publisher("tcp://[::1]:*");
  Subscriber subscriber("TCP" + publisher.endpoint().substr(3) + "/");
  wait_for(publisher, 1);
  publisher.send(frame(7));
  CHECK(next(subscriber).seq == 7);
}

TEST_CASE("sockets: a server that is asked for much sends a little of it between two passes") {
  Publisher publisher("tcp://127.0.0.1:*", "", "tcp://127.0.0.1:*");
  constexpr uint64_t kFrames = 1000;
  for (uint64_t seq = 0; seq < kFrames; ++seq) publisher.send(frame(seq));
  Subscriber subscriber(publisher.endpoint(), "", publisher.replay_endpoint());
  std::atomic<int> num_came = 0;
  bool answered = false;
  std::thread watcher([&] {
    answered = subscriber.replay(0, milliseconds(20'000), [&](const Frame&) { ++num_came; });
  });
  for (int i = 0; i < 2000 && !publisher.answer_replays(); ++i) {  // until it has asked
    std::this_thread::sleep_for(milliseconds(1));
  }
  std::this_thread::sleep_for(milliseconds(100));  // nothing more comes of this call
  CHECK(num_came > 0);
  CHECK(num_came < static_cast<int>(kFrames) / 2);
  while (publisher.answer_replays()) continue;
  watcher.join();
  CHECK(answered);
  CHECK(num_came == static_cast<int>(kFrames));
}

TEST_CASE("listener: frames wait until they are taken, those that were missed in their place") {
  Publisher publisher("tcp://127.0.0.1:*");
  Publisher memory("tcp://127.0.0.1:*", "", "tcp://127.0.0.1:*");  // of all that was ever sent
  for (uint64_t seq = 0; seq < 10; ++seq) memory.send(frame(seq));
  Listener listener(publisher.endpoint(), memory.replay_endpoint());
  const auto wait_until = [&](size_t count) {
    for (int i = 0; i < 2000 && listener.num_waiting() < count; ++i) {
      memory.answer_replays();
      std::this_thread::sleep_for(milliseconds(10));
    }
    REQUIRE(listener.num_waiting() == count);
  };
  wait_until(10);
  CHECK(listener.take(4).size() == 4);
  wait_for(publisher, 1);
  memory.send(frame(10));
  memory.send(frame(11));
  publisher.send(frame(12));
  wait_until(9);
  const std::vector<Frame> rest = listener.take(100);
  REQUIRE(rest.size() == 9);
  for (size_t i = 0; i < rest.size(); ++i) CHECK(rest[i].seq == i + 4);
  CHECK(listener.take(1).empty());
}

TEST_CASE("sockets: an endpoint that is none, or taken, is refused by name") {
  for (const char* bad : {"tcp://127.0.0.1:none", "nonsense://x", "tcp://127.0.0.1:99999"}) {
    const std::string what = std::string(bad) + ": not an address";
    CHECK_THROWS_WITH_AS(Publisher{bad}, doctest::Contains(what.c_str()), kv::UserError);
    CHECK_THROWS_WITH_AS(Subscriber{bad}, doctest::Contains(what.c_str()), kv::UserError);
  }
  CHECK_THROWS_WITH_AS(Subscriber("tcp://[::1]:0"), doctest::Contains("not an"), kv::UserError);
  const Publisher one("tcp://localhost:*");
  CHECK_THROWS_WITH_AS(Publisher(one.endpoint()), doctest::Contains("in use"), kv::UserError);
}

// The last one: its sockets are gone some time after it.
TEST_CASE("listener: an error in its thread ends the thread alone, and is told") {
  Publisher publisher("tcp://127.0.0.1:*"), silent("tcp://127.0.0.1:*", "", "tcp://127.0.0.1:*");
  Listener listener(publisher.endpoint(), silent.replay_endpoint());
  wait_for(publisher, 1);
  std::vector<std::unique_ptr<Publisher>> all;  // that a program may have
  const auto take_sockets = [&] {
    try {
      for (;;) all.push_back(std::make_unique<Publisher>("inproc://" + std::to_string(all.size())));
    } catch (const kv::UserError&) {
    }
  };
  for (int i = 0; i < 60; ++i) {  // also the one with which it has asked what was before
    take_sockets();
    std::this_thread::sleep_for(milliseconds(50));
  }
  publisher.send(frame(9));
  for (int i = 0; i < 200 && listener.error().empty(); ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  CHECK(listener.error().find("no more can come: --replay") == 0);
}

#else

TEST_CASE("sockets: a build without ZeroMQ says what is missing") {
  CHECK_THROWS_WITH_AS(Subscriber("tcp://127.0.0.1:5557"), doctest::Contains("libzmq3-dev"),
                       kv::UserError);
  CHECK_THROWS_WITH_AS(Publisher("tcp://*:5557"), doctest::Contains("libzmq3-dev"), kv::UserError);
}

#endif
