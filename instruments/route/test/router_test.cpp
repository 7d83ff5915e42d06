// The router in front of servers that answer, that have no room, that break, and that are killed.
#define KV_SERVE_TESTS_SERVER
#include "instruments/route/router.h"

#include <sys/wait.h>

#include <atomic>
#include <csignal>

#include "instruments/load/test/tiny_server.h"
#include "instruments/serve/test/support.h"

using namespace serve_test;
using kvtest::TinyServer;

namespace {

std::string url_of(int port) { return "http://127.0.0.1:" + std::to_string(port); }

/// The sum of a metric over its lines.
double sum_of(const std::string& text, const std::string& name) {
  double sum = 0;
  for (size_t at = 0; (at = text.find("\n" + name + "{", at)) != text.npos; ++at) {
    sum += std::stod(text.substr(text.find("} ", at) + 2));
  }
  return sum;
}

/// A router that runs as long as this object.
class Routing {
 public:
  explicit Routing(std::vector<std::string> servers, route::RouterOptions options = {})
      : router_(with(std::move(options), std::move(servers))), thread_([this] { router_.run(); }) {}
  ~Routing() {
    router_.stop();
    if (thread_.joinable()) thread_.join();
  }
  route::Router& router() { return router_; }
  void join() { thread_.join(); }
  int port() const { return router_.port(); }
  Client::Reply ask(const std::string& request) const { return serve_test::ask(port(), request); }
  Client::Reply complete(const json& body) const {
    return ask(post("/v1/completions", body.dump()));
  }
  double metric(const std::string& name) const {
    return sum_of(ask(get("/metrics")).body, "course:route_" + name);
  }
  bool becomes_exact(double servers) const {
    return eventually([&] { return metric("up") == servers && metric("exact") == servers; });
  }

 private:
  static route::RouterOptions with(route::RouterOptions options, std::vector<std::string> servers) {
    options.servers = std::move(servers);
    options.http.port = 0;
    options.model_dir = KV_SOURCE_DIR "/models/tiny";
    options.quiet = true;
    return options;
  }
  route::Router router_;
  std::thread thread_;
};

/// ./course serve as a process of its own, which can be killed. (Servers inside this process would
/// share the model, and with it the memory of a pass.)
class Program {
 public:
  explicit Program(int port = 0) {
    int out[2];
    REQUIRE(::pipe(out) == 0);
    const auto serve = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "serve";
    const std::string number = std::to_string(port);
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(out[1], STDOUT_FILENO);
      ::close(out[0]);
      ::close(out[1]);
      ::execl(serve.c_str(), "serve", "--model", KV_SOURCE_DIR "/models/tiny", "--device", "cpu",
              "--port", number.c_str(), "--num-blocks", "256", static_cast<char*>(nullptr));
      ::_exit(127);
    }
    ::close(out[1]);
    std::string text;
    for (char one; text.find("http://127.0.0.1:") == text.npos || !text.ends_with('\n');) {
      REQUIRE(::read(out[0], &one, 1) == 1);
      text += one;
    }
    ::close(out[0]);
    port_ = std::stoi(text.substr(text.find("http://127.0.0.1:") + 17));
  }
  ~Program() { kill(); }
  Program(const Program&) = delete;
  int port() const { return port_; }
  Client::Reply ask(const std::string& request) const { return serve_test::ask(port_, request); }
  Client::Reply complete(const json& body) const {
    return ask(post("/v1/completions", body.dump()));
  }
  /// The sum of a metric over its lines.
  double metric(const std::string& name) const { return sum_of(ask(get("/metrics")).body, name); }
  bool becomes_idle() const {
    return eventually([&] {
      return metric("vllm:num_requests_running") + metric("vllm:num_requests_waiting") == 0;
    });
  }
  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(std::exchange(process_, 0), nullptr, 0);
  }

 private:
  pid_t process_ = 0;
  int port_ = 0;
};

