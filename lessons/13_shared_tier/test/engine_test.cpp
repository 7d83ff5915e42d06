// Tests of lesson 13's engine: what one server has computed, another one loads, and the bits are
// those of lesson 02, whatever the store does.

#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#include "common/error.h"
#include "lessons/12_file_tier/checksum_blocks.h"
#include "servers.h"

using namespace lesson13_test;
using lesson06::ExtraKey;
using lesson13::BlockName;
using lesson13::BlockStore;
using lesson13::SharedMetrics;

namespace {

/// Eight texts of three or four full blocks each.
std::vector<kv::Request> texts() {
  std::vector<kv::Request> requests;
  for (int i = 0; i < 8; ++i) requests.push_back(kvtest::request_of(50 + i, 12, i));
  return requests;
}

const SharedMetrics& metrics_of(const SharedTierEngine& engine) {
  return engine.server()->tier().metrics();
}

/// A store whose values may change, be late or not come.
class BadStore final : public BlockStore {
 public:
  explicit BadStore(BlockStore& store) : store_(store) {}
  std::function<bool()> answers = [] { return true; };
  std::function<std::string(size_t index, std::string_view value)> changed =
      [](size_t, std::string_view value) { return std::string(value); };

  std::optional<size_t> find(std::span<const BlockName> names) override {
    return answers() ? store_.find(names) : std::nullopt;
  }
  void get(std::span<const BlockName> names, const OnValue& on_value) override {
    for (size_t i = 0; i < names.size() && answers(); ++i) {
      store_.get(names.subspan(i, 1), [&](size_t, std::string_view value) {
        const std::string now = changed(i, value);
        if (!now.empty()) on_value(i, now);
      });
    }
  }
  bool put(const BlockName& name, std::string_view value) override {
    return answers() && store_.put(name, value);
  }

 private:
  BlockStore& store_;
};

/// Runs a server to the end of its requests.
void run(lesson13::Server& server) {
  while (!server.idle()) server.step();
  server.settle();
}

/// A server has put its texts into the store, and another one, whose store is bad, serves them.
struct TwoServers {
  TwoServers() {
    SharedTierEngine engine(model, {.num_blocks = 40}, store, {}, always());
    wanted = engine.generate(requests);
  }
  SharedMetrics serve(BlockStore& from, const lesson13::SharedOptions& shared = {}) {
    SharedTierEngine engine(model, {.num_blocks = 40}, from, {}, always(60, shared));
    const auto result = engine.generate(requests);
    kvtest::check_equal(result, wanted);
    computed = result.counters.kv_rows_computed;
    engine.manager()->check();
    CHECK(engine.manager()->host().num_used() == 0);
    return metrics_of(engine);
  }
  kv::Model& model = kvtest::shipped_model();
  std::vector<kv::Request> requests = texts();
  MemoryStore store;
  BadStore bad{store};
  kv::GenerateResult wanted;
  int64_t computed = 0;
};

}  // namespace

