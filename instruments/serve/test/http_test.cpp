// HTTP as clients send it that mean well, and as others do. The server stays, and nothing is left
// over.
#define KV_SERVE_TESTS_SERVER
#include "instruments/serve/test/support.h"
#include "tests/support/temp_dir.h"

using namespace serve_test;

namespace {

const std::string kLong =
    R"({"prompt":"Once upon a time","max_tokens":1500,"temperature":0,"ignore_eos":true})";

std::string text_of(const Client::Reply& reply) {
  CHECK(reply.status == 200);
  return reply.parsed()["choices"][0]["text"];
}

}  // namespace

TEST_CASE("http: byte by byte, in chunks, with 100-continue, and two requests in one packet") {
  Running running;
  const std::string whole = post("/v1/completions", kShort);
  const std::string wanted = text_of(running.ask(whole));
  CHECK(!wanted.empty());
  {
    Client client(running.port());
    for (const char c : whole) client.send(std::string(1, c));
    CHECK(text_of(client.reply()) == wanted);
  }
  {
    Client client(running.port());
    client.send(
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\n\r\n5\r\n" +
        kShort.substr(0, 5) + "\r\n");
    char size[8];
    std::snprintf(size, sizeof size, "%zx", kShort.size() - 5);
    client.send(size + std::string("\r\n") + kShort.substr(5) + "\r\n0\r\n\r\n");
    CHECK(text_of(client.reply()) == wanted);
  }
  {
    Client client(running.port());
    client.send(
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        "Expect: 100-continue\r\nContent-Length: " +
        std::to_string(kShort.size()) + "\r\n\r\n");
    CHECK(client.reply(false).status == 100);
    client.send(kShort);
    CHECK(text_of(client.reply()) == wanted);
  }
  {
    Client client(running.port());
    client.send(post("/v1/completions", kStream) + whole + get("/health"));
    CHECK(events_of(client.reply().body).size() == 30);
    CHECK(text_of(client.reply()) == wanted);
    CHECK(client.reply().status == 200);
  }
  {  // The second one comes while the first is answered.
    Client client(running.port());
    client.send(whole);
    std::this_thread::sleep_for(1ms);
    client.send(whole);
    client.send(whole);
    for (int i = 0; i < 3; ++i) CHECK(text_of(client.reply()) == wanted);
  }
  {  // HTTP/1.0 knows no chunks: the stream ends with the connection.
    Client client(running.port());
    client.send(
        "POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: " +
        std::to_string(kStream.size()) + "\r\n\r\n" + kStream);
    CHECK(client.wait_for_end());
    CHECK(client.received().ends_with("data: [DONE]\n\n"));
  }
  CHECK(running.becomes_idle());
}

