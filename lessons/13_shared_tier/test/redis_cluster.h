#pragma once

// Redis servers of a test. Where there is no redis-server, a test says so and passes.

#include <unistd.h>
#include "tests/support/readable.h"  // before the checks

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/error.h"
#include "lessons/13_shared_tier/cli/redis_server.h"
#include "tests/support/shell.h"

namespace lesson13_test {

using lesson13::RedisServer;

inline bool has_redis() {
  if (RedisServer::is_installed()) return true;
  MESSAGE("skipped: redis-server is not installed");
  return false;
}

/// redis-cli on the server's socket.
inline std::string cli(const RedisServer& server, const std::string& command) {
  return kvtest::shell("IFS=' '; redis-cli -s " + server.address().host + " " + command).out;
}

/// Three nodes on loopback, with all slots.
struct RedisCluster {
  RedisCluster() {
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
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
    }
    return true;
  }
  /// The first node is gone for good: the second one gets its slots, and none of its values.
  void take_over_first() const {
    const std::string others = cli(*nodes[1], "CLUSTER NODES");
    const size_t at = others.rfind('\n', others.find(":" + std::to_string(port) + "@"));
    const std::string id = others.substr(at + 1, 40);
    for (size_t node = 1; node < 3; ++node)
      CHECK(cli(*nodes[node], "CLUSTER FORGET " + id) == "OK\n");
    CHECK(cli(*nodes[1], "CLUSTER ADDSLOTS $(seq -s ' ' 0 5460)") == "OK\n");
  }
  lesson13::RedisAddress address() const {
    return {.host = "127.0.0.1", .port = port, .password = ""};
  }
  std::vector<std::unique_ptr<RedisServer>> nodes;
  int port = 0;  // of the first
};

}  // namespace lesson13_test
