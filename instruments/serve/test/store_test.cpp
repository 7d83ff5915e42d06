// Servers over one store: the bytes of one server, and less to compute.
#define KV_SERVE_TESTS_SERVER
#include <csignal>

#include "instruments/serve/store.h"
#include "instruments/serve/test/support.h"
#include "lessons/13_shared_tier/cli/redis_server.h"

using namespace serve_test;

namespace {

using Store = std::shared_ptr<lesson13::BlockStore>;

/// Requests of many kinds; their prompts begin in one of three ways.
std::vector<json> mixed(int count) {
  std::vector<json> requests;
  for (int i = 0; i < count; ++i) {
    std::string text;
    for (int word = 0; word < 30; ++word) text += " word " + std::to_string(i % 3 * 100 + word);
    for (int word = 0; word <= i % 7; ++word) text += " friend " + std::to_string(i * 7 + word);
    requests.push_back({{"prompt", text},
                        {"max_tokens", 4 + i % 13},
                        {"seed", i},
                        {"temperature", i % 3 == 0 ? 0.0 : 0.9},
                        {"return_token_ids", true}});
    if (i % 4 == 1) requests.back()["n"] = 3;
    if (i % 5 == 2) requests.back()["logprobs"] = 2;
    if (i % 6 == 4) requests.back()["cache_salt"] = "tenant";
  }
  return requests;
}

serve::ServerOptions over(const Store& store) {
  serve::ServerOptions options = serve_test::options();
  options.engine.lesson = 13;
  options.engine.store = store;
  options.engine.block_size = 8;
  options.engine.tier.policy = lesson13::LoadPolicy::kAlways;
  options.engine.tier.host.policy = lesson13::LoadPolicy::kAlways;
  return options;
}

using Answers = std::vector<std::string>;

std::string choices_of(const Client::Reply& reply) {
  INFO(reply.body);
  REQUIRE(reply.status == 200);
  return reply.parsed()["choices"].dump();
}
Answers one_by_one(const Running& running, const std::vector<json>& requests) {
  Answers answers;
  for (const json& request : requests) answers.push_back(choices_of(running.complete(request)));
  return answers;
}
Answers together(const Running& running, const std::vector<json>& requests) {
  std::vector<std::unique_ptr<Client>> clients;
  for (const json& request : requests) {
    clients.push_back(std::make_unique<Client>(running.port()));
    clients.back()->send(post("/v1/completions", request.dump()));
  }
  Answers answers;
  for (const auto& client : clients) answers.push_back(choices_of(client->reply()));
  return answers;
}

double rows_of(const Running& running) { return running.metric("vllm:iteration_tokens_total_sum"); }
double blocks(const Running& running, const std::string& event) {
  const std::string text = running.ask(get("/metrics")).body;
  const std::string line = "event=\"" + event + "\"} ";
  REQUIRE(text.find(line) != text.npos);
  return std::stod(text.substr(text.find(line) + line.size()));
}

/// A server fills the store and ends; another one loads from it.
void check_two_servers(const Store& store) {
  const std::vector<json> requests = mixed(24);
  const Answers wanted = one_by_one(Running(), requests);
  double rows = 0, put = 0;
  {
    const Running first(over(store));
    CHECK(together(first, requests) == wanted);
    CHECK(eventually([&] { return blocks(first, "put") > 0; }));
    CHECK(blocks(first, "fetched") == 0);
    rows = rows_of(first);
    put = blocks(first, "put");
  }
  const Running second(over(store));
  CHECK(one_by_one(second, requests) == wanted);
  CHECK(rows_of(second) < 0.7 * rows);
  CHECK(blocks(second, "fetched") > 20);
  CHECK(blocks(second, "put") < put);
  CHECK(blocks(second, "damaged") == 0);
}

bool has_redis() {
  if (lesson13::RedisServer::is_installed()) return true;
  MESSAGE("skipped: redis-server is not installed");
  return false;
}

}  // namespace

TEST_CASE("store: two servers over one store give the bytes of one, and the second computes less") {
  SUBCASE("in this process") { check_two_servers(serve::open_store("memory")); }
  SUBCASE("Redis") {
    if (!has_redis()) return;
    const lesson13::RedisServer redis;
    check_two_servers(serve::open_store("unix:" + redis.address().host));
  }
}

