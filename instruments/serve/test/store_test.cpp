// Servers over one store: the bytes of one server, and less to compute.
#define KV_SERVE_TESTS_SERVER
#include <atomic>
#include <csignal>
#include <functional>

#include "common/defer.h"
#include "instruments/serve/store.h"
#include "instruments/serve/test/support.h"
#include "lessons/13_shared_tier/cli/memory_store.h"
#include "lessons/13_shared_tier/test/redis_cluster.h"
#include "qwen3/fingerprint.h"

using namespace serve_test;
using lesson13_test::cli;
using lesson13_test::has_redis;

namespace {

using Store = std::shared_ptr<lesson13::BlockStore>;

serve::ServerOptions over(const Store& store) {
  serve::ServerOptions options = serve_test::options();
  options.lesson.number = 13;
  options.lesson.store = store;
  options.lesson.block_size = 8;
  options.lesson.tier.policy = lesson11::LoadPolicy::kAlways;
  options.lesson.tier.host.policy = lesson11::LoadPolicy::kAlways;
  return options;
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

serve::ServerOptions prefill_over(const Store& store) {
  serve::ServerOptions options = over(store);
  options.prefill = true;
  return options;
}

std::vector<lesson13::BlockName> names_of(const std::vector<int32_t>& tokens) {
  std::vector<lesson13::BlockName> names;
  const uint64_t fingerprint = kv::fingerprint_of(kvtest::shipped_model());
  lesson13::extend_names(names, lesson13::root_name(fingerprint), tokens, 8);
  return names;
}

/// A store that keeps nothing, and whose puts wait as long as the test says.
class SlowStore final : public lesson13::BlockStore {
 public:
  explicit SlowStore(bool waits) : waits_(waits) {}
  std::optional<size_t> find(std::span<const lesson13::BlockName>) override { return 0; }
  void get(std::span<const lesson13::BlockName>, const OnValue&) override {}
  bool put(const lesson13::BlockName&, std::string_view) override {
    waits_.wait(true);
    return false;
  }
  void answer() {
    waits_ = false;
    waits_.notify_all();
  }

 private:
  std::atomic<bool> waits_;
};

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
  const json request{{"prompt", std::vector<int>(50, 300)},
                     {"max_tokens", 1},
                     {"seed", 1},
                     {"return_token_ids", true}};
  std::string wanted;
  {
    const Running first(over(store));
    wanted = answer_of(first.complete(request));
    // Blocks of the last pass are put by a server that has nothing else to do.
    CHECK(eventually([&] { return blocks(first, "put") == 6; }));
  }
  Running second(over(store));
  Client reader(second.port());
  reader.send(get("/kv_events"));
  REQUIRE(reader.wait_for("events of the KV cache"));
  const Client::Reply reply = second.complete(request);
  CHECK(answer_of(reply) == wanted);
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
  CHECK(eventually([&] { return second.metric("course:equal_bits_checked_total") == 18; }));
  CHECK(second.becomes_idle());
  CHECK(blocks(second, "fetched") > 0);
  CHECK(second.metric("course:equal_bits_failed_total") == 0);
}

TEST_CASE("store: servers with and without the secret, and one that never loads, share nothing") {
  const Store store = serve::open_store("memory");
  const std::vector<json> requests = mixed(6);
  const Answers wanted = one_by_one(Running(), requests);
  { CHECK(one_by_one(Running(over(store)), requests) == wanted); }
  serve::ServerOptions options = over(store);
  SUBCASE("a secret") {
    options.lesson.tier.shared.secret = "of the servers";
    const Running second(options);
    CHECK(one_by_one(second, requests) == wanted);
    CHECK(blocks(second, "damaged") > 0);
    CHECK(blocks(second, "fetched") == 0);
  }
  SUBCASE("--load never") {
    options.lesson.tier.policy = serve::load_policy_of("never");
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

TEST_CASE("store: the address of one node is enough for a cluster, and it may die") {
  if (!has_redis()) return;
  lesson13_test::RedisCluster redis;
  const std::string name = "redis://127.0.0.1:" + std::to_string(redis.port);
  check_two_servers(serve::open_store(name));
  for (const auto& node : redis.nodes) CHECK(std::stoi(cli(*node, "DBSIZE")) > 0);
  const std::vector<json> requests = mixed(24);
  const Answers wanted = one_by_one(Running(), requests);
  const Running third(over(serve::open_store(name)));
  const std::vector<json> half(requests.begin(), requests.begin() + 12);
  CHECK(together(third, half) == Answers(wanted.begin(), wanted.begin() + 12));
  CHECK(blocks(third, "fetched") > 0);
  CHECK(together(third, requests, [&] { redis.nodes[0].reset(); }) == wanted);
  CHECK(together(third, requests) == wanted);
  CHECK(blocks(third, "damaged") == 0);
  CHECK(third.becomes_idle());
}

TEST_CASE("prefill: the answer has one token, and leaves when the store has the prompt's blocks") {
  const Store store = serve::open_store("memory");
  const Running prefill(prefill_over(store));
  const std::vector<int32_t> prompt = tokens_from(300, 100);
  json request{{"prompt", prompt}, {"max_tokens", 30}, {"min_tokens", 5}, {"ignore_eos", true}};
  const auto is_there = [&] { return store->find(names_of(prompt)) == 12; };
  SUBCASE("a completion") {
    const json answer = prefill.complete(request).parsed();
    CHECK(is_there());
    CHECK(answer["usage"]["completion_tokens"] == 1);
    const json transfer = answer["kv_transfer_params"];
    CHECK(transfer["do_remote_prefill"] == true);
    CHECK(transfer["do_remote_decode"] == false);
    CHECK(transfer["remote_engine_id"].get<std::string>().size() == 32);
  }
  SUBCASE("several samples, in a stream") {
    request["n"] = 2, request["stream"] = true;
    CHECK(events_of(prefill.complete(request).body).size() >= 2);
    CHECK(is_there());
  }
  SUBCASE("any server that is asked for it") {
    const Running other(over(store));
    CHECK(other.complete(request).parsed()["usage"]["completion_tokens"] == 30);
    request["kv_transfer_params"] = {{"do_remote_decode", true}, {"remote_engine_id", nullptr}};
    const json answer = other.complete(request).parsed();
    CHECK(answer["usage"]["completion_tokens"] == 1);
    CHECK(answer["kv_transfer_params"]["do_remote_prefill"] == true);
  }
  SUBCASE("a chat") {
    const json chat{{"messages", {{{"role", "user"}, {"content", "Once upon a time"}}}}};
    const json answer = prefill.ask(post("/v1/chat/completions", chat.dump())).parsed();
    CHECK(answer["usage"]["completion_tokens"] == 1);
    CHECK(answer.contains("kv_transfer_params"));
  }
}

TEST_CASE("prefill: an answer waits for a slow store, and no other request does") {
  const auto store = std::make_shared<SlowStore>(true);
  serve::ServerOptions options = over(store);
  options.lesson.tier.policy = lesson11::LoadPolicy::kNever;  // a lookup waits for the store, too
  Running server(options);
  const kv::Defer answers{[&] { store->answer(); }};  // before the server waits for it
  json request{{"prompt", tokens_from(300, 40)}, {"max_tokens", 4}};
  const Client::Reply first = server.complete(request);
  CHECK(first.status == 200);
  request["kv_transfer_params"] = {{"do_remote_decode", true}};
  Client held(server.port()), gone(server.port());
  for (Client* one : {&held, &gone}) one->send(post("/v1/completions", request.dump()));
  CHECK(server.complete({{"prompt", tokens_from(500, 40)}, {"max_tokens", 4}}).status == 200);
  CHECK(!held.wait_for("HTTP", 200ms));
  gone.close();
  SUBCASE("until it has refused") {
    store->answer();
    CHECK(held.reply().parsed().contains("kv_transfer_params"));
  }
  SUBCASE("also when the server ends") {
    server.server().drain();
    CHECK(!held.wait_for("HTTP", 200ms));
    store->answer();
    CHECK(held.reply().status == 200);
  }
}

TEST_CASE("prefill and decode: the bytes of one server, for every split of a prompt") {
  const auto store = std::make_shared<lesson13::MemoryStore>();
  const Running alone;
  const auto request = [](const std::vector<int32_t>& prompt, int seed) {
    return json{{"prompt", prompt},   {"max_tokens", 6},         {"seed", seed},
                {"n", 1 + seed % 2},  {"logprobs", 1},           {"temperature", seed % 3 * 0.5},
                {"ignore_eos", true}, {"return_token_ids", true}};
  };
  const Running prefill(prefill_over(store)), decode(over(store));
  for (const int length : {1, 7, 8, 9, 15, 16, 17, 24, 33}) {
    const auto prompt = tokens_from(300 + 40 * length, length);
    for (const int split : {1, 7, 8, 9, 16, 17, 33}) {
      if (split > length) break;
      CAPTURE(length);
      CAPTURE(split);
      // Each split has a prompt of its own, so that no server has it before.
      std::vector<int32_t> own = prompt;
      own.front() = 2000 + split;
      const json whole = request(own, length + split);
      const json part = request({own.begin(), own.begin() + split}, split);
      const double fetched = blocks(decode, "fetched");
      CHECK(prefill.complete(part).status == 200);
      CHECK(answer_of(decode.complete(whole)) == answer_of(alone.complete(whole)));
      CHECK(blocks(decode, "fetched") - fetched == std::min(split / 8, (length - 1) / 8));
    }
  }
}

TEST_CASE("prefill and decode: with half of the blocks gone, or before they are there") {
  const auto store = std::make_shared<lesson13::MemoryStore>();
  const std::vector<json> requests = mixed(12);
  const Answers wanted = one_by_one(Running(), requests);
  {
    const Running prefill(prefill_over(store));
    for (const json& request : requests) CHECK(prefill.complete(request).status == 200);
  }
  SUBCASE("each second one") {
    std::vector<lesson13::BlockName> names;
    for (const auto& [name, entry] : store->values()) names.push_back(name);
    for (size_t i = 0; i < names.size(); i += 2) store->erase(names[i]);
  }
  SUBCASE("the later ones") {
    const auto first = std::make_shared<lesson13::MemoryStore>(200'000);
    const Running prefill(prefill_over(first)), decode(over(first));
    for (size_t i = 0; i < requests.size(); ++i) {
      CHECK(prefill.complete(requests[i]).status == 200);
      CHECK(answer_of(decode.complete(requests[i])) == wanted[i]);
    }
  }
  SUBCASE("all") {
    while (!store->values().empty()) store->erase(store->values().begin()->first);
  }
  const Running decode(over(store));
  CHECK(together(decode, requests) == wanted);
}
