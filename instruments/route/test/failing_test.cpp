// The router in front of servers that have no room, that break off, and that are killed.
#include "instruments/route/test/routing.h"

using namespace route_test;

namespace {

/// A router that sends to one server after the other, so that each is tried.
Routing in_turn(std::vector<std::string> servers) {
  route::RouterOptions options;
  options.policy = route::Policy::kRoundRobin;
  return Routing(std::move(servers), options);
}

TinyServer good_server() { return fake_server(always(TinyServer::stream("whole"))); }

}  // namespace

TEST_CASE("route: what a server cannot take goes elsewhere, before the first byte and not after") {
  std::string broken;  // what the other server sends before it breaks off
  int status = 200;
  const TinyServer bad = fake_server([&](const TinyServer::Request&) -> TinyServer::Reply {
    if (status != 200) return {TinyServer::with_length(status, R"({"error":"no room"})")};
    return {broken, true};
  });
  const TinyServer good = good_server();
  const Routing routing = in_turn({bad.url(), good.url()});
  const json request{{"prompt", "Once"}, {"stream", true}};
  const auto both = [&] {
    REQUIRE(routing.becomes_exact(2));
    std::vector<std::string> bodies;
    for (int i = 0; i < 2; ++i) {
      bodies.push_back(routing.complete(request).body);
      REQUIRE(routing.becomes_exact(2));
    }
    return bodies;
  };
  const auto whole_ones = [](const std::vector<std::string>& bodies) {
    return std::ranges::count_if(bodies, [](const std::string& body) {
      return body.find("whole") != body.npos && body.ends_with("data: [DONE]\n\n");
    });
  };
  bool elsewhere = true;  // some are sent there
  int failed = 0;
  SUBCASE("it closes the connection") { CHECK(whole_ones(both()) == 2); }
  SUBCASE("it breaks off after its head") {
    broken = TinyServer::stream_head();
    CHECK(whole_ones(both()) == 2);
  }
  SUBCASE("it has no room") {
    status = 503;
    CHECK(whole_ones(both()) == 2);
    CHECK(routing.metric("failures_total") == 0);
  }
  SUBCASE("it refuses") {
    status = 400;
    elsewhere = false;
    CHECK(whole_ones(both()) == 1);
  }
  SUBCASE("it breaks off after a token") {
    broken = TinyServer::stream_head() + TinyServer::chunk(TinyServer::event("half"));
    const auto bodies = both();
    CHECK(whole_ones(bodies) == 1);
    const std::string& half = bodies[0].find("half") != bodies[0].npos ? bodies[0] : bodies[1];
    CHECK(half.find("half") != half.npos);
    CHECK(half.find("\"error\"") != half.npos);
    CHECK(half.ends_with("data: [DONE]\n\n"));  // as the server ends a stream with an error
    elsewhere = false, failed = 1;
  }
  CHECK((routing.metric("sent_elsewhere_total") > 0) == elsewhere);
  CHECK(routing.metric("failed_total") == failed);
}

TEST_CASE("route: a server that is not well gets no requests until it is") {
  const auto whole = always(TinyServer::with_length(200, "{}"));
  std::atomic<int> health = 503;
  const TinyServer sick = fake_server(whole, &health), good = fake_server(whole);
  const Routing routing({sick.url(), good.url()});
  CHECK(eventually([&] { return routing.metric("up") == 1 && routing.metric("exact") == 2; }));
  for (int i = 0; i < 5; ++i) CHECK(routing.complete({{"prompt", "Once"}}).status == 200);
  CHECK(sick.num_posts() == 0);
  health = 200;
  CHECK(eventually([&] { return routing.metric("up") == 2; }));
  for (int i = 0; i < 50; ++i) routing.complete({{"prompt", "Once"}});
  CHECK(sick.num_posts() > 0);
}

TEST_CASE("route: what waits for a server that hangs goes elsewhere, long before --timeout") {
  std::atomic<int> health = 200;
  const TinyServer hangs = fake_server(
      [&](const TinyServer::Request&) -> TinyServer::Reply {
        health = 503;
        return {"", true, 60'000};
      },
      &health);
  const TinyServer good = fake_server(always(TinyServer::with_length(200, "{}")));
  const Routing routing = in_turn({hangs.url(), good.url()});
  REQUIRE(routing.becomes_exact(2));
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 2; ++i) CHECK(routing.complete({{"prompt", "Once"}}).status == 200);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
  CHECK(hangs.num_posts() == 1);
  CHECK(routing.metric("sent_elsewhere_total") == 1);
}

