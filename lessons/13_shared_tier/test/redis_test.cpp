// Tests of Redis as the store, and of all that can happen to it. They start servers of their own;
// where there is no redis-server, they say so and pass.

#include <doctest/doctest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "cli/redis_server.h"
#include "common/error.h"
#include "servers.h"
#include "tests/support/shell.h"

using namespace lesson13_test;
using namespace lesson13;
using std::chrono::milliseconds;

namespace {

/// Whether these tests can run.
bool has_redis() {
  if (RedisServer::is_installed()) return true;
  MESSAGE("skipped: redis-server is not installed");
  return false;
}

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

std::vector<kv::Request> texts() {
  std::vector<kv::Request> requests;
  for (int i = 0; i < 6; ++i) requests.push_back(kvtest::request_of(50 + i, 6, i));
  return requests;
}

/// redis-cli on the server's socket.
std::string cli(const RedisServer& server, const std::string& command) {
  return kvtest::shell("IFS=' '; redis-cli -s " + server.address().host + " " + command).out;
}

}  // namespace

TEST_CASE("an address is redis://, with a password and a port or without, or unix:") {
  CHECK(parse_redis_address("redis://here").port == 6379);
  const RedisAddress all = parse_redis_address("redis://:pass:word@10.0.0.1:7000");
  CHECK(all.host == "10.0.0.1");
  CHECK(all.port == 7000);
  CHECK(all.password == "pass:word");
  CHECK(parse_redis_address("unix:/run/a socket").host == "/run/a socket");
  CHECK(parse_redis_address("unix:/run/a socket").port == 0);
  for (const char* bad : {"", "here:6379", "redis://", "redis://:6379", "redis://here:", "unix:x",
                          "redis://here:99999", "redis://here:6x", "http://here"}) {
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
  kv::Model& model = kvtest::shipped_model();
  const auto requests = texts();
  const auto wanted = lesson08_test::flat(model, requests);
  auto server = std::make_unique<RedisServer>();
  const auto store = make_redis_store(server->address(), quick());
  const auto serve = [&] {
    SharedTierEngine engine(model, {.num_blocks = 40}, *store, {}, always());
    kvtest::check_equal(engine.generate(requests), wanted);
    return engine.server()->tier().metrics();
  };
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

namespace {

/// Three nodes on loopback, with all slots.
struct Cluster {
  Cluster() {
    std::string said;
    for (int attempt = 0; attempt < 5 && nodes.empty(); ++attempt) {
      port = 10000 + (getpid() * 7 + attempt * 31) % 9000;  // and 10,000 above, between nodes
      try {
        std::string all;
        for (int i = 0; i < 3; ++i) {
          nodes.push_back(std::make_unique<RedisServer>(
              port + i, std::vector<std::string>{"--cluster-enabled", "yes", "--bind", "127.0.0.1",
                                                 "--cluster-require-full-coverage", "no"}));
          all += " 127.0.0.1:" + std::to_string(port + i);
        }
        const auto made =
            kvtest::shell("IFS=' '; redis-cli --cluster create" + all + " --cluster-yes");
        if (made.code == 0 && agrees()) return;
        said = made.out + made.err;
      } catch (const kv::UserError& error) {  // a port is in use
        said = error.what();
      }
      nodes.clear();
    }
    FAIL("no cluster: ", said);
  }
  /// Waits until each node knows that the others are there.
  bool agrees() const {
    for (const auto& node : nodes) {
      int tries = 300;
      while (cli(*node, "CLUSTER INFO").find("cluster_state:ok") == std::string::npos) {
        if (--tries == 0) return false;
        std::this_thread::sleep_for(milliseconds(100));
      }
    }
    return true;
  }
  RedisAddress address() const { return {.host = "127.0.0.1", .port = port, .password = ""}; }
  std::vector<std::unique_ptr<RedisServer>> nodes;
  int port = 0;
};

}  // namespace

TEST_CASE("a cluster of three nodes: each has its share, and one that dies takes its share along") {
  if (!has_redis()) return;
  Cluster cluster;
  const auto store = make_redis_store(cluster.address(), quick());
  for (int i = 0; i < 60; ++i) CHECK(store->put(name(i), "value " + std::to_string(i)));
  CHECK(store->find(names(61)) == 60);
  CHECK(got(*store, names(3)) == "value 0|value 1|value 2|");
  for (const auto& node : cluster.nodes) {
    const int keys = std::atoi(cli(*node, "DBSIZE").c_str());
    CHECK(keys > 5);
    CHECK(keys < 40);
  }
  kv::Model& model = kvtest::shipped_model();
  const auto requests = texts();
  const auto wanted = lesson08_test::flat(model, requests);
  const auto serve = [&] {
    SharedTierEngine engine(model, {.num_blocks = 40}, *store, {}, always());
    kvtest::check_equal(engine.generate(requests), wanted);
    return engine.server()->tier().metrics();
  };
  serve();
  CHECK(serve().num_fetched == 6 * 3);
  cluster.nodes[1].reset();
  const SharedMetrics without = serve();
  CHECK(without.num_fetched < 6 * 3);
  int still = 0;
  for (int i = 0; i < 60; ++i) still += store->find(std::vector{name(i)}) == 1;
  CHECK(still > 20);
  CHECK(still < 55);
}
