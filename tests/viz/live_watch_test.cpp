// The page that watches beside a server that publishes, each in a process of its own.

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "tests/support/shell.h"
#include "tests/support/temp_dir.h"
#include "viz/pages.h"
#include "viz/shell/session.h"

namespace {

std::unique_ptr<viz::Page> page_of(const std::string& lesson) {
  for (auto& page : viz::make_pages({.model_dir = KV_SOURCE_DIR "/models/tiny"})) {
    if (page->info().lesson == lesson) return std::move(page);
  }
  return nullptr;
}

std::string state_of(const viz::Session& session) {
  std::string text;
  // Not the number of batches: a watcher that asks for what it missed gets some of them twice.
  for (const char* name : {"standing", "prefixes", "stored", "again", "evicted", "missing"}) {
    text += name + ("=" + std::to_string(session.page().counter(name).value())) + " ";
  }
  return text;
}

}  // namespace

TEST_CASE("a server is followed while it runs, and what it did is what its recording says") {
  const kvtest::TempDir dir;
  const std::string file = (dir.path() / "r").string(), at = "ipc://" + (dir.path() / "s").string();
  viz::Session live(page_of("watch"));
  live.run({.verb = "watch", .args = {at, at + "-again"}});
  live.playing = true;
  std::atomic<int> code = -1;
  std::thread server([&] {
    // The recording is asked for afterwards, until it is given: beside compilers a server can be
    // late, and a watcher that listens meanwhile would be taken away too early.
    const auto ran = kvtest::shell(
        "cd " + dir.path().string() +
        "; e=ipc://$PWD/s; $B/serve --port 0 --num-blocks 60 --block-size 16 --kv-events "
        "$e --kv-events-replay $e-again >said 2>&1 & server=$!; until url=$(grep -o "
        "'http://[0-9.:]*' said); do kill -0 $server || exit 1; sleep 0.1; done; $B/load --url "
        "$url --num-requests 40 && until $B/watch $e --replay $e-again --record r --for 0.01 "
        ">told && ! grep 'does not answer' told; do kill -0 $server || break; done; code=$?; "
        "kill -INT $server; wait $server; exit $code");
    code = ran.code;
  });
  std::string wanted;
  for (int i = 0; i < 30000 && state_of(live) != wanted; ++i) {
    live.advance(10);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (code < 0 || !wanted.empty()) continue;
    viz::Session recorded(page_of("watch"));
    recorded.run({.verb = "watch", .args = {file}});
    recorded.run({.verb = "next", .args = {"100000"}});
    wanted = state_of(recorded);
    CHECK(recorded.page().counter("evicted").value() > 0);
  }
  server.join();
  CHECK(code == 0);
  CHECK(live.playing);
  CHECK(state_of(live) == wanted);
  while (live.can_undo()) live.undo();
  while (live.can_redo()) live.redo();
  CHECK(state_of(live) == wanted);
}
