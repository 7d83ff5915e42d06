// The scheduler's functions one by one, over pools whose blocks are put there by hand.

#include "floors.h"
#include "tiered_scheduler.h"

namespace lesson08 {

inline std::string readable(const Chunk& chunk) {
  return fmt::format("{} of request {}", chunk.num_tokens, chunk.id);
}

}  // namespace lesson08

using namespace lesson11_test;

namespace {

using Chunks = std::vector<Chunk>;
using Requests = std::vector<int64_t>;

struct Server : Floors {
  explicit Server(const Sizes& sizes = {}, LoadPolicy policy = LoadPolicy::kQuicker,
                  const SchedulerOptions& options = {})
      : Floors(sizes), scheduler(*manager, options, policy) {}

  void submit(int64_t id, const Tokens& prompt, int max_tokens = 4) {
    scheduler.submit(id, prompt, max_tokens);
  }
  /// The next pass, which runs.
  Chunks pass() {
    const Chunks chunks = scheduler.schedule().chunks;
    scheduler.update(chunks);
    for (const Chunk& chunk : chunks) {
      if (scheduler.wants_token(chunk.id)) scheduler.add_token(chunk.id, 9);
    }
    scheduler.check();
    manager->check_tiers();
    return chunks;
  }

  TieredScheduler scheduler;
};

int worth(LoadPolicy policy, const Rates& rates, const Below& blocks) {
  return blocks_worth_loading(blocks, 16, policy, rates);
}
const Below kHost = {{0, 1}, {0, 2}, {0, 3}};
const Below kMixed = {{0, 1}, {1, 2}, {0, 3}};

}  // namespace

TEST_CASE("always, never, and as long as nobody knows the times: all of them, none, all") {
  const Rates slow{.seconds_per_token = 1, .seconds_per_block = {100, 100}};
  CHECK(worth(LoadPolicy::kAlways, slow, kMixed) == 3);
  CHECK(worth(LoadPolicy::kNever, {}, kMixed) == 0);
  CHECK(worth(LoadPolicy::kQuicker, {}, kMixed) == 3);
  CHECK(worth(LoadPolicy::kQuicker, {1, {}}, kMixed) == 3);
  CHECK(worth(LoadPolicy::kQuicker, {0, {100, 100}}, kMixed) == 3);
  CHECK(worth(LoadPolicy::kQuicker, {}, {}) == 0);
}

TEST_CASE("a block is loaded if that is quicker than to compute its tokens") {
  const auto host = [](double seconds) {
    return worth(LoadPolicy::kQuicker, {1, {seconds, 0}}, kHost);
  };
  CHECK(host(15) == 3);
  CHECK(host(16) == 0);  // as quick: computed
  CHECK(host(17) == 0);
}

TEST_CASE("what lies further down takes the way through every pool above it") {
  const auto mixed = [](double from_host, double from_file) {
    return worth(LoadPolicy::kQuicker, {1, {from_host, from_file}}, kMixed);
  };
  CHECK(mixed(8, 7) == 3);
  CHECK(mixed(8, 9) == 1);  // the third one is quick, but the second one is missing
  CHECK(mixed(17, 1) == 0);
}

TEST_CASE(
    "a request whose blocks are on the host is running, and has no chunk before they are there") {
  Server s;
  s.put(*s.host, text(0, 16));
  s.submit(1, text(0, 20));
  CHECK(s.pass() == Chunks{});
  CHECK(s.scheduler.running() == Requests{1});
  CHECK(s.scheduler.is_loading(1));
  CHECK(s.moves(0, Way::kUp).size() == 4);
  s.to_host->step(3);
  CHECK(s.pass() == Chunks{});
  s.to_host->step(1);
  CHECK(s.pass() == Chunks{{1, 4}});
  CHECK_FALSE(s.scheduler.is_loading(1));
  CHECK(s.scheduler.request(1).num_cached == 16);
  CHECK(s.scheduler.num_loaded_tokens() == 16);
  CHECK(s.pass() == Chunks{{1, 1}});
}

TEST_CASE("what was loaded is found by others when it is there, and not before") {
  Server s;
  s.put(*s.host, text(0, 16));
  s.submit(1, text(0, 20));
  s.pass();
  CHECK(s.device.num_cached() == 0);
  s.to_host->step(4);
  s.scheduler.schedule();
  CHECK(s.device.num_cached() == 4);
}