/// Requests of many kinds; their prompts begin in one of four ways.
std::vector<json> mixed(int count) {
  std::vector<json> requests;
  for (int i = 0; i < count; ++i) {
    std::string text;
    for (int word = 0; word < 40; ++word) text += " word " + std::to_string(i % 4 * 100 + word);
    for (int word = 0; word <= i % 9; ++word) text += " friend " + std::to_string(i * 7 + word);
    requests.push_back({{"prompt", text},
                        {"max_tokens", 4 + i % 17},
                        {"seed", i},
                        {"temperature", i % 3 == 0 ? 0.0 : 0.9}});
    if (i % 4 == 1) requests.back()["n"] = 3;
    if (i % 6 == 4) requests.back()["cache_salt"] = "tenant";
  }
  return requests;
}

std::string choices_of(const Client::Reply& reply) {
  INFO(reply.body);
  REQUIRE(reply.status == 200);
  return reply.parsed()["choices"].dump();
}

/// All of them at once.
std::vector<Client::Reply> together(int port, const std::vector<json>& requests,
                                    const std::function<void()>& meanwhile = nullptr) {
  std::vector<std::unique_ptr<Client>> clients;
  for (const json& request : requests) {
    clients.push_back(std::make_unique<Client>(port));
    clients.back()->send(post("/v1/completions", request.dump()));
  }
  if (meanwhile) meanwhile();
  std::vector<Client::Reply> replies;
  for (const auto& client : clients) replies.push_back(client->reply());
  return replies;
}

/// A server for the router alone: its cache is empty, and its answers are what the test says.
TinyServer fake_server(TinyServer::Handler answer) {
  return TinyServer([answer](const TinyServer::Request& request) -> TinyServer::Reply {
    if (request.head.starts_with("GET /kv_events ")) {
      return {TinyServer::stream_head() + TinyServer::chunk(": events\n\n")};
    }
    if (request.head.starts_with("GET /kv_snapshot ")) {
      return {TinyServer::with_length(200,
                                      R"({"seq":-1,"block_size":16,"num_blocks":10,"blocks":[]})")};
    }
    return answer(request);
  });
}

}  // namespace

TEST_CASE("route: three servers give one server's answers, and find what it would find") {
  const std::vector<json> requests = mixed(48);
  std::vector<std::string> wanted;
  {
    const Running alone;
    for (const json& request : requests) wanted.push_back(choices_of(alone.complete(request)));
  }
  const Program a, b, c;
  const Routing routing({url_of(a.port()), url_of(b.port()), url_of(c.port())});
  REQUIRE(routing.becomes_exact(3));
  const auto check = [&](const std::vector<Client::Reply>& replies) {
    for (size_t i = 0; i < wanted.size(); ++i) CHECK(choices_of(replies[i]) == wanted[i]);
  };
  check(together(routing.port(), requests));
  check(together(routing.port(), requests));  // from their caches
  for (const Program* one : {&a, &b, &c}) {
    CHECK(one->metric("vllm:request_success_total") > 0);
    CHECK(one->becomes_idle());
  }
  // The router knew what they would find: of the second time at least 9 of 10 full blocks.
  CHECK(routing.metric("blocks_found_total") > 0.4 * routing.metric("blocks_asked_total"));
  CHECK(routing.metric("requests_total") == 96);
  CHECK(routing.metric("running") == 0);
  CHECK(routing.metric("waiting_tokens") == 0);
  CHECK(routing.metric("failed_total") == 0);
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
  const json request{{"prompt", "Once upon a time"}, {"max_tokens", 20}, {"stream", true}};
  const auto texts = [](const Client::Reply& reply) {
    std::vector<std::string> all;
    for (const json& event : events_of(reply.body)) all.push_back(event["choices"].dump());
    return all;
  };
  const Client::Reply reply = routing.complete(request);
  CHECK(reply.head.find("text/event-stream") != reply.head.npos);
  CHECK(texts(reply) == texts(a.complete(request)));
  Client client(routing.port());
  client.send(
      post("/v1/completions",
           json{{"prompt", "Once"}, {"max_tokens", 1500}, {"ignore_eos", true}, {"stream", true}}
               .dump()));
  REQUIRE(client.wait_for("data: "));
  CHECK(routing.metric("running") == 1);
  client.close();
  CHECK(eventually([&] { return routing.metric("running") == 0; }));
  CHECK(a.becomes_idle());
  CHECK(b.becomes_idle());
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
  CHECK(
      routing
          .ask(post("/v1/completions", R"({"prompt":"Once"})", "Authorization: Bearer secret\r\n"))
          .status == 200);
  CHECK(stranger.metric("up") == 0);
}