TEST_CASE("two servers in turn, pools of any size, hashes that collide: the bits of a flat cache") {
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

TEST_CASE_FIXTURE(TwoServers, "another model asks for other names") {
  const kv::Kernel kernel = model.kernel();
  model.set_kernel(kv::Kernel::kPlain);
  SharedTierEngine engine(model, {.num_blocks = 40}, store, {}, always());
  const auto result = engine.generate(requests);
  CHECK(metrics_of(engine).num_queried == 8 * 3);
  CHECK(metrics_of(engine).num_found == 0);
  model.set_kernel(kernel);
  CHECK(result.counters.kv_rows_computed == wanted.counters.kv_rows_computed);
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

/// Other K and V under the same name, with the right sums.
std::string poisoned(std::string_view value) {
  constexpr size_t kHeader = 56 + 16 * sizeof(int32_t);
  std::string now(value);
  now[kHeader + 40] = static_cast<char>(now[kHeader + 40] ^ 0x40);
  const auto content = std::as_bytes(std::span(now)).subspan(kHeader);
  const uint64_t checksum = lesson12::checksum_of(content);
  std::memcpy(now.data() + 48, &checksum, sizeof checksum);
  return now;
}

}  // namespace

TEST_CASE_FIXTURE(TwoServers, "poison with the right sums is a hit: sums prove nothing about K") {
  bad.changed = [](size_t, std::string_view value) { return poisoned(value); };
  SharedTierEngine engine(model, {.num_blocks = 40}, bad, {}, always());
  const auto result = engine.generate(requests);
  CHECK(metrics_of(engine).num_fetched == 8 * 3);
  CHECK(metrics_of(engine).num_damaged == 0);
  for (size_t i = 0; i < requests.size(); ++i) {
    CHECK(result.completions[i].logits_xxh64 != wanted.completions[i].logits_xxh64);
  }
}

TEST_CASE_FIXTURE(TwoServers, "poison is refused by servers with a secret") {
  MemoryStore common;
  SharedTierEngine writer(model, {.num_blocks = 40}, common, {}, always(60, {.secret = "s"}));
  writer.generate(requests);
  BadStore poisons(common);
  poisons.changed = [](size_t, std::string_view value) {
    return poisoned(value.substr(0, value.size() - 32)) +
           std::string(value.substr(value.size() - 32));
  };
  const SharedMetrics metrics = serve(poisons, {.secret = "s"});
  CHECK(metrics.num_damaged == 8);
  CHECK(metrics.num_fetched == 0);
  CHECK(serve(common, {.secret = "s"}).num_fetched == 8 * 3);
  CHECK(serve(common, {.secret = "another"}).num_damaged == 8);
}

TEST_CASE_FIXTURE(TwoServers, "poison is found by computing a sample again, and replaced") {
  bad.changed = [](size_t, std::string_view value) { return poisoned(value); };
  const SharedMetrics metrics = serve(bad, {.check_every = 1});
  CHECK(metrics.num_checked == 8 * 3);
  CHECK(metrics.num_poisoned == 8 * 3);
  CHECK(computed == wanted.counters.kv_rows_computed);
  const SharedMetrics sound = serve(store, {.check_every = 2});
  CHECK(sound.num_checked == 4 * 3);
  CHECK(sound.num_poisoned == 0);
}

TEST_CASE_FIXTURE(TwoServers, "another tenant finds nothing, and an adapter's blocks stay here") {
  MemoryStore common;
  const auto found = [&](const lesson13::ExtraKeys& keys) {
    lesson13::Server server(model, {.num_blocks = 40}, {}, always(), common);
    server.submit(0, requests[0], {.extra_keys = keys});
    run(server);
    return server.tier().metrics().num_fetched;
  };
  const lesson13::ExtraKeys tenant{{ExtraKey::Kind::kSalt, "tenant"}};
  CHECK(found(tenant) == 0);
  CHECK(found(tenant) == 3);
  CHECK(found({{ExtraKey::Kind::kSalt, "other"}}) == 0);
  CHECK(found({}) == 0);
  CHECK(found({}) == 3);
  const size_t before = common.values().size();
  CHECK(found({{ExtraKey::Kind::kAdapter, "7"}}) == 0);
  CHECK(common.values().size() == before);
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
  late.release();
  while (!server.idle()) step();
  CHECK(ended == std::vector<int64_t>{1, 0});
  server.settle();
}

TEST_CASE_FIXTURE(TwoServers, "requests start in the order of their arrival") {
  MemoryStore empty;
  auto options = always();
  options.run = lesson13::StoreWorker::Run::kAtOnce;
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

TEST_CASE_FIXTURE(TwoServers, "a server that ends has put its blocks") {
  MemoryStore common;
  {
    lesson13::Server server(model, {.num_blocks = 40}, {}, always(), common);
    server.submit(0, kvtest::request_of(50, 1));  // a pass fills three blocks, and is the last
    while (!server.idle()) server.step();
  }
  CHECK(common.values().size() == 3);
}

TEST_CASE("callbacks that throw at any token leave no block in use") {
  kv::Model& model = kvtest::shipped_model();
  const auto requests = lesson08_test::mixed(6);
  MemoryStore store;
  SharedTierEngine engine(model, {.num_blocks = 14}, store,
                          {.scheduler = {.max_tokens_per_pass = 32}}, always(50));
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