TEST_CASE("nobody waits for another one's blocks") {
  Server s({.device = 12});
  s.put(*s.host, text(0, 16));
  s.put(*s.file, text(1, 8));
  for (const int64_t id : {0, 1, 2}) s.submit(id, text(static_cast<int>(id), 18));
  CHECK(s.pass() == Chunks{{2, 18}});
  CHECK(s.scheduler.running() == Requests{0, 2});
  CHECK(s.scheduler.waiting() == Requests{1});  // as long as the file is read
  s.submit(3, text(3, 5), 1);
  CHECK(s.pass() == Chunks{{2, 1}, {3, 5}});
  CHECK(s.scheduler.waiting() == Requests{1});
  s.to_file->step(2);
  CHECK(s.pass() == Chunks{{2, 1}, {3, 1}});
  CHECK(s.scheduler.waiting() == Requests{1});  // no room: the others hold 11 of 12 blocks
}

TEST_CASE("blocks of the file rise to the host first, and then to the device") {
  Server s;
  s.put(*s.file, text(0, 8));
  s.submit(1, text(0, 10));
  CHECK(s.pass() == Chunks{});
  CHECK(s.scheduler.waiting() == Requests{1});
  CHECK(s.pass() == Chunks{});
  CHECK(s.manager->moves(1).size() == 1);  // once
  s.to_file->step(2);
  CHECK(s.pass() == Chunks{});
  CHECK(s.scheduler.is_loading(1));
  s.to_host->step(2);
  CHECK(s.pass() == Chunks{{1, 2}});
}

TEST_CASE("what could not be read of the file is computed") {
  Server s;
  s.put(*s.file, text(0, 8));
  s.damaged = {{1, 1}};
  s.submit(1, text(0, 10));
  CHECK(s.pass() == Chunks{});
  s.to_file->step(2);
  CHECK(s.pass() == Chunks{{1, 10}});
}

TEST_CASE("what is not worth loading is computed") {
  Server never({}, LoadPolicy::kNever);
  never.put(*never.host, text(0, 16));
  never.submit(1, text(0, 20));
  CHECK(never.pass() == Chunks{{1, 20}});
  Server quicker;
  quicker.put(*quicker.host, text(0, 8));
  quicker.put(*quicker.file, text(0, 16));
  quicker.scheduler.set_rates({1, {1, 5}});  // the file's blocks are slow
  quicker.submit(1, text(0, 20));
  CHECK(quicker.pass() == Chunks{});
  CHECK(quicker.moves(0, Way::kUp).size() == 2);
  quicker.to_host->step(2);
  CHECK(quicker.pass() == Chunks{{1, 12}});
}

TEST_CASE("no more run than may, and no chunk is longer than the budget") {
  Server s({.device = 12}, LoadPolicy::kQuicker, {.max_tokens_per_pass = 10, .max_running = 2});
  s.put(*s.host, text(0, 8));
  for (const int64_t id : {0, 1, 2}) s.submit(id, text(static_cast<int>(id), 12), 1);
  CHECK(s.pass() == Chunks{{1, 10}});
  CHECK(s.scheduler.running() == Requests{0, 1});
  CHECK(s.scheduler.waiting() == Requests{2});
  s.to_host->step(2);
  CHECK(s.pass() == Chunks{{0, 4}, {1, 2}});
}

TEST_CASE("a request that is preempted while its blocks are loaded begins anew") {
  Server s({.device = 6});
  s.put(*s.host, text(0, 16));
  s.submit(1, text(1, 3), 20);
  CHECK(s.pass() == Chunks{{1, 3}});
  s.submit(2, text(0, 18), 1);
  CHECK(s.pass() == Chunks{{1, 1}});
  REQUIRE(s.scheduler.is_loading(2));
  for (int n = 0; n < 5; ++n) CHECK(s.pass() == Chunks{{1, 1}});
  CHECK(s.scheduler.waiting() == Requests{2});  // 1 needed a third block, and got its last one
  CHECK(s.scheduler.num_preemptions() == 1);
  s.to_host->step(4);
  s.pass();
  CHECK_FALSE(s.scheduler.is_loading(2));
  CHECK(s.scheduler.num_loaded_tokens() == 0);
  s.scheduler.finish(1);
  s.pass();
  REQUIRE(s.scheduler.is_loading(2));
  s.to_host->step(4);
  CHECK(s.pass() == Chunks{{2, 2}});
}
