// The router in front of servers that answer.
#include "instruments/route/test/routing.h"

using namespace route_test;

TEST_CASE("route: three servers give one server's answers, and find what it would find") {
  const std::vector<json> requests = mixed(48);
  const Answers wanted = one_by_one(Running(), requests);
  const Program a, b, c;
  const Routing routing({url_of(a.port()), url_of(b.port()), url_of(c.port())});
  REQUIRE(routing.becomes_exact(3));
  CHECK(together(routing, requests) == wanted);
  CHECK(together(routing, requests) == wanted);  // from their caches
  for (const Program* one : {&a, &b, &c}) {
    CHECK(one->metric("vllm:request_success_total") > 0);
    CHECK(one->becomes_idle());
  }
  // The router knew what they would find: of the second time at least 9 of 10 full blocks.
  CHECK(routing.metric("blocks_found_total") > 0.4 * routing.metric("blocks_asked_total"));
  CHECK(routing.metric("requests_total") == 96);
  for (const char* none : {"running", "waiting_tokens", "failed_total"}) {
    CHECK(routing.metric(none) == 0);
  }
  // Its mirrors have the blocks that the servers say they have.
  const auto blocks = [](const Program& one) {
    return static_cast<double>(one.ask(get("/kv_snapshot")).parsed()["blocks"].size());
  };
  CHECK(eventually(
      [&] { return routing.metric("cached_blocks") == blocks(a) + blocks(b) + blocks(c); }));
}

TEST_CASE("route: a conversation stays where its cache is") {
  const Program a, b;
  const Routing routing({url_of(a.port()), url_of(b.port())});
  REQUIRE(routing.becomes_exact(2));
  std::string text;
  for (int turn = 0; turn < 6; ++turn) {
    for (int word = 0; word < 20; ++word) text += " word " + std::to_string(turn * 20 + word);
    CHECK(routing.complete({{"prompt", text}, {"max_tokens", 2}}).status == 200);
    std::this_thread::sleep_for(50ms);
  }
  const double on_a = a.metric("vllm:request_success_total"),
               on_b = b.metric("vllm:request_success_total");
  CHECK(on_a + on_b == 6);
  CHECK(on_a * on_b == 0);
}

TEST_CASE("route: streams are passed on as they come, and a client that goes ends its request") {
  const Program a, b;
  const Routing routing({url_of(a.port()), url_of(b.port())});
  REQUIRE(routing.becomes_exact(2));
  const json request{
      {"prompt", "Once upon a time"}, {"max_tokens", 20}, {"seed", 1}, {"stream", true}};
  const Client::Reply reply = routing.complete(request);
  CHECK(reply.head.find("text/event-stream") != reply.head.npos);
  CHECK(answer_of(reply) == answer_of(a.complete(request)));
  Client client(routing.port());
  client.send(
      post("/v1/completions",
           json{{"prompt", "Once"}, {"max_tokens", 1500}, {"ignore_eos", true}, {"stream", true}}
               .dump()));
  REQUIRE(client.wait_for("data: "));
  CHECK(routing.metric("running") == 1);
  client.close();
  CHECK(eventually([&] { return routing.metric("running") == 0; }));
  const auto aborted = [](const Program& one) {
    return one.ask(get("/metrics")).body.find("finished_reason=\"abort\"} 1") != std::string::npos;
  };
  CHECK(eventually([&] { return aborted(a) != aborted(b); }));
}

TEST_CASE("route: other routes, errors, and no server") {
  const Running a;
  {
    const Routing routing({url_of(a.port())});
    CHECK(eventually([&] { return routing.ask(get("/health")).status == 200; }));
    CHECK(routing.ask(get("/v1/models")).parsed()["data"][0]["id"] == "tiny");
    CHECK(routing.ask(post("/tokenize", R"({"prompt":"Once"})")).parsed()["count"] == 1);
    CHECK(routing.ask(get("/nothing")).status == 404);
    CHECK(routing.ask(get("/v1/completions")).status == 405);
    Client client(routing.port());
    client.send(get("/v1/models", "", "HEAD"));
    CHECK(client.reply(false).status == 200);
    CHECK(routing.complete({{"prompt", ""}}).status == 400);
    CHECK(routing.ask(post("/v1/completions", "no JSON")).status == 400);
    CHECK(routing.ask(post("/v1/completions", "{}", "Content-Length: 2\r\n")).status == 400);
    const auto other = routing.complete({{"prompt", "Once"}, {"model", "other"}});
    CHECK(other.status == 404);
    CHECK(other.parsed()["error"]["type"] == "NotFoundError");
  }
  const Routing routing({"http://127.0.0.1:1"});
  CHECK(routing.ask(get("/health")).status == 503);
  CHECK(routing.complete({{"prompt", "Once"}}).status == 503);
  CHECK(routing.metric("up") == 0);
}

TEST_CASE("route: a server's key is passed on, and the router has its own") {
  serve::ServerOptions with_key = options();
  with_key.api_key = "secret";
  const Running a(with_key);
  const Routing stranger({url_of(a.port())});
  route::RouterOptions own;
  own.api_key = "secret";
  const Routing routing({url_of(a.port())}, own);
  REQUIRE(routing.becomes_exact(1));
  CHECK(routing.complete({{"prompt", "Once"}}).status == 401);
  const std::string key = "Authorization: Bearer secret\r\n";
  CHECK(routing.ask(post("/v1/completions", R"({"prompt":"Once"})", key)).status == 200);
  CHECK(stranger.metric("up") == 0);
}

TEST_CASE("route: a signal to the router lets its answers end") {
  const Running a;
  Routing routing({url_of(a.port())});
  REQUIRE(routing.becomes_exact(1));
  const int port = routing.port();
  Client client(port);
  client.send(
      post("/v1/completions",
           json{{"prompt", "Once"}, {"max_tokens", 200}, {"ignore_eos", true}, {"stream", true}}
               .dump()));
  REQUIRE(client.wait_for("data: "));
  routing.router().drain();
  const Client::Reply reply = client.reply();
  CHECK(reply.body.ends_with("data: [DONE]\n\n"));
  routing.join();
  CHECK(!Client(port).connected());
}
