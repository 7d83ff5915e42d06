// Prefill and decode on servers of their own, over one store.
#include "instruments/route/test/routing.h"
#include "lessons/13_shared_tier/test/redis_cluster.h"
#include "tests/support/shell.h"

using namespace route_test;
using lesson13_test::has_redis;

namespace {

std::vector<std::string> over(const lesson13::RedisServer& redis, const std::string& role) {
  return {"--store", "unix:" + redis.address().host, "--role", role};
}

Routing router(std::vector<std::string> prefill, std::vector<std::string> decode) {
  route::RouterOptions options;
  options.prefill = std::move(prefill);
  return Routing(std::move(decode), options);
}

}  // namespace

TEST_CASE("route: prefill and decode apart give one server's answers") {
  if (!has_redis()) return;
  const std::vector<json> requests = mixed(36);
  const Answers wanted = one_by_one(Running(), requests);
  const lesson13::RedisServer redis;
  Program p(0, over(redis, "prefill"));
  const Program d(0, over(redis, "decode")), e(0, over(redis, "decode"));
  const Routing routing = router({url_of(p.port())}, {url_of(d.port()), url_of(e.port())});
  REQUIRE(routing.becomes_exact(3));
  const auto check = [&](const std::function<void()>& meanwhile = [] {}) {
    CHECK(together(routing, requests, meanwhile) == wanted);
  };
  const auto loaded = [&] {
    return d.metric("vllm:external_prefix_cache_hits_total") +
           e.metric("vllm:external_prefix_cache_hits_total");
  };
  SUBCASE("in any order") {
    check();
    CHECK(routing.metric("prefills_total") > 4);
    CHECK(routing.metric("prefills_failed_total") == 0);
    CHECK(loaded() > 0);
    CHECK(p.metric("vllm:generation_tokens_total") == routing.metric("prefills_total"));
    const double prefills = routing.metric("prefills_total");
    CHECK(routing.complete({{"prompt", "Once upon"}, {"max_tokens", 3}}).status == 200);
    CHECK(routing.metric("prefills_total") == prefills);  // shorter than a block
    check();                                              // from the caches of both
  }
  SUBCASE("a stream, and a chat") {
    json request = requests[1];
    request["stream"] = true;
    const Running server;
    CHECK(answer_of(routing.complete(request)) == answer_of(server.complete(request)));
    const json chat{{"messages", {{{"role", "user"}, {"content", requests[2]["prompt"]}}}},
                    {"max_completion_tokens", 7},
                    {"seed", 3}};
    const std::string asked = post("/v1/chat/completions", chat.dump());
    CHECK(answer_of(routing.ask(asked)) == answer_of(server.ask(asked)));
    CHECK(routing.metric("prefills_total") == 2);
    CHECK(loaded() > 0);
  }
  SUBCASE("the decode servers are asked early, at the same moment as the prefill server") {
    Answers early;
    check([&] { early = together(d, requests); });
    CHECK(early == wanted);
  }
  SUBCASE("the prefill server is killed in the middle") {
    check([&] {
      CHECK(eventually([&] { return routing.metric("prefills_total") >= 2; }));
      p.kill();
    });
    CHECK(eventually([&] { return routing.metric("up") == 2; }));
    CHECK(routing.metric("failed_total") == 0);
    check();
  }
  SUBCASE("half of the blocks are deleted in the middle") {
    const std::string cli = "redis-cli -s " + redis.address().host;
    check([&] {
      CHECK(eventually([&] { return routing.metric("prefills_total") >= 4; }));
      CHECK(eventually([&] {  // prints how many it has deleted
        const auto done = kvtest::shell("IFS=' '; " + cli + " keys '*' | sed -n 'n;p' | xargs -r " +
                                        cli + " del");
        return done.code == 0 && !done.out.empty();
      }));
    });
  }
  SUBCASE("the store is killed in the middle") {
    check([&] {
      CHECK(eventually([&] { return routing.metric("prefills_total") >= 4; }));
      ::kill(redis.pid(), SIGKILL);
    });
  }
}

TEST_CASE("route: what a prefill server gets, and that a request goes on whatever it answers") {
  std::string answer = TinyServer::with_length(200, "{}");
  bool ends = false;
  std::vector<std::string> asked;
  std::atomic<int> health = 200;
  const TinyServer prefill = fake_server(
      [&](const TinyServer::Request& request) -> TinyServer::Reply {
        asked.push_back(request.body);
        return {answer, ends};
      },
      &health);
  std::string seen;
  const TinyServer decode = fake_server([&](const TinyServer::Request& request) {
    seen = request.body;
    return TinyServer::Reply{TinyServer::with_length(200, R"({"whole":1})")};
  });
  const Routing routing = router({prefill.url()}, {decode.url()});
  REQUIRE(routing.becomes_exact(2));
  const json request{{"prompt", std::vector<int>(40, 300)},
                     {"max_tokens", 9},
                     {"n", 3},
                     {"seed", 5},
                     {"min_tokens", 2},
                     {"stream_options", nullptr}};
  bool fails = true;
  SUBCASE("it answers") { fails = false; }
  SUBCASE("it has no room") { answer = TinyServer::with_length(503, "{}"); }
  SUBCASE("it refuses") { answer = TinyServer::with_length(400, "{}"); }
  SUBCASE("it breaks off") { answer = "", ends = true; }
  SUBCASE("it hangs, and its health says so") { answer = "", health = 503; }
  const Client::Reply reply = routing.complete(request);
  CHECK(reply.status == 200);
  CHECK(reply.body == R"({"whole":1})");
  CHECK(seen == request.dump());
  CHECK(routing.metric("failed_total") == 0);
  if (!asked.empty()) {  // one that is not well is asked only if that is not known yet
    CHECK(asked.size() == 1);
    CHECK(json::parse(asked[0]) ==
          json{{"prompt", request["prompt"]},
               {"max_tokens", 1},
               {"seed", 5},
               {"stream", false},
               {"kv_transfer_params", {{"do_remote_decode", true}, {"do_remote_prefill", false}}}});
    CHECK(routing.metric("prefills_total") == 1);
    CHECK(routing.metric("prefills_failed_total") == fails);
  }
}

TEST_CASE("route: without decode servers nothing is computed") {
  const TinyServer prefill = fake_server(always(TinyServer::with_length(200, "{}")));
  const Routing routing = router({prefill.url()}, {"http://127.0.0.1:1"});
  CHECK(eventually([&] { return routing.metric("up") == 1; }));
  CHECK(routing.ask(get("/health")).status == 503);
  CHECK(routing.complete({{"prompt", "Once upon a time"}}).status == 503);
}
