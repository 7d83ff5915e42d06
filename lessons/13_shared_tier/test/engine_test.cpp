// Tests of lesson 13's engine: what one server has computed, another one loads, and the bits are
// those of lesson 02, whatever the store does.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "bad_stores.h"
#include "common/error.h"

using namespace lesson13_test;

TEST_CASE("two servers in turn, pools of any size, hashes that collide: the bits of a flat cache" *
          doctest::test_suite("sweep")) {
  check_servers(kvtest::shipped_model(), 16);
}

TEST_CASE_FIXTURE(TwoServers, "what one server has computed, another one does not") {
  const SharedMetrics metrics = serve(store);
  CHECK(metrics.num_queried == 8 * 3);
  CHECK(metrics.num_found == 8 * 3);
  CHECK(metrics.num_fetched == 8 * 3);
  CHECK(computed == wanted.counters.kv_rows_computed - 8 * 48);
}

TEST_CASE_FIXTURE(TwoServers, "two servers at once, which write the same: equal answers") {
  MemoryStore empty;
  std::vector<kv::GenerateResult> results(2);
  kv::Model second = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCpu);
  std::thread other([&] {
    results[1] =
        SharedTierEngine(second, {.num_blocks = 40}, empty, {}, always()).generate(requests);
  });
  results[0] = SharedTierEngine(model, {.num_blocks = 40}, empty, {}, always()).generate(requests);
  other.join();
  for (const auto& result : results) kvtest::check_equal(result, wanted);
  REQUIRE(empty.values().size() == store.values().size());
  for (const auto& [name, entry] : store.values()) {
    CHECK(empty.values().at(name).value == entry.value);
  }
}

TEST_CASE_FIXTURE(TwoServers, "a store that does not answer: all is computed") {
  bad.answers = [] { return false; };
  const SharedMetrics metrics = serve(bad);
  CHECK(metrics.num_unreachable == 8);
  CHECK(metrics.num_put == 0);
  CHECK(computed == wanted.counters.kv_rows_computed);
}

TEST_CASE_FIXTURE(TwoServers, "a store that is lost at any moment costs time alone") {
  for (int last = 0; last < 60; last += 3) {
    CAPTURE(last);
    int calls = 0;
    bad.answers = [&] { return ++calls <= last; };
    serve(bad);
  }
}

TEST_CASE_FIXTURE(TwoServers, "a changed byte costs the block and those after it") {
  bad.changed = [](size_t index, std::string_view value) {
    std::string now(value);
    if (index == 1) now[now.size() / 2] ^= 1;
    return now;
  };
  const SharedMetrics metrics = serve(bad);
  CHECK(metrics.num_damaged == 8);
  CHECK(metrics.num_fetched == 8);
  CHECK(computed == wanted.counters.kv_rows_computed - 8 * 16);
}

TEST_CASE_FIXTURE(TwoServers, "a short value, or one of another block, is a miss") {
  bad.changed = [](size_t, std::string_view value) { return std::string(value.substr(0, 99)); };
  CHECK(serve(bad).num_damaged == 8);
  const std::string one = store.values().begin()->second.value;
  bad.changed = [&](size_t, std::string_view) { return one; };
  CHECK(serve(bad).num_damaged >= 7);
}

TEST_CASE_FIXTURE(TwoServers, "what is damaged is computed and put again") {
  const auto name = store.values().begin()->first;
  store.put(name, "damage");
  CHECK(serve(store).num_damaged <= 1);
  for (const auto& [key, entry] : store.values()) CHECK(entry.value.size() > 100);
}

TEST_CASE_FIXTURE(TwoServers, "values that are evicted in the middle of a prefix") {
  std::vector<BlockName> names;
  for (const auto& [name, entry] : store.values()) names.push_back(name);
  for (size_t i = 0; i < names.size(); i += 2) store.erase(names[i]);
  const SharedMetrics metrics = serve(store);
  CHECK(metrics.num_found < 8 * 3);
  CHECK(metrics.num_fetched == metrics.num_found);
  // And between the lookup and the fetch.
  bad.changed = [](size_t index, std::string_view value) {
    return index == 2 ? std::string() : std::string(value);
  };
  CHECK(serve(bad).num_fetched == 8 * 2);
}

TEST_CASE_FIXTURE(TwoServers, "a full store keeps what was used last") {
  const size_t bytes = store.values().begin()->second.value.size();
  MemoryStore small(5 * bytes);
  serve(small);
  CHECK(small.values().size() == 5);
  serve(small);
  MemoryStore none(bytes - 1);
  CHECK(serve(none).num_not_put > 0);
}

namespace {

/// A store that answers when it is told to.
class LateStore final : public BlockStore {
 public:
  void release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }
  std::optional<size_t> find(std::span<const BlockName>) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return released_; });
    return 0;
  }
  void get(std::span<const BlockName>, const OnValue&) override {}
  bool put(const BlockName&, std::string_view) override { return true; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool released_ = false;
};

}  // namespace

TEST_CASE_FIXTURE(TwoServers, "a store that hangs keeps waiting only those who asked it") {
  LateStore late;
  lesson13::Server server(model, {.num_blocks = 40}, {}, always(), late);
  server.submit(0, requests[0]);
  server.submit(1, kvtest::request_of(12, 5));  // not a whole block
  CHECK_THROWS_AS(server.submit(0, requests[0]), kv::UserError);
  CHECK_THROWS_AS(server.submit(1, requests[0]), kv::UserError);
  CHECK(server.num_waiting() == 2);
  std::vector<int64_t> ended;
  const auto step = [&] {
    for (const auto& end : server.step().ended) ended.push_back(end.id);
  };
  while (ended.empty()) step();
  CHECK(ended == std::vector<int64_t>{1});
  CHECK_FALSE(server.idle());
  server.submit(2, requests[2]);
  CHECK(server.abort(2));  // while it waits
  CHECK_FALSE(server.abort(2));
  server.submit(2, requests[3]);  // which does not get the answer to the one before
  late.release();
  while (!server.idle()) step();
  CHECK(ended == std::vector<int64_t>{1, 0, 2});
  server.settle();
}

