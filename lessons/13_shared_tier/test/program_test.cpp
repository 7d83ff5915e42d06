// The program of lesson 13, and what it prints.

#include "tests/support/readable.h"  // before the checks

#include <nlohmann/json.hpp>

#include "redis_cluster.h"

namespace {

nlohmann::json run(const std::string& options) {
  const auto ran = kvtest::shell("$B/lesson13 --device cpu --json - " + options);
  CAPTURE(ran.err);
  REQUIRE(ran.code == 0);
  return nlohmann::json::parse(ran.out);
}

void check_three(const std::string& store) {
  const auto json = run("--store " + store);
  CHECK(json.at("same_bits") == true);
  const auto& servers = json.at("servers");
  REQUIRE(servers.size() == 3);
  CHECK(servers[0].at("found_blocks") == 0);
  CHECK(servers[0].at("put_blocks") > 10);
  for (const size_t i : {1U, 2U}) {
    CHECK(servers[i].at("fetched_blocks") == servers[i].at("queried_blocks"));
    CHECK(servers[i].at("computed_tokens") < servers[0].at("computed_tokens"));
    CHECK(servers[i].at("digest") == servers[0].at("digest"));
  }
}

}  // namespace

TEST_CASE("what the first server has computed, the others load, at equal bits") {
  check_three("memory");
  if (lesson13::RedisServer::is_installed()) check_three("redis");
}

TEST_CASE("the help counts the texts of the program and does not print them") {
  const auto help = kvtest::shell("COLUMNS=120 $B/lesson13 --help");
  CHECK(help.code == 0);
  CHECK(help.out.find("(default [6 of its own])") != std::string::npos);
  CHECK(help.out.find("Once upon a time") == std::string::npos);
}

TEST_CASE("servers of two runs find each other's blocks in Redis") {
  if (!lesson13_test::has_redis()) return;
  const lesson13::RedisServer server;
  const std::string store = "--servers 1 --store unix:" + server.address().host;
  CHECK(run(store).at("servers")[0].at("found_blocks") == 0);
  CHECK(run(store).at("servers")[0].at("found_blocks") > 10);
  CHECK(run(store + " --window 8").at("servers")[0].at("found_blocks") == 0);
  CHECK(run(store + " --secret s").at("servers")[0].at("damaged_blocks") > 0);
  const auto checked = run(store + " --secret s --check-every 1").at("servers")[0];
  CHECK(checked.at("checked_blocks") > 10);
  CHECK(checked.at("poisoned_blocks") == 0);
}

TEST_CASE("a store that is not there costs nothing, and a wrong address is refused") {
  const auto json = run("--store unix:/nowhere/redis.sock");
  CHECK(json.at("same_bits") == true);
  for (const auto& server : json.at("servers")) CHECK(server.at("unreachable") == 6);
  kvtest::check_refused(kvtest::shell("$B/lesson13 --device cpu --store http://here"),
                        "wanted redis://host:port or unix:/path");
}
