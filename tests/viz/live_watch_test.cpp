// The page that watches beside a server that publishes, each in a process of its own.

#include <doctest/doctest.h>

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
  for (const char* name :
       {"batch", "standing", "prefixes", "stored", "again", "evicted", "missing"}) {
    text += name + ("=" + std::to_string(session.page().counter(name).value())) + " ";
  }
  return text;
}

}  // namespace

TEST_CASE("a server is followed while it runs, and what it did is what its recording says") {
  const kvtest::TempDir dir;
  const std::string file = (dir.path() / "r").string(), at = "ipc://" + (dir.path() / "s").string();
  const std::string serve =
      "$B/publish --num-requests 40 --block-size 16 --num-blocks 120 --wait 60 ";
  REQUIRE(kvtest::shell(serve + file).code == 0);
  viz::Session recorded(page_of("watch"));
  recorded.run({.verb = "watch", .args = {file}});
  recorded.run({.verb = "next", .args = {"100000"}});
  const std::string wanted = state_of(recorded);
  REQUIRE(recorded.page().counter("evicted").value() > 0);

  viz::Session live(page_of("watch"));
  live.run({.verb = "watch", .args = {at}});
  live.playing = true;
  int code = -1;
  std::thread server([&] { code = kvtest::shell(serve + at).code; });
  for (int i = 0; i < 6000 && state_of(live) != wanted; ++i) {
    live.advance(10);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  server.join();
  CHECK(code == 0);
  CHECK(live.playing);
  CHECK(state_of(live) == wanted);
  while (live.can_undo()) live.undo();
  while (live.can_redo()) live.redo();
  CHECK(state_of(live) == wanted);
}