TEST_CASE("http: routes, methods, keys, content types, and errors as JSON") {
  serve::ServerOptions options = serve_test::options();
  options.api_key = "secret";
  Running running(options);
  const std::string key = "Authorization: Bearer secret\r\n";
  const auto status = [&](const std::string& request) {
    const Client::Reply reply = running.ask(request);
    if (reply.status >= 400 && reply.status != 503) {
      const json error = reply.parsed()["error"];
      CHECK(error["code"] == reply.status);
      CHECK(error["message"] != "");
    }
    return reply.status;
  };
  for (const char* open : {"/health", "/version", "/"}) CHECK(status(get(open)) == 200);
  CHECK(status(get("/v1/models")) == 401);
  CHECK(status(get("/v1/models", "Authorization: Bearer secre\r\n")) == 401);
  CHECK(status(get("/v1/models", "Authorization: Bearer secretsecret\r\n")) == 401);
  CHECK(status(get("/v1/models/", key)) == 200);
  CHECK(running.ask(get("/v1/models/tiny", key)).parsed()["id"] == "tiny");
  CHECK(status(get("/v1/models/other", key)) == 404);
  CHECK(status(get("/kv_snapshot")) == 401);
  CHECK(status(get("/v1/other")) == 404);
  CHECK(status(get("/pages/../x")) == 404);
  CHECK(status(get("/%ff%00%c3")) == 404);
  CHECK(status(get("/v1/completions", key)) == 405);
  CHECK(status(get("/v1/completions", key, "DELETE")) == 405);
  CHECK(status(post("/v1/models", "{}", key)) == 405);
  CHECK(status(post("/v1/completions", kShort, key)) == 200);
  CHECK(status(post("/v1/completions", "{\"prompt\":", key)) == 400);
  CHECK(status(post("/v1/completions", "\xFF\xFE", key)) == 400);
  CHECK(status(post("/v1/completions", R"({"prompt":[999999]})", key)) == 400);
  const std::string endless = R"({"prompt":")" + std::string(200'000, 'x') + "\"}";
  for (const char* route : {"/v1/completions", "/tokenize"}) {
    CHECK(status(post(route, endless, key)) == 400);
  }
  for (const char* route : {"/tokenize", "/detokenize"}) {  // an empty list would hide the typo
    CHECK(status(post(route, "{}", key)) == 400);
    CHECK(status(post(route, R"({"promt":"x","token":[1]})", key)) == 400);
  }
  CHECK(status(post("/v1/completions", R"({"prompt":"x","model":"gpt"})", key)) == 404);
  CHECK(status("POST /v1/completions HTTP/1.1\r\nHost: x\r\n" + key +
               "Content-Type: text/plain\r\n"
               "Content-Length: 2\r\n\r\n{}") == 415);
  CHECK(running.ask(get("/health", "", "OPTIONS")).head.find("Access-Control") ==
        std::string::npos);
  for (const std::string path : {"/v1/models", "/v1/completions", "/nope", "/", "/kv_events"}) {
    CAPTURE(path);
    Client client(running.port());
    client.send(get(path, key, "HEAD") + get("/version"));
    CHECK(client.reply(false).status == (path == "/v1/models" || path == "/" ? 200
                                         : path == "/nope"                   ? 404
                                                                             : 405));
    CHECK(client.reply().parsed().contains("version"));  // no body came in between
  }
  const Client::Reply tokens = running.ask(post("/tokenize", R"({"prompt":"Once upon"})", key));
  CHECK(tokens.parsed()["count"] == tokens.parsed()["tokens"].size());
  const Client::Reply text =
      running.ask(post("/detokenize", json{{"tokens", tokens.parsed()["tokens"]}}.dump(), key));
  CHECK(text.parsed()["prompt"] == "Once upon");
  CHECK(status(post("/tokenize", R"({"messages":[{"role":"user","content":"x"}]})", key)) == 200);
}

TEST_CASE("http: tokens leave at once, and do not wait for the client's acknowledgement") {
  Running running;
  Client client(running.port());
  client.send(get("/health"));
  CHECK(client.reply().status == 200);
  int num_accepted = 0;
  for (int socket = 0; socket < 1024; ++socket) {  // of this process, so the server's, too
    sockaddr_in local{}, peer{};
    socklen_t size = sizeof local, peer_size = sizeof peer;
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&local), &size) != 0) continue;
    if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) continue;
    if (ntohs(local.sin_port) != running.port()) continue;
    int no_delay = 0;
    socklen_t value_size = sizeof no_delay;
    ::getsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &no_delay, &value_size);
    CHECK(no_delay == 1);
    ++num_accepted;
  }
  CHECK(num_accepted == 1);
}

TEST_CASE("http: what could hide a second request is answered once, and the connection ends") {
  Running running;
  const std::string hidden = get("/version");
  for (const std::string headers :
       {"Content-Length: 2\r\nContent-Length: 40\r\n",
        "Content-Length: 40\r\nContent-Length: 2\r\n", "Content-Length: +2\r\n",
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\nContent-Length: 2\r\n", "Content-Length : 2\r\n",
        "Content-Length: 99999999999999999999\r\n", "Content-Length: -1\r\n"}) {
    CAPTURE(headers);
    Client client(running.port());
    client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" +
                headers + "\r\n{}" + hidden);
    client.end_sending();
    CHECK(client.wait_for_end());
    CHECK(client.received().find("\"version\"") == std::string::npos);
    CHECK(client.received().find(" 200 OK") == std::string::npos);
  }
}

