// The cache of a server, followed over HTTP.
#include <algorithm>
#include <memory>
#define KV_SERVE_TESTS_SERVER
#include "common/error.h"
#include "instruments/serve/test/support.h"
#include "instruments/watch/sockets/http_source.h"
#include "instruments/watch/watcher.h"

using namespace serve_test;

TEST_CASE("http: a watcher attaches late, and has what is in the cache, and all that follows") {
  serve::ServerOptions options = serve_test::options();
  options.lesson.num_blocks = 24;
  options.lesson.block_size = 4;
  auto running = std::make_unique<Running>(options);
  const auto ask = [&](int first) {
    const json request{{"prompt", tokens_from(first, 40)}, {"max_tokens", 1}};
    CHECK(running->complete(request).status == 200);
  };
  ask(300);
  ask(400);
  const std::string url = "http://127.0.0.1:" + std::to_string(running->port());
  watch::HttpSource source(url);
  watch::Watcher watcher;
  const auto follows = [&] {
    return eventually([&] {
      for (const watch::Frame& frame : source.receive(5ms)) {
        CHECK(watcher.take(frame).note.empty());
      }
      const json blocks = running->ask(get("/kv_snapshot")).parsed()["blocks"];
      const auto& mirrored = watcher.mirror().blocks();
      return blocks.size() == mirrored.size() && std::ranges::all_of(blocks, [&](const json& one) {
               return std::ranges::any_of(mirrored, [&](const auto& block) {
                 return watch::hex(block.second.hash) == one["hash"] &&
                        block.second.tokens == one["token_ids"] &&
                        block.second.parent.has_value() == !one["parent"].is_null();
               });
             });
    });
  };
  CHECK(follows());
  CHECK(watcher.mirror().num_blocks() == 20);
  for (const int first : {500, 300, 600, 700}) ask(first);  // blocks are evicted, and come again
  CHECK(follows());
  CHECK(watcher.counts().changes.removed > 0);
  CHECK(watcher.is_complete());
  running.reset();
  const auto ended = [&](watch::HttpSource& one, const std::string& why) {
    return eventually([&] {
      try {
        one.receive(5ms);
        return false;
      } catch (const kv::UserError& error) {
        return std::string(error.what()).find(why) != std::string::npos;
      }
    });
  };
  CHECK(ended(source, "has gone"));
  watch::HttpSource late(url);
  CHECK(ended(late, "no server answers"));
  CHECK_THROWS_AS(watch::HttpSource("http://x:0"), kv::UserError);
}

TEST_CASE("http: what happens to the cache, live, and what was missed") {
  serve::ServerOptions options = serve_test::options();
  options.lesson.block_size = 4;
  Running running(options);
  Client reader(running.port());
  reader.send(get("/kv_events"));
  CHECK(reader.wait_for(": events"));
  running.complete(json::parse(kShort));
  CHECK(reader.wait_for("id: 0\ndata: {\"seq\":0"));
  CHECK(reader.wait_for("\"BlockStored\""));
  const json snapshot = running.ask(get("/kv_snapshot")).parsed();
  CHECK(snapshot["block_size"] == 4);
  CHECK(!snapshot["blocks"].empty());
  Client later(running.port());
  later.send(get("/kv_events", "Last-Event-ID: 0\r\n"));
  if (snapshot["seq"] > 0) CHECK(later.wait_for("id: 1\n"));
  reader.close();
  running.complete(json::parse(kStream));
  CHECK(running.becomes_idle());
}
