// Tests of Redis as the store, and of all that can happen to it. They start servers of their own;
// where there is no redis-server, they say so and pass.

#include "tests/support/readable.h"  // before the checks

#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "common/error.h"
#include "redis_cluster.h"
#include "servers.h"

using namespace lesson13_test;
using namespace lesson13;
using std::chrono::milliseconds;

namespace {

/// Short pauses; on a busy machine an answer may take a while.
RedisOptions quick(int timeout_ms = 3000) {
  return {.timeout = milliseconds(timeout_ms),
          .first_pause = milliseconds(50),
          .longest_pause = milliseconds(400)};
}

double seconds_of(const auto& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

BlockName name(int number) { return name_of(root_name(1), {{number}}); }
std::vector<BlockName> names(int count) {
  std::vector<BlockName> all;
  for (int i = 0; i < count; ++i) all.push_back(name(i));
  return all;
}
/// The values that come, each followed by a bar.
std::string got(BlockStore& store, const std::vector<BlockName>& wanted) {
  std::string all;
  size_t next = 0;
  store.get(wanted, [&](size_t i, std::string_view value) {
    CHECK(i == next++);
    all += std::string(value) + "|";
  });
  return all;
}

/// Six texts of three full blocks, served by an engine that has nothing but the store.
struct Serve {
  BlockStore& store;
  std::vector<kv::Request> requests = lesson08_test::texts(50, 6, 6);
  kv::GenerateResult wanted = lesson08_test::flat(kvtest::shipped_model(), requests);

  SharedMetrics operator()() const {
    SharedTierEngine engine(kvtest::shipped_model(), {.num_blocks = 40}, store, {}, always());
    kvtest::check_equal(engine.generate(requests), wanted);
    return engine.server()->tier().metrics();
  }
};

}  // namespace

TEST_CASE("an address is redis://, with a password and a port or without, or unix:") {
  CHECK(parse_redis_address("redis://here").port == 6379);
  const RedisAddress all = parse_redis_address("redis://:pass:word@10.0.0.1:7000");
  CHECK(all.host == "10.0.0.1");
  CHECK(all.port == 7000);
  CHECK(all.password == "pass:word");
  CHECK(all.user.empty());
  CHECK(parse_redis_address("redis://me:p@ss@there").user == "me");
  CHECK(parse_redis_address("redis://me:p@ss@there").password == "p@ss");
  CHECK(parse_redis_address("redis://me:p%40ss%2Fw%3Ard@there/0").password == "p@ss/w:rd");
  CHECK(parse_redis_address("redis://there:7000/").port == 7000);
  CHECK(parse_redis_address("REDIS://[::1]:7000/0").host == "::1");
  CHECK(parse_redis_address("redis://here:").port == 6379);
  CHECK(parse_redis_address("unix:/run/a socket").host == "/run/a socket");
  CHECK(parse_redis_address("unix:/run/a socket").port == 0);
  for (const char* bad :
       {"", "here:6379", "redis://", "redis://:6379", "redis://here/1", "redis://here/x",
        "redis://:50%@here", "redis://::1:6379", "redis://here:0", "unix:x", "redis://here:99999",
        "redis://here:6x", "http://here", "redis://me@here"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_redis_address(bad), kv::UserError);
  }
}

TEST_CASE("a key's slot is that of Redis") {
  CHECK(slot_of_key("foo") == 12182);
  CHECK(slot_of_key("123456789") == 0x31C3);
}

TEST_CASE("blocks are put, looked up and fetched, each call in one trip") {
  if (!has_redis()) return;
  const RedisServer server;
  const auto store = make_redis_store(server.address());
  CHECK(store->find(names(3)) == 0);
  CHECK(got(*store, names(3)).empty());
  const std::string zeros("a\0b\r\n", 5);
  CHECK(store->put(name(0), zeros));
  CHECK(store->put(name(1), "one"));
  CHECK(store->put(name(3), "three"));
  CHECK(store->find(names(5)) == 2);
  CHECK(got(*store, names(5)) == zeros + "|one|");
  CHECK(store->find({}) == std::nullopt);
  CHECK(store->put(name(1), std::string(3'000'000, 'x')));
  CHECK(got(*store, names(2)).size() == 5 + 1 + 3'000'000 + 1);
}

TEST_CASE("where there is no store every call fails at once") {
  const auto store = make_redis_store({.host = "/nowhere/redis.sock", .port = 0, .password = ""});
  const double took = seconds_of([&] {
    for (int i = 0; i < 50; ++i) {
      CHECK(store->find(names(2)) == std::nullopt);
      CHECK(got(*store, names(2)).empty());
      CHECK_FALSE(store->put(name(0), "x"));
    }
  });
  CHECK(took < 5);
}

TEST_CASE("a lost connection does not end the process, and is made again") {
  if (!has_redis()) return;
  const RedisServer server;
  const auto store = make_redis_store(server.address(), quick());
  REQUIRE(store->put(name(0), "zero"));
  for (int i = 0; i < 3; ++i) {
    cli(server, "CLIENT KILL TYPE normal SKIPME yes");
    // The first call after it may fail: it writes into a closed connection.
    for (int j = 0; j < 3; ++j) {
      i == 1 ? static_cast<void>(store->put(name(1), std::string(1'000'000, 'x')))
             : static_cast<void>(store->find(names(2)));
    }
    std::this_thread::sleep_for(milliseconds(500));
    CHECK(store->find(names(1)) == 1);
  }
}

TEST_CASE("a server that hangs costs one time-out, and then nothing for a while that grows") {
  if (!has_redis()) return;
  const RedisServer server;
  const auto store = make_redis_store(server.address(), quick(200));
  REQUIRE(store->put(name(0), "zero"));
  kill(server.pid(), SIGSTOP);
  const double first = seconds_of([&] { CHECK(store->find(names(1)) == std::nullopt); });
  CHECK(first >= 0.19);
  const double then = seconds_of([&] {
    for (int i = 0; i < 100; ++i) CHECK(store->find(names(1)) == std::nullopt);
  });
  CHECK(then < first / 2);
  kill(server.pid(), SIGCONT);
  std::this_thread::sleep_for(milliseconds(500));
  CHECK(store->find(names(1)) == 1);
  CHECK(got(*store, names(1)) == "zero|");
}

TEST_CASE("a password is needed where the server asks for one") {
  if (!has_redis()) return;
  const RedisServer server(0, {"--requirepass", "open sesame"});
  RedisAddress address = server.address();
  CHECK_FALSE(make_redis_store(address)->put(name(0), "x"));
  address.password = "wrong";
  CHECK_FALSE(make_redis_store(address)->put(name(0), "x"));
  address.password = "open sesame";
  CHECK(make_redis_store(address)->put(name(0), "x"));
  address.user = "default";
  CHECK(make_redis_store(address)->put(name(0), "x"));
  address.user = "another";
  CHECK_FALSE(make_redis_store(address)->put(name(0), "x"));
}

TEST_CASE("a full memory evicts, or refuses, and a prefix with holes is shorter") {
  if (!has_redis()) return;
  {
    const RedisServer server(0, {}, "3mb");
    const auto store = make_redis_store(server.address());
    for (int i = 0; i < 100; ++i) CHECK(store->put(name(i), std::string(100'000, 'x')));
    int kept = 0;
    for (int i = 0; i < 100; ++i) kept += store->find(std::vector{name(i)}) == 1;
    CHECK(kept > 0);
    CHECK(kept < 30);
    CHECK(store->find(names(100)).value() < 100);
  }
  const RedisServer full(0, {"--maxmemory-policy", "noeviction"}, "3mb");
  const auto store = make_redis_store(full.address());
  int refused = 0;
  for (int i = 0; i < 100; ++i) refused += !store->put(name(i), std::string(100'000, 'x'));
  CHECK(refused > 60);
}

TEST_CASE("engines over Redis, which is killed, hangs and comes back: equal answers") {
  if (!has_redis()) return;
  auto server = std::make_unique<RedisServer>();
  const auto store = make_redis_store(server->address(), quick());
  const Serve serve{*store};
  CHECK(serve().num_put >= 6 * 3);
  CHECK(serve().num_fetched == 6 * 3);
  SUBCASE("the memory of Redis is emptied while a server runs") {
    std::thread other([&] {
      for (int i = 0; i < 20; ++i) cli(*server, "FLUSHALL");
    });
    for (int i = 0; i < 5; ++i) serve();
    other.join();
  }
  SUBCASE("it hangs") {
    kill(server->pid(), SIGSTOP);
    const SharedMetrics metrics = serve();
    CHECK(metrics.num_fetched == 0);
    CHECK(metrics.num_unreachable == 6);
  }
  SUBCASE("it is killed in the middle") {
    for (int delay = 0; delay < 30; delay += 6) {
      std::thread killer([&] {
        std::this_thread::sleep_for(milliseconds(delay));
        kill(server->pid(), SIGKILL);
      });
      serve();
      killer.join();
    }
    serve();
  }
}

TEST_CASE("a cluster: each node has its share, gone with it until another node has its slots") {
  if (!has_redis()) return;
  RedisCluster cluster;
  const auto store = make_redis_store(cluster.address(), quick());
  for (int i = 0; i < 60; ++i) CHECK(store->put(name(i), "value " + std::to_string(i)));
  CHECK(store->find(names(61)) == 60);
  CHECK(got(*store, names(3)) == "value 0|value 1|value 2|");
  for (const auto& node : cluster.nodes) {
    const int keys = std::atoi(cli(*node, "DBSIZE").c_str());
    CHECK(keys > 5);
    CHECK(keys < 40);
  }
  const Serve serve{*store};
  serve();
  CHECK(serve().num_fetched == 6 * 3);
  cluster.nodes[0].reset();  // the one that is named
  const SharedMetrics without = serve();
  CHECK(without.num_fetched < 6 * 3);
  const auto num_found = [&] {
    int found = 0;
    for (int i = 0; i < 60; ++i) found += store->find(std::vector{name(i)}) == 1;
    return found;
  };
  const int still = num_found();
  CHECK(still > 20);
  CHECK(still < 55);
  cluster.take_over_first();
  for (int tries = 0; tries < 100 && num_found() < 60; ++tries) {
    for (int i = 0; i < 60; ++i) store->put(name(i), "value");
    std::this_thread::sleep_for(milliseconds(100));
  }
  CHECK(num_found() == 60);
}