TEST_CASE("http: limits of connections and time") {
  serve::ServerOptions options = serve_test::options();
  options.http.max_connections = 8;
  options.http.idle_seconds = 1;
  Running running(options);
  {  // A request without its end, and a connection without a request.
    Client half(running.port()), silent(running.port());
    half.send("POST /v1/completions HTTP/1.1\r\nContent-Length: 10\r\n\r\n{");
    CHECK(half.wait_for_end(5s));
    CHECK(silent.wait_for_end(5s));
  }
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 12; ++i) {
    clients.push_back(std::make_unique<Client>(running.port()));
    clients.back()->send(post("/v1/completions", kStream));
  }
  for (const auto& client : clients) {  // the last ones when those before them are closed
    CHECK(events_of(client->reply().body).size() == 30);
    client->close();
  }
  // A stream may take longer than an idle connection.
  CHECK(running.ask(post("/v1/completions", kStream)).status == 200);
  CHECK(running.becomes_idle());
}

TEST_CASE("http: a full queue refuses before it reads the prompt, and says when to come again") {
  serve::ServerOptions options = serve_test::options();
  options.lesson.serve.scheduler.max_running = 1;
  options.limits.max_queued = 2;
  Running running(options);
  Client first(running.port()), second(running.port()), third(running.port());
  first.send(post("/v1/completions", kLong));
  CHECK(eventually([&] { return running.metric("vllm:num_requests_running") == 1; }));
  second.send(post("/v1/completions", kLong));
  third.send(post("/v1/completions", kLong));
  CHECK(eventually([&] { return running.metric("vllm:num_requests_waiting") == 2; }));
  const Client::Reply refused = running.complete({{"prompt", 7}});
  CHECK(refused.status == 503);
  CHECK(refused.head.find("Retry-After: 1") != std::string::npos);
  CHECK(running.metric("course:requests_refused_total") == 1);
  // Clients that go: one that runs, two that wait.
  first.close();
  second.reset();
  third.close();
  CHECK(running.becomes_idle());
  CHECK(running.metric("vllm:request_success_total{engine=\"0\",model_name=\"tiny\",finished_"
                       "reason=\"abort\"}") == 3);
}

TEST_CASE("http: without chunks a request has room for the tokens of one pass") {
  serve::ServerOptions options = serve_test::options();
  options.lesson.serve.scheduler.chunked_prefill = false;
  options.lesson.serve.scheduler.max_tokens_per_pass = 32;
  Running running(options);
  // Both would be longer: the first has no limit, and the second has three answers.
  const json chat = {{"messages", {{{"role", "user"}, {"content", "Once upon a time"}}}},
                     {"ignore_eos", true}};
  const Client::Reply open = running.ask(post("/v1/chat/completions", chat.dump()));
  REQUIRE(open.status == 200);
  CHECK(open.parsed()["usage"]["total_tokens"] == 32);
  const json three = {
      {"prompt", "Once upon a time"}, {"max_tokens", 1000}, {"n", 3}, {"ignore_eos", true}};
  CHECK(running.complete(three).parsed()["usage"]["completion_tokens"] == 3 * 28);
  const Client::Reply refused = running.complete({{"prompt", std::vector<int>(33, 5)}});
  CHECK(refused.status == 400);
  CHECK(refused.body.find("maximum context length (32)") != std::string::npos);
  CHECK(running.becomes_idle());
}

TEST_CASE("http: when the server fails, each request gets an error, and /health is 503") {
  const kvtest::TempDir folder;
  std::filesystem::copy(KV_SOURCE_DIR "/models/tiny", folder.path());
  {  // The last weight is one of the last norm's, so that all logits are NaN.
    std::fstream weights(folder.path() / "model.safetensors",
                         std::ios::in | std::ios::out | std::ios::binary);
    weights.seekp(-2, std::ios::end);
    weights.write("\xff\xff", 2);
  }
  kv::Model damaged = kv::Model::load(folder.path(), kv::Device::kCpu);
  for (const bool stream : {false, true}) {
    serve::ApiServer server(damaged, options());
    std::thread thread([&] { server.run(); });
    Client first(server.port()), second(server.port());
    const std::string request =
        post("/v1/completions",
             json{{"prompt", "Once"}, {"max_tokens", 4}, {"n", 3}, {"stream", stream}}.dump());
    first.send(request);
    second.send(request);
    for (Client* client : {&first, &second}) {
      const Client::Reply reply = client->reply();
      CHECK(reply.status == (stream && reply.body.starts_with("data: ") ? 200 : 500));
      CHECK(reply.body.find("the server has failed: logit 0 is") != std::string::npos);
    }
    CHECK(ask(server.port(), get("/health")).status == 503);
    server.stop();
    thread.join();
  }
}