TEST_CASE_FIXTURE(TwoServers, "a server that ends puts what it has computed into the store") {
  MemoryStore all, slowly;
  BadStore slow{slowly};
  slow.answers = [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return true;
  };
  lesson13::Server settled(model, {.num_blocks = 40}, {}, always(), all);
  settled.submit(0, requests[0]);
  run(settled);
  {
    lesson13::Server server(model, {.num_blocks = 40}, {}, always(), slow);
    server.submit(0, requests[0]);
    while (!server.idle()) server.step();
  }
  CHECK(slowly.values().size() == all.values().size());
}

TEST_CASE_FIXTURE(TwoServers, "requests start in the order of their arrival") {
  MemoryStore empty;
  auto options = always();
  options.run = kv::RunJobs::kAtOnce;
  lesson13::Server server(model, {.num_blocks = 40}, {}, options, empty);
  server.submit(5, requests[0]);
  server.submit(3, kvtest::request_of(12, 5));  // asks for no block
  server.submit(4, requests[1]);
  server.step();
  CHECK(server.scheduler().running() == std::vector<int64_t>{5, 3, 4});
  run(server);
}

TEST_CASE_FIXTURE(TwoServers, "a store that is slower than computing is not asked any more") {
  bool first = true;
  bad.changed = [&](size_t, std::string_view value) {
    if (std::exchange(first, false)) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return std::string(value);
  };
  auto options = always();
  options.policy = LoadPolicy::kQuicker;
  lesson13::Server server(model, {.num_blocks = 40}, {}, options, bad);
  server.submit(0, requests[0]);
  server.submit(100, kvtest::request_of(40, 3, 77));  // computed: the store lacks it
  run(server);
  CHECK(server.rates().seconds_per_block > 16 * server.rates().seconds_per_token);
  const int64_t queried = server.tier().metrics().num_queried;
  server.submit(1, requests[1]);
  run(server);
  CHECK(server.tier().metrics().num_queried == queried);
}

TEST_CASE_FIXTURE(TwoServers, "after a change of the model no block of before is found") {
  model.set_kernel(kv::Kernel::kPlain);
  const auto plain = lesson08_test::flat(model, requests);
  model.set_kernel(kv::Kernel::kFast);
  SharedTierEngine engine(model, {.num_blocks = 40}, store, {}, always());
  kvtest::check_equal(engine.generate(requests), wanted);
  model.set_kernel(kv::Kernel::kPlain);
  engine.reset_prefix_cache();
  const auto now = engine.generate(requests);
  model.set_kernel(kv::Kernel::kFast);
  kvtest::check_equal(now, plain);
  CHECK(serve(store).num_damaged == 0);  // nothing was put under a name of before
  CHECK(now.counters.kv_rows_computed == wanted.counters.kv_rows_computed);
}

TEST_CASE_FIXTURE(TwoServers, "the last token is computed, also where it ends a block") {
  lesson13::Server server(model, {.num_blocks = 40}, {}, always(), store);
  server.submit(0, kvtest::request_of(48, 3));
  run(server);
  CHECK(server.tier().metrics().num_queried == 2);
  CHECK(server.tier().metrics().num_fetched == 2);
}

TEST_CASE_FIXTURE(TwoServers,
                  "a put is counted when it is issued, and when the store has answered") {
  MemoryStore common;
  lesson13::Server server(model, {.num_blocks = 40}, {}, always(), common);
  server.submit(0, kvtest::request_of(50, 1));  // a pass fills three blocks, and is the last
  while (!server.idle()) server.step();
  CHECK(server.tier().num_puts_issued() == 3);
  CHECK(server.tier().num_puts_confirmed() == 0);  // it has not looked yet
  server.step();
  server.settle();
  CHECK(server.tier().num_puts_confirmed() == 3);
  CHECK(server.tier().metrics().num_put == 3);
  CHECK(common.values().size() == 3);
}

TEST_CASE("callbacks that throw at any token leave no block in use") {
  kv::Model& model = kvtest::shipped_model();
  const auto requests = lesson08_test::mixed(6);
  MemoryStore store;
  SharedTierEngine engine(model, {.num_blocks = 14}, store,
                          {.scheduler = {.max_tokens_per_pass = 32}}, always(50));
  CHECK(engine.server() != nullptr);  // so no request waits for pinned memory and a fingerprint
  lesson08_test::check_throwing_callbacks(engine, requests, lesson08_test::flat(model, requests),
                                          40);
  CHECK(engine.manager()->host().num_used() == 0);
}

TEST_CASE("padded passes and tokens that the device chooses change nothing") {
  kv::Model& model = kvtest::shipped_model();
  struct Padded : SharedTierEngine {
    Padded(kv::Model& its_model, const lesson13::PagedOptions& options,
           const lesson08::ServeOptions& serve)
        : SharedTierEngine(its_model, options, own(), serve, never()) {}
    static lesson13::SharedTierOptions never() {
      auto options = always();
      options.policy = LoadPolicy::kNever;
      return options;
    }
    static BlockStore& own() {
      static MemoryStore store;
      return store;
    }
  };
  lesson08_test::check_padded<Padded>(model, 30);
}
