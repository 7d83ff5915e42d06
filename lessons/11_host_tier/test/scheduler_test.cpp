// Requests whose blocks are in the host: lesson 08's scheduler, and copies beside its passes.

#include "two_pools.h"

using namespace lesson11_test;

namespace {

/// The host has the first tokens of text 0, and the device nothing of them.
struct TextInHost : TwoPools {
  TextInHost(const Sizes& sizes, int num_tokens, const SchedulerOptions& options = {})
      : TwoPools(sizes, options) {
    run(-1, prompt(0, num_tokens));
    offload_all();
    run(-1, prompt(99, sizes.device * sizes.block_size));
    manager.offload(0);  // text 99 stays on the device alone
  }
};

}  // namespace

TEST_CASE("a request waits for its blocks, and computes what is left") {
  TextInHost t({.device = 8}, 16);
  t.submit(1, t.prompt(0, 18), 2);
  CHECK(t.pass().empty());
  CHECK(t.scheduler.waiting() == std::vector<int64_t>{1});
  t.copies.step(1 << 20);
  CHECK(t.pass() == Chunks{{1, 2}});
  CHECK(t.scheduler.request(1).num_cached == 16);
  t.run_to_end();
}

TEST_CASE("requests that run lose nothing while another one waits for its blocks") {
  TextInHost t({.device = 16, .host = 40}, 16);
  t.submit(1, t.prompt(5, 4), 9);
  CHECK(t.pass() == Chunks{{1, 4}});
  t.submit(2, t.prompt(0, 18), 1);
  for (int i = 0; i < 3; ++i) CHECK(t.pass() == Chunks{{1, 1}});
  t.finish_all();
  CHECK(t.pass() == Chunks{{1, 1}, {2, 2}});
}

TEST_CASE("requests start in their order: a later one waits for one whose blocks are loaded") {
  TextInHost t({.device = 16}, 16);
  t.submit(1, t.prompt(0, 18), 1);
  t.submit(2, t.prompt(5, 4), 1);
  CHECK(t.pass().empty());
  t.finish_all();
  CHECK(t.pass() == Chunks{{1, 2}, {2, 4}});
}

TEST_CASE("blocks of several waiting requests are loaded at once") {
  TwoPools t({.device = 8, .host = 16});
  t.evict_two_to_host(t.prompt(99, 32));
  t.submit(1, t.prompt(0, 9), 1);
  t.submit(2, t.prompt(1, 9), 1);
  CHECK(t.begin_pass().empty());
  CHECK(t.in_flight(Direction::kLoad).size() == 4);
  t.finish_all();
  CHECK(t.pass() == Chunks{{1, 1}, {2, 1}});
}

TEST_CASE("no more requests load than may run") {
  TwoPools t({.device = 8, .host = 16}, {.max_running = 1});
  t.evict_two_to_host(t.prompt(99, 32));
  t.submit(1, t.prompt(0, 9), 1);
  t.submit(2, t.prompt(1, 9), 1);
  t.begin_pass();
  CHECK(t.in_flight(Direction::kLoad).size() == 2);
}

TEST_CASE("a load waits for room for the whole request, and those after it wait, too") {
  TextInHost t({.device = 5, .host = 16}, 8, {.max_chunk = 4});
  t.submit(1, t.prompt(5, 4), 4);
  CHECK(t.pass() == Chunks{{1, 4}});
  t.submit(2, t.prompt(0, 17), 1);  // needs five blocks: two of them are loaded
  t.submit(3, t.prompt(7, 4), 1);
  CHECK(t.pass() == Chunks{{1, 1}});
  CHECK(t.in_flight(Direction::kLoad).empty());
  t.run_to_end();
  CHECK(t.manager.metrics().num_hits_in_host == 2);
}

TEST_CASE("a request that skips reading computes all, and so does one with other extra keys") {
  TextInHost t({.device = 16}, 16);
  t.submit(1, t.prompt(0, 18), 1, {.skip_reading_prefix_cache = true});
  t.submit(2, t.prompt(0, 18), 1, {}, 1);
  CHECK(t.pass() == Chunks{{1, 18}, {2, 18}});
}

TEST_CASE("a request is cancelled while its blocks are loaded: they are there for others") {
  TextInHost t({.device = 8}, 16);
  t.submit(1, t.prompt(0, 18), 1);
  CHECK(t.pass().empty());
  t.finish(1);
  t.check();
  t.submit(2, t.prompt(0, 18), 1);
  CHECK(t.pass().empty());
  CHECK(t.copies.started() == 2);  // an offload and one load
  t.finish_all();
  CHECK(t.pass() == Chunks{{2, 2}});
}

TEST_CASE("a request that was preempted loads what was evicted since") {
  TwoPools t({.device = 3, .host = 16}, {.max_chunk = 4, .full_sequence_must_fit = false});
  t.submit(1, t.prompt(0, 7), 6);
  t.submit(2, t.prompt(1, 7), 6);
  t.run_to_end();
  CHECK(t.scheduler.num_preemptions() > 0);
  CHECK(t.manager.metrics().num_hits_in_host > 0);
}

TEST_CASE("in pools of any size everything ends") {
  for (const int host : {1, 2, 3, 40}) {
    TwoPools t({.device = 4, .host = host});
    for (int round = 0; round < 2; ++round) {
      for (int64_t id = 0; id < 4; ++id) t.submit(id, t.prompt(static_cast<int>(id), 14), 3);
      CHECK(t.run_to_end() < 60);
    }
  }
}

TEST_CASE("a block is loaded if that is quicker than to compute its tokens") {
  using enum LoadPolicy;
  CHECK(is_worth_loading(kQuicker, {}, 16));  // nothing is known yet
  CHECK(is_worth_loading(kQuicker, {.seconds_per_token = 1, .seconds_per_block = 15}, 16));
  CHECK_FALSE(is_worth_loading(kQuicker, {.seconds_per_token = 1, .seconds_per_block = 16}, 16));
  CHECK(is_worth_loading(kQuicker, {.seconds_per_token = 0, .seconds_per_block = 16}, 16));
  CHECK(is_worth_loading(kQuicker, {.seconds_per_token = 1, .seconds_per_block = 0}, 16));
  CHECK(is_worth_loading(kAlways, {.seconds_per_token = 1, .seconds_per_block = 99}, 16));
  CHECK_FALSE(is_worth_loading(kQuicker, {.seconds_per_token = 0.1, .seconds_per_block = 0.5}, 4));
  CHECK_FALSE(is_worth_loading(kNever, {.seconds_per_block = 1}, 16));
}