TEST_CASE("store: what came from it is counted, and shows in the events of the cache") {
  const Store store = serve::open_store("memory");
  const json request{
      {"prompt", std::vector<int>(50, 300)}, {"max_tokens", 1}, {"return_token_ids", true}};
  std::string wanted;
  {
    const Running first(over(store));
    wanted = choices_of(first.complete(request));
    // Blocks of the last pass are put by a server that has nothing else to do.
    CHECK(eventually([&] { return blocks(first, "put") == 6; }));
  }
  Running second(over(store));
  Client reader(second.port());
  reader.send(get("/kv_events"));
  REQUIRE(reader.wait_for("events of the KV cache"));
  const Client::Reply reply = second.complete(request);
  CHECK(choices_of(reply) == wanted);
  const json usage = reply.parsed()["usage"];
  CHECK(usage["prompt_tokens_details"]["cached_tokens"] == 48);
  CHECK(second.metric("vllm:external_prefix_cache_queries_total") == 50);
  CHECK(second.metric("vllm:external_prefix_cache_hits_total") == 48);
  CHECK(second.metric("vllm:prefix_cache_hits_total") == 0);
  CHECK(rows_of(second) == 2);
  CHECK(blocks(second, "fetched") == 6);
  CHECK(reader.wait_for("BlockStored"));
  CHECK(second.ask(get("/kv_snapshot")).parsed()["blocks"].size() == 6);
  second.complete(request);
  CHECK(second.metric("vllm:prefix_cache_hits_total") == 48);  // on the device by now
  CHECK(second.becomes_idle());
}

TEST_CASE("store: answers are computed a second time, without it, and are equal") {
  const Store store = serve::open_store("memory");
  const std::vector<json> requests = mixed(12);
  { together(Running(over(store)), requests); }
  serve::ServerOptions options = over(store);
  options.limits.check_equal_bits = 1;
  const Running second(options);
  together(second, requests);
  CHECK(second.becomes_idle());
  CHECK(blocks(second, "fetched") > 0);
  CHECK(second.metric("course:equal_bits_checked_total") == 18);
  CHECK(second.metric("course:equal_bits_failed_total") == 0);
}

TEST_CASE("store: servers with and without the secret, and one that never loads, share nothing") {
  const Store store = serve::open_store("memory");
  const std::vector<json> requests = mixed(6);
  const Answers wanted = one_by_one(Running(), requests);
  { CHECK(one_by_one(Running(over(store)), requests) == wanted); }
  serve::ServerOptions options = over(store);
  SUBCASE("a secret") {
    options.engine.tier.shared.secret = "of the servers";
    const Running second(options);
    CHECK(one_by_one(second, requests) == wanted);
    CHECK(blocks(second, "damaged") > 0);
    CHECK(blocks(second, "fetched") == 0);
  }
  SUBCASE("--load never") {
    options.engine.tier.policy = serve::load_policy_of("never");
    const Running second(options);
    CHECK(one_by_one(second, requests) == wanted);
    CHECK(blocks(second, "queried") == 0);
  }
}

TEST_CASE("store: it is killed in the middle, hangs, or was never there, and the bytes are equal") {
  const std::vector<json> requests = mixed(24);
  const Answers wanted = one_by_one(Running(), requests);
  SUBCASE("never there") {
    const Running alone(over(serve::open_store("redis://127.0.0.1:1")));
    CHECK(together(alone, requests) == wanted);
    CHECK(eventually([&] { return blocks(alone, "not_put") > 0; }));
    CHECK(blocks(alone, "put") == 0);
    CHECK(alone.becomes_idle());
  }
  SUBCASE("killed, and then stopped") {
    if (!has_redis()) return;
    const lesson13::RedisServer redis;
    const Store store = serve::open_store("unix:" + redis.address().host);
    { CHECK(together(Running(over(store)), requests) == wanted); }
    const Running second(over(store));
    const std::vector<json> half(requests.begin(), requests.begin() + 12);
    CHECK(together(second, half) == Answers(wanted.begin(), wanted.begin() + 12));
    ::kill(redis.pid(), SIGSTOP);
    CHECK(together(second, requests) == wanted);
    ::kill(redis.pid(), SIGKILL);
    CHECK(together(second, requests) == wanted);
    CHECK(second.becomes_idle());
  }
}