TEST_CASE("route: what a server cannot take goes elsewhere, before the first byte and not after") {
  const auto whole = [](const TinyServer::Request&) {
    return TinyServer::Reply{TinyServer::stream("whole")};
  };
  std::string broken;  // what the other server sends before it breaks off
  int status = 200;
  const TinyServer bad = fake_server([&](const TinyServer::Request&) -> TinyServer::Reply {
    if (status != 200) return {TinyServer::with_length(status, R"({"error":"no room"})")};
    return {broken, true};
  });
  const TinyServer good = fake_server(whole);
  route::RouterOptions in_turn;
  in_turn.policy = route::Policy::kRoundRobin;  // so that each is tried
  const Routing routing({bad.url(), good.url()}, in_turn);
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
    CHECK(whole_ones(both()) == 1);
    CHECK(routing.metric("sent_elsewhere_total") == 0);
    return;
  }
  SUBCASE("it breaks off after a token") {
    broken = TinyServer::stream_head() + TinyServer::chunk(TinyServer::event("half"));
    const auto bodies = both();
    CHECK(whole_ones(bodies) == 1);
    const std::string& half = bodies[0].find("half") != bodies[0].npos ? bodies[0] : bodies[1];
    CHECK(half.find("half") != half.npos);
    CHECK(half.find("\"error\"") != half.npos);
    CHECK(half.ends_with("data: [DONE]\n\n"));  // as the server ends a stream with an error
    CHECK(routing.metric("failed_total") == 1);
    CHECK(routing.metric("sent_elsewhere_total") == 0);
    return;
  }
  CHECK(routing.metric("sent_elsewhere_total") >= 1);
  CHECK(routing.metric("failed_total") == 0);
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
  const auto full = [](const TinyServer::Request&) {
    return TinyServer::Reply{TinyServer::with_length(503, R"({"error":"no room"})")};
  };
  const TinyServer one = fake_server(full), two = fake_server(full);
  const Routing routing({one.url(), two.url()});
  REQUIRE(routing.becomes_exact(2));
  const auto reply = routing.complete({{"prompt", "Once"}});
  CHECK(reply.status == 503);
  CHECK(reply.body == R"({"error":"no room"})");
  CHECK(reply.head.find("Retry-After: 1") != reply.head.npos);
  CHECK(one.num_posts() + two.num_posts() == 2);
}

TEST_CASE("route: a server is killed in the middle, and no request that had not begun fails") {
  const std::vector<json> requests = mixed(60);
  std::vector<std::string> wanted;
  {
    const Running alone;
    for (const json& request : requests) wanted.push_back(choices_of(alone.complete(request)));
  }
  const Program a, b;
  Program c;
  const Routing routing({url_of(a.port()), url_of(b.port()), url_of(c.port())});
  REQUIRE(routing.becomes_exact(3));
  const auto replies = together(routing.port(), requests, [&] {
    CHECK(eventually([&] { return routing.metric("requests_total") >= 30; }));
    c.kill();
  });
  // None of these is a stream, so none had begun.
  for (size_t i = 0; i < wanted.size(); ++i) CHECK(choices_of(replies[i]) == wanted[i]);
  CHECK(eventually([&] { return routing.metric("up") == 2; }));
  CHECK(routing.metric("failed_total") == 0);
  CHECK(routing.ask(get("/health")).status == 200);
  SUBCASE("another server at its address is followed from its beginning") {
    const Program again(c.port());
    CHECK(routing.becomes_exact(3));
    for (const auto& reply : together(routing.port(), requests)) CHECK(reply.status == 200);
    CHECK(serve_test::ask(again.port(), get("/metrics")).status == 200);
  }
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