TEST_CASE("http: a client that goes takes its request along, at every point of a stream") {
  Running running;
  running.complete({{"prompt", "Once"}, {"max_tokens", 1}});  // the model has all its threads then
  CHECK(running.becomes_idle());
  const int descriptors = num_descriptors(), threads = num_threads();
  const std::string request =
      post("/v1/completions", kLong.substr(0, kLong.size() - 1) + R"(,"stream":true,"n":2})");
  for (int point = 0; point < 40; ++point) {
    Client client(running.port());
    if (point < 12) {  // in the middle of the request
      client.send(request.substr(0, request.size() * static_cast<size_t>(point) / 12));
    } else {
      client.send(request);
      std::string seen;
      for (int i = 12; i < point / 2; ++i) seen += "data: ";
      if (point >= 14) CHECK(client.wait_for("data: "));
      std::this_thread::sleep_for(std::chrono::microseconds(200 * (point - 12)));
    }
    point % 2 == 0 ? client.close() : client.reset();
  }
  {  // without a stream
    Client client(running.port());
    client.send(post("/v1/completions", kLong));
    CHECK(eventually([&] { return running.metric("vllm:num_requests_running") > 0; }));
  }
  CHECK(running.becomes_idle());
  CHECK(eventually([&] { return num_descriptors() <= descriptors + 1; }));
  CHECK(num_threads() == threads);
  // Blocks that were computed in full can still be found.
  const json again = running
                         .complete({{"prompt",
                                     "Once upon a time there was a little boy who lived in a small "
                                     "house near the sea and"},
                                    {"max_tokens", 1}})
                         .parsed();
  CHECK(again["usage"]["completion_tokens"] == 1);
}

TEST_CASE("http: a stop lets streams end, refuses new ones, and returns") {
  serve::ApiServer server(kvtest::shipped_model(), options());
  std::thread thread([&] { server.run(); });
  Client stream(server.port()), kept(server.port());
  stream.send(post("/v1/completions", kStream));
  CHECK(stream.wait_for("data: "));
  kept.send(get("/health"));
  CHECK(kept.reply().status == 200);
  const int port = server.port();
  server.drain();
  thread.join();  // not before the last bytes have left
  CHECK(events_of(stream.reply().body).size() == 30);
  CHECK(!Client(port).connected());
}

TEST_CASE("http: a stop does not wait longer than it was told to") {
  serve::ServerOptions options = serve_test::options();
  options.drain_seconds = 0.05;
  serve::ApiServer server(kvtest::shipped_model(), options);
  std::thread thread([&] { server.run(); });
  Client client(server.port());
  client.send(post("/v1/completions", kLong));
  std::this_thread::sleep_for(20ms);
  server.drain();
  thread.join();
}

TEST_CASE("http: a reader that is too far behind is cut off") {
  serve::HttpOptions options{.port = 0, .max_unread = size_t{1} << 16};
  std::shared_ptr<serve::Exchange> stream;
  std::atomic<bool> gone = false;
  serve::HttpServer server(options, [&](const auto& exchange) {
    stream = exchange;
    stream->begin_stream("text/plain");
    stream->on_gone = [&] { gone = true; };
  });
  std::thread thread([&] { server.run(); });
  Client client(server.port());
  client.send(get("/"));
  CHECK(client.wait_for("\r\n\r\n"));
  const std::string piece(1 << 16, 'x');
  // A burst alone is no reason: a piece in each turn of the loop.
  std::function<void(int)> burst = [&](int left) {
    stream->write(left == 0 ? "the end" : piece);
    if (left > 0) server.post([&burst, left] { burst(left - 1); });
  };
  server.post([&] { burst(32); });
  CHECK(client.wait_for("the end"));
  CHECK_FALSE(gone);
  for (int i = 0; i < 4000 && !gone; ++i) {
    server.post([&] { stream->write(piece); });
    std::this_thread::sleep_for(1ms);
  }
  CHECK(gone);
  server.post([&] { server.stop(); });
  thread.join();
}