TEST_CASE("route: a stream of events that is lost is continued where it ended") {
  const auto event = [](int seq, const std::string& events) {
    return TinyServer::chunk("id: " + std::to_string(seq) + "\ndata: {\"seq\":" +
                             std::to_string(seq) + ",\"ts\":1.5,\"events\":[" + events + "]}\n\n");
  };
  const auto change = [](const std::string& type, int block) {
    return R"({"type":")" + type + R"(","block_hashes":["000000000000000)" + std::to_string(block) +
           R"("]})";
  };
  const std::string events[] = {
      event(0, change("BlockStored", 1)), event(1, change("BlockStored", 2)),
      event(2, change("BlockStored", 3) + "," + change("BlockRemoved", 1) + "," +
                   change("BlockStored", 4))};
  std::atomic<int> num_streams = 0;
  std::string asked_for;
  const TinyServer server([&](const TinyServer::Request& request) -> TinyServer::Reply {
    const std::string head = TinyServer::stream_head() + TinyServer::chunk(": events\n\n");
    if (request.head.starts_with("GET /kv_snapshot ")) {
      return {TinyServer::with_length(200,
                                      R"({"seq":-1,"block_size":16,"num_blocks":10,"blocks":[]})")};
    }
    if (request.head.starts_with("GET /health ")) return {TinyServer::with_length(200, "")};
    if (num_streams++ == 0) return {head + events[0] + events[1], true, 0};
    const size_t at = request.head.find("Last-Event-ID: ");
    if (at != request.head.npos) asked_for = request.head.substr(at, 16);
    return {head + events[1] + events[2]};
  });
  const Routing routing({server.url()});
  CHECK(eventually([&] { return routing.metric("replays_total") == 1; }));
  CHECK(eventually([&] { return routing.metric("cached_blocks") == 3; }));
  CHECK(asked_for == "Last-Event-ID: 0");
  CHECK(routing.metric("exact") == 1);
  CHECK(routing.metric("snapshots_total") == 1);
  CHECK(routing.metric("restarts_total") == 0);
  CHECK(routing.metric("up") == 1);
}

TEST_CASE("route: all servers without room give the client their answer") {
  const auto full = always(TinyServer::with_length(503, R"({"error":"no room"})"));
  const TinyServer one = fake_server(full), two = fake_server(full);
  const Routing routing({one.url(), two.url()});
  REQUIRE(routing.becomes_exact(2));
  const auto reply = routing.complete({{"prompt", "Once"}});
  CHECK(reply.status == 503);
  CHECK(reply.body == R"({"error":"no room"})");
  CHECK(reply.head.find("Retry-After: 1") != reply.head.npos);
  CHECK(one.num_posts() + two.num_posts() == 2);
}

TEST_CASE("route: a server where nothing listens is not one that the request has ended") {
  // Two servers end at once: one with the request, and one before the router can know it.
  auto gone = std::unique_ptr<TinyServer>(new TinyServer(good_server()));
  const TinyServer bad = fake_server([&](const TinyServer::Request&) -> TinyServer::Reply {
    gone.reset();
    return {"", true};
  });
  const TinyServer good = good_server();
  const Routing routing = in_turn({bad.url(), good.url(), gone->url()});
  REQUIRE(routing.becomes_exact(3));
  for (int i = 0; i < 3; ++i) {
    CHECK(routing.complete({{"prompt", "Once"}, {"stream", true}}).body.find("whole") !=
          std::string::npos);
  }
  CHECK(bad.num_posts() == 1);
  CHECK(routing.metric("failed_total") == 0);
}

TEST_CASE("route: a server is killed in the middle, and no request that had not begun fails") {
  const std::vector<json> requests = mixed(60);
  const Answers wanted = one_by_one(Running(), requests);
  const Program a, b;
  Program c;
  const Routing routing({url_of(a.port()), url_of(b.port()), url_of(c.port())});
  REQUIRE(routing.becomes_exact(3));
  const Answers found = together(routing, requests, [&] {
    CHECK(eventually([&] { return routing.metric("requests_total") >= 30; }));
    c.kill();
  });
  CHECK(found == wanted);  // none of these is a stream, so none had begun
  CHECK(eventually([&] { return routing.metric("up") == 2; }));
  CHECK(routing.metric("failed_total") == 0);
  CHECK(routing.ask(get("/health")).status == 200);
  SUBCASE("another server at its address is followed from its beginning") {
    const Program again(c.port());
    CHECK(routing.becomes_exact(3));
    CHECK(together(routing, requests) == wanted);
    CHECK(serve_test::ask(again.port(), get("/metrics")).status == 200);
  }
}
