// What the server publishes: a watcher that has only the bytes knows the cache after every pass.

#include <map>
#include <string>
#include <vector>

#include "instruments/serve/event_log.h"
#include "instruments/watch/watcher.h"
#include "lessons/08_scheduler/test/served.h"

namespace {

using kvtest::shipped_model;
using lesson08::ServeOptions;
using lesson08::ServingEngine;
using lesson08_test::mixed;
using namespace watch;

/// By hash: how many blocks.
std::map<std::string, int> standing(const lesson06::PrefixIndex& index) {
  std::map<std::string, int> copies;
  for (int32_t id = 0; id < index.num_ids(); ++id) {
    if (const auto* const block = index.block(id)) ++copies[hash_of(block->hash)];
  }
  return copies;
}

std::map<std::string, int> standing(const EventMirror& mirror) {
  std::map<std::string, int> copies;
  for (const auto& [name, block] : mirror.blocks()) copies[block.hash] = block.num_copies;
  return copies;
}

}  // namespace

TEST_CASE("kv events: after every pass a watcher holds what the server's cache holds") {
  const std::vector<kv::Request> requests = mixed(24, 3);
  EventLog log;
  Watcher watcher;
  ServingEngine engine(shipped_model(), {.block_size = 4, .num_blocks = 80},
                       ServeOptions{.scheduler = {.max_tokens_per_pass = 64, .max_running = 8},
                                    .on_cache_event = log.sink()});
  int passes = 0;
  const auto follow = [&](const auto& manager) {
    if (const auto frame = log.take(++passes)) watcher.take(*frame);
    REQUIRE(standing(watcher.mirror()) == standing(manager.pool().index()));
  };
  for (int round = 0; round < 2; ++round) {
    const auto result = engine.serve(requests, {}, {}, [&](const auto& scheduler, const auto&) {
      follow(scheduler.manager());
      if (passes % 50 == 0) engine.reset_prefix_cache();
      return true;
    });
    CHECK(result.num_preemptions > 0);
    follow(*engine.manager());
  }
  CHECK(watcher.is_complete());
  CHECK(watcher.counts().changes.removed > 100);
  CHECK(watcher.counts().changes.again > 10);
  CHECK(watcher.counts().changes.cleared > 0);
  CHECK(watcher.counts().changes.not_there == 0);
}

TEST_CASE("kv events: a larger pool is another cache, and its watchers are told so") {
  EventLog log;
  Watcher watcher;
  ServingEngine engine(shipped_model(), {.block_size = 8},
                       ServeOptions{.on_cache_event = log.sink()});
  for (const int tokens : {50, 20, 200}) {
    const kv::Request request = kvtest::request_of(tokens, 4, tokens);
    engine.generate({&request, 1});
    watcher.take(log.take(tokens).value());
    CHECK(standing(watcher.mirror()) == standing(engine.manager()->pool().index()));
  }
  CHECK(watcher.counts().changes.cleared == 1);
}

TEST_CASE("kv events: they change no bit") {
  const std::vector<kv::Request> requests = mixed(8, 4);
  EventLog log;
  ServingEngine engine(shipped_model(), {.block_size = 8, .num_blocks = 60},
                       ServeOptions{.on_cache_event = log.sink()});
  kvtest::check_equal(engine.generate(requests), lesson08_test::flat(shipped_model(), requests));
}
