// Requests that wait for blocks, and others that do not wait for them.

#include <doctest/doctest.h>

#include <vector>

#include "lessons/08_scheduler/test/server.h"
#include "tiered_server.h"

namespace lesson11 {
namespace {

using lesson08::RequestState;
using lesson08_test::Chunks;
using lesson08_test::Ids;

TierBlock in_tier(int tier) { return {.tier = tier, .id = 1}; }

/// A server where the text's first tokens, whole blocks, are in the host's pool, and not above it.
struct TextInHost : TieredServer {
  TextInHost(const TierSizes& sizes, int num_tokens, const SchedulerOptions& options = {},
             LoadPolicy policy = LoadPolicy::kQuicker)
      : TieredServer(sizes, options, policy) {
    run(-1, prompt(0, num_tokens));
    sink_all();
    run(-1, prompt(99, sizes.device * sizes.block_size));
  }
};

}  // namespace

TEST_CASE("blocks are loaded as long as that is quicker than computing them") {
  const std::vector<TierBlock> blocks{in_tier(0), in_tier(1), in_tier(0)};
  const auto worth = [&](LoadPolicy policy, const Rates& rates) {
    return blocks_worth_loading(blocks, 4, policy, rates);
  };
  const Rates slow{.seconds_per_token = 1, .seconds_per_block = {4, 1}};
  CHECK(worth(LoadPolicy::kNever, {}) == 0);
  CHECK(worth(LoadPolicy::kAlways, slow) == 3);
  CHECK(worth(LoadPolicy::kQuicker, {}) == 3);  // unknown
  CHECK(worth(LoadPolicy::kQuicker, {1, {}}) == 3);
  CHECK(worth(LoadPolicy::kQuicker, {0, {9, 9}}) == 3);
  CHECK(worth(LoadPolicy::kQuicker, slow) == 0);         // 4 seconds for 4 tokens either way
  CHECK(worth(LoadPolicy::kQuicker, {1, {3, 1}}) == 1);  // through the host it is 4
  CHECK(worth(LoadPolicy::kQuicker, {1, {3, 0.5}}) == 3);
  CHECK(worth(LoadPolicy::kQuicker, {1, {3}}) == 3);  // the file's rate is unknown
  CHECK(blocks_worth_loading({}, 4, LoadPolicy::kAlways, {}) == 0);
}

TEST_CASE("a request waits for its own blocks, and for nobody else's") {
  TextInHost s({.device = 8, .host = 8}, 16);
  s.submit(1, s.prompt(0, 18), 2);
  s.submit(2, s.prompt(2, 6), 2);
  CHECK(s.pass() == Chunks{{2, 6}});
  CHECK(s.scheduler().is_loading(1));
  CHECK(s.scheduler().running() == Ids{1, 2});
  CHECK(s.scheduler().request(1).num_cached == 16);
  CHECK(s.scheduler().request(1).num_computed == 0);
  CHECK(s.pass() == Chunks{{2, 1}});
  s.submit(3, s.prompt(3, 3), 1);
  CHECK(s.pass() == Chunks{{3, 3}});
  s.finish_all();
  CHECK(s.pass() == Chunks{{1, 2}});
  CHECK_FALSE(s.scheduler().is_loading(1));
  CHECK(s.scheduler().num_loaded_tokens() == 16);
  CHECK(s.pass() == Chunks{{1, 1}});
  CHECK(s.scheduler().idle());
}

TEST_CASE("a request whose blocks are in the file is overtaken, and begins when they are here") {
  TieredServer s({.device = 2, .host = 2, .file = 8});
  s.run(-1, s.prompt(0, 8));
  s.manager().flush();
  s.run(-1, s.prompt(1, 8));
  s.manager().flush();
  s.submit(1, s.prompt(0, 8), 1);
  s.submit(2, s.prompt(2, 3), 1);
  CHECK(s.pass() == Chunks{{2, 3}});
  CHECK(s.scheduler().waiting() == Ids{1});
  CHECK(s.pass().empty());  // the first block rises
  s.finish_all();
  CHECK(s.pass().empty());  // from the host to the device
  CHECK(s.scheduler().is_loading(1));
  s.finish_all();
  CHECK(s.pass() == Chunks{{1, 4}});
  CHECK(s.scheduler().num_loaded_tokens() == 4);
  CHECK(s.scheduler().idle());
}

TEST_CASE("two requests that want the same blocks: they are loaded once") {
  TextInHost s({.device = 8, .host = 8}, 16);
  s.submit(1, s.prompt(0, 17), 1);
  s.submit(2, s.prompt(0, 18), 1);
  CHECK(s.pass().empty());
  CHECK(s.scheduler().waiting() == Ids{2});
  s.finish_all();
  CHECK(s.pass() == Chunks{{1, 1}, {2, 2}});
  CHECK(s.manager().tier_metrics(0).num_risen == 4);
}

TEST_CASE("a request that is preempted while it loads begins anew, and reads nothing foreign") {
  TextInHost s({.device = 6, .host = 8, .block_size = 1}, 2, {.full_sequence_must_fit = false});
  s.submit(1, s.prompt(5, 2), 5);
  CHECK(s.pass() == Chunks{{1, 2}});
  s.submit(2, s.prompt(0, 3), 1);
  CHECK(s.pass() == Chunks{{1, 1}});
  REQUIRE(s.scheduler().is_loading(2));
  CHECK(s.pass() == Chunks{{1, 1}});  // the last free block
  CHECK(s.pass() == Chunks{{1, 1}});  // one of 2
  CHECK(s.scheduler().waiting() == Ids{2});
  s.pass();
  CHECK_FALSE(s.scheduler().is_loading(2));
  CHECK(s.scheduler().num_loaded_tokens() == 0);
  s.run_to_end();
}

TEST_CASE("a request that is cancelled while it loads, or while its blocks rise") {
  TieredServer s({.device = 2, .host = 2, .file = 8});
  s.run(-1, s.prompt(0, 8));
  s.manager().flush();
  s.run(-1, s.prompt(1, 8));
  s.manager().flush();
  s.submit(1, s.prompt(0, 8), 1);
  CHECK(s.pass().empty());
  s.finish(1);
  SUBCASE("another one of its name may fetch again") {
    s.finish_all();
    s.run(-1, s.prompt(2, 8));
    s.manager().flush();  // over what has risen
    s.submit(1, s.prompt(0, 8), 1);
    CHECK(s.run_to_end() > 0);
    CHECK(s.scheduler().num_loaded_tokens() == 4);
  }
  SUBCASE("its blocks are there for others") {
    s.finish_all();
    s.submit(2, s.prompt(0, 8), 1);
    CHECK(s.pass().empty());
    REQUIRE(s.scheduler().is_loading(2));
    s.finish(2);
    s.submit(3, s.prompt(3, 8), 1);  // into the blocks of the copy
    CHECK(s.pass() == Chunks{{3, 8}});
    s.submit(2, s.prompt(4, 6), 1);  // another request of this name loads nothing
    s.run_to_end();
    CHECK(s.scheduler().num_loaded_tokens() == 0);
  }
  s.finish_all();
  s.check();
}

TEST_CASE("blocks that rose from the file and were lost again are computed") {
  TieredServer s({.device = 4, .host = 1, .file = 16, .options = {.sink_ahead = 0}});
  s.run(-1, s.prompt(0, 4));
  s.manager().flush();
  s.run(-1, s.prompt(99, 16));
  s.manager().flush();
  s.submit(1, s.prompt(1, 9), 4);
  CHECK(s.pass() == Chunks{{1, 9}});  // three of four blocks
  s.submit(2, s.prompt(0, 8), 1);     // wants two
  CHECK(s.pass() == Chunks{{1, 1}});
  REQUIRE(s.manager().moves(1).size() == 1);
  s.finish_all();
  s.run(-1, s.prompt(98, 4));
  s.manager().flush();  // over what has risen
  CHECK(s.pass() == Chunks{{1, 1}});
  CHECK(s.manager().moves(1).empty());
  s.run_to_end();
  CHECK(s.manager().tier_metrics(1).num_risen == 1);
  CHECK(s.scheduler().num_loaded_tokens() == 0);
}

TEST_CASE("with a host of few blocks everything ends") {
  for (const int host : {1, 2, 3}) {
    TieredServer s({.device = 4, .host = host, .file = 32});
    for (int text = 0; text < 4; ++text) {
      s.run(-1, s.prompt(text, 16));
      for (int i = 0; i < 8; ++i) s.sink_all();
      s.manager().flush();
    }
    for (int64_t id = 0; id < 4; ++id) s.submit(id, s.prompt(static_cast<int>(id), 16), 1);
    CHECK(s.run_to_end() < 60);
  }
}

TEST_CASE("who was preempted may fetch again") {
  TieredServer s(
      {.device = 8, .host = 2, .file = 32, .block_size = 1, .options = {.sink_ahead = 0}},
      {.full_sequence_must_fit = false});
  s.run(-1, s.prompt(0, 2));
  s.manager().flush();
  s.run(-1, s.prompt(99, 8));
  s.manager().flush();
  s.submit(1, s.prompt(5, 2), 7);
  s.pass();
  s.submit(2, s.prompt(0, 3), 3);
  s.pass();
  s.finish_all();
  s.pass();
  REQUIRE(s.scheduler().is_loading(2));
  s.finish_all();
  while (s.scheduler().num_preemptions() == 0) s.pass();
  CHECK(s.scheduler().waiting() == Ids{2});
  s.run(-1, s.prompt(98, s.device().num_free()));
  s.manager().flush();
  s.pass();
  REQUIRE(s.manager().moves(1).size() == 1);
  CHECK(s.manager().moves(1).front().way == Way::kUp);
  s.run_to_end();
}

TEST_CASE("a policy of never loads nothing, also from the file") {
  TextInHost s({.device = 8, .host = 8}, 16, {}, LoadPolicy::kNever);
  s.submit(1, s.prompt(0, 18), 1);
  CHECK(s.pass() == Chunks{{1, 18}});
  CHECK(s.manager().tier_metrics(0).num_risen == 0);
}

TEST_CASE("only what is quicker is loaded, the rest is computed after it") {
  TextInHost s({.device = 8, .host = 8}, 16);
  s.scheduler().set_rates({.seconds_per_token = 1, .seconds_per_block = {5}});
  s.submit(1, s.prompt(0, 18), 1);
  CHECK(s.pass() == Chunks{{1, 18}});
}

TEST_CASE("the gate counts what is loaded and all that comes after it") {
  TextInHost s({.device = 5, .host = 8}, 8, {.max_chunk = 4});
  s.submit(1, s.prompt(5, 4), 4);
  CHECK(s.pass() == Chunks{{1, 4}});
  s.submit(2, s.prompt(0, 17), 1);  // needs five blocks: two of them are loaded
  CHECK(s.pass() == Chunks{{1, 1}});
  CHECK(s.scheduler().waiting() == Ids{2});
  s.run_to_end();
  CHECK(s.scheduler().num_loaded_tokens() == 8);
}

TEST_CASE("who finds no room is not overtaken") {
  TieredServer s({.device = 4, .host = 4});
  s.submit(1, s.prompt(0, 11), 3);
  s.submit(2, s.prompt(1, 8), 1);  // two blocks, and one is free
  s.submit(3, s.prompt(2, 3), 1);
  CHECK(s.pass() == Chunks{{1, 11}});
  CHECK(s.scheduler().waiting() == Ids{2, 3});
  s.run_to_end();
}

TEST_CASE("those that load count as running, and take nothing from the budget") {
  TextInHost s({.device = 8, .host = 8}, 16, {.max_tokens_per_pass = 5, .max_running = 2});
  s.submit(1, s.prompt(0, 18), 1);
  s.submit(2, s.prompt(2, 8), 1);
  s.submit(3, s.prompt(3, 2), 1);
  CHECK(s.pass() == Chunks{{2, 5}});
  CHECK(s.scheduler().waiting() == Ids{3});
  CHECK(s.pass() == Chunks{{2, 3}});
  CHECK(s.pass() == Chunks{{3, 2}});
  s.run_to_end();
}

TEST_CASE("without chunked prefill the rest of a prompt runs in one piece after the load") {
  TextInHost s({.device = 16, .host = 8}, 16,
               {.max_tokens_per_pass = 20, .chunked_prefill = false});
  s.submit(1, s.prompt(0, 20), 1);
  CHECK(s.pass().empty());
  s.finish_all();
  CHECK(s.pass() == Chunks{{1, 4}});
}

TEST_CASE("a request that was resumed loads what it had computed") {
  TieredServer s({.device = 3, .host = 16}, {.max_chunk = 4, .full_sequence_must_fit = false});
  s.submit(1, s.prompt(0, 7), 6);
  s.submit(2, s.prompt(1, 7), 6);
  s.run_to_end();
  CHECK(s.scheduler().num_preemptions() > 0);
  CHECK(s.scheduler().num_loaded_tokens() > 0);
}

TEST_CASE("transfers that refuse: the request waits as it did") {
  TextInHost s({.device = 8, .host = 8}, 16);
  s.submit(1, s.prompt(0, 18), 1);
  s.transfers(0).refuses = true;
  CHECK_THROWS_AS(s.pass(), std::runtime_error);
  s.check();
  CHECK(s.scheduler().waiting() == Ids{1});
  s.transfers(0).refuses = false;
  s.run_to_end();
  CHECK(s.scheduler().num_loaded_tokens() == 16);
}

TEST_CASE("a request that skips reading computes all") {
  TextInHost s({.device = 8, .host = 8}, 16);
  s.submit(1, s.prompt(0, 18), 1, {.skip_reading_prefix_cache = true});
  CHECK(s.pass() == Chunks{{1, 18}});
}

}  // namespace lesson11
