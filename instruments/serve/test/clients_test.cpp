// What clients and tools send that mean the same in another spelling, and what they are told when
// libevent refuses them.
#define KV_SERVE_TESTS_SERVER
#include "common/error.h"
#include "instruments/serve/http/chunks.h"
#include "instruments/serve/http/error_page.h"
#include "instruments/serve/http/framing.h"
#include "instruments/serve/test/support.h"
#include "tests/support/ipv6.h"

using namespace serve_test;

namespace {

json error_of(const Client::Reply& reply) {
  CAPTURE(reply.body);
  CHECK(reply.head.find("Content-Type: application/json") != std::string::npos);
  return reply.parsed()["error"];
}

}  // namespace

TEST_CASE("clients: whole numbers as floats, on every route") {
  Running running;
  const json body{{"prompt", "Once"}, {"temperature", 0},  {"top_k", 20.0},
                  {"n", 1.0},         {"max_tokens", 2.0}, {"seed", 42.0},
                  {"logprobs", 1.0},  {"min_tokens", 1.0}, {"stop_token_ids", {5.0}},
                  {"priority", 0.0},  {"best_of", 1.0},    {"frequency_penalty", 0}};
  CHECK(running.complete(body).parsed()["usage"]["completion_tokens"] == 2);
  CHECK(running.complete({{"prompt", {1.0, 2.0}}, {"max_tokens", 1}}).status == 200);
  CHECK(running.complete({{"prompt", {1.5, 2.0}}, {"max_tokens", 1}}).status == 400);
  CHECK(running.complete({{"prompt", "Once"}, {"max_tokens", 2.5}}).status == 400);
  CHECK(running.ask(post("/detokenize", R"({"tokens":[595.0,7.09e2]})")).parsed()["prompt"] ==
        "Once upon");
  CHECK(running.ask(post("/detokenize", R"({"tokens":[595.5]})")).status == 400);
}

TEST_CASE("clients: the scheme of a key and a content type have no case, and spaces do not count") {
  CHECK(serve::bearer_of("bearer  k ") == "k");
  CHECK(serve::bearer_of("BEARER\tk") == "k");
  CHECK(serve::bearer_of("Bearer k k") == "k k");
  for (const char* none : {"", "Bearer", "Bearerk", "Basic k", "k", "Bearer:k"}) {
    CHECK(serve::bearer_of(none).empty());
  }
  CHECK(serve::is_media_type("Application/JSON ; charset=utf-8", "application/json"));
  CHECK(serve::is_media_type(" text/Event-Stream", "text/event-stream"));
  CHECK_FALSE(serve::is_media_type("application/jsonp", "application/json"));
  CHECK_FALSE(serve::is_media_type("", "application/json"));
  serve::ServerOptions options = serve_test::options();
  options.api_key = "k";
  Running running(options);
  for (const char* good : {"Bearer k", "bearer k", "BEARER  k"}) {
    CHECK(running.ask(get("/v1/models", std::string("authorization: ") + good + "\r\n")).status ==
          200);
  }
  for (const char* bad : {"Bearer K", "Bearer", "Basic k", "Bearer kk"}) {
    CHECK(running.ask(get("/v1/models", std::string("Authorization: ") + bad + "\r\n")).status ==
          401);
  }
}

TEST_CASE("clients: a page of another origin may send the headers that its library has") {
  serve::ServerOptions options = serve_test::options();
  options.cors = true;
  Running running(options);
  const auto allowed = [&](const std::string& asked) {
    const Client::Reply reply =
        running.ask(get("/v1/chat/completions", "Origin: http://x\r\n" + asked, "OPTIONS"));
    CHECK(reply.status == 204);
    const std::string head = reply.head;
    CHECK(head.find("Access-Control-Allow-Origin: *") != std::string::npos);
    const std::string name = "Access-Control-Allow-Headers: ";
    const size_t at = head.find(name);
    return head.substr(at + name.size(), head.find("\r\n", at) - at - name.size());
  };
  const std::string wanted = "authorization,content-type,x-stainless-os,x-anything";
  CHECK(allowed("Access-Control-Request-Headers: " + wanted + "\r\n") == wanted);
  CHECK(allowed("") == "Authorization, Content-Type, Last-Event-ID");
}

TEST_CASE("clients: the usage in each chunk of a stream, of that choice") {
  Running running;
  const auto usages = [&](const char* route, json body) {
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}, {"continuous_usage_stats", true}};
    body["ignore_eos"] = true;
    return events_of(running.ask(post(route, body.dump())).body);
  };
  const std::vector<json> events =
      usages("/v1/completions", {{"prompt", {"Once upon", "A"}}, {"max_tokens", 3}});
  std::vector<int> last(2);
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    const json &event = events[i], &usage = event["usage"];
    const auto index = event["choices"][0]["index"].get<size_t>();
    CHECK(usage["prompt_tokens"] == (index == 0 ? 2 : 1));
    CHECK(usage["completion_tokens"] > last[index]);
    last[index] = usage["completion_tokens"];
    CHECK(usage["total_tokens"] == usage["prompt_tokens"].get<int>() + last[index]);
  }
  CHECK(last == std::vector<int>{3, 3});
  CHECK(events.back()["usage"]["completion_tokens"] == 6);
  const std::vector<json> chat = usages(
      "/v1/chat/completions",
      {{"messages", {{{"role", "user"}, {"content", "Once"}}}}, {"max_completion_tokens", 2}});
  CHECK(chat.front()["usage"]["completion_tokens"] == 0);  // the role
  CHECK(chat.front()["usage"]["prompt_tokens"] > 0);
  // include_usage false asks for no usage at all, as in vLLM.
  const json none{{"prompt", "Once"},
                  {"max_tokens", 1},
                  {"stream", true},
                  {"stream_options", {{"include_usage", false}, {"continuous_usage_stats", true}}}};
  CHECK_FALSE(running.complete(none).body.find("usage") != std::string::npos);
}

TEST_CASE("clients: the strings of tokens, as Hugging Face spells them") {
  Running running;
  const json with =
      running.ask(post("/tokenize", R"({"prompt":"Once upon \u00e9","return_token_strs":true})"))
          .parsed();
  CHECK(with["token_strs"].size() == with["tokens"].size());
  CHECK(with["token_strs"][0] == "Once");
  CHECK(with["token_strs"][1] == "\u0120upon");
  std::string all;
  for (const json& one : with["token_strs"]) all += one.get<std::string>();
  CHECK(all == "Once\u0120upon\u0120\u00c3\u00a9");
  CHECK(running.ask(post("/tokenize", R"({"prompt":"Once"})")).parsed()["token_strs"] == nullptr);
  const Client::Reply wrong =
      running.ask(post("/tokenize", R"({"prompt":"Once","return_token_strs":1})"));
  CHECK(error_of(wrong)["param"] == "return_token_strs");
  for (const std::string more : {R"("tools":[{}])", R"("messages":[{}])"}) {
    const Client::Reply both = running.ask(post("/tokenize", R"({"prompt":"Once",)" + more + "}"));
    CHECK(error_of(both)["param"] == (more[1] == 't' ? "tools" : "prompt"));
  }
}

TEST_CASE("clients: a chat that no prompt has room for is refused before it is rendered") {
  Running running;
  const std::string many = "more than 5096 JSON values, which is more than this server takes";
  const json user{{"role", "user"}, {"content", ""}};
  const json large{{"role", "user"}, {"x", std::string(30'000, ' ')}};
  for (const auto& [body, words] : std::vector<std::pair<json, std::string>>{
           {{{"messages", std::vector(250'000, user)}}, many},
           {{{"messages", {user}}, {"tools", std::vector(20'000, user)}}, many},
           {{{"messages", {user, large}}}, "30008 bytes of text exceed the model's maximum"}}) {
    for (const char* route : {"/v1/chat/completions", "/tokenize"}) {
      const Client::Reply reply = running.ask(post(route, body.dump()));
      CHECK(error_of(reply)["message"].get<std::string>().find(words) != std::string::npos);
    }
  }
}

TEST_CASE("clients: a request may name its answer") {
  const json named{{"prompt", "a"}, {"max_tokens", 1}, {"request_id", "my \"id\""}};
  CHECK(Running().complete(named).parsed()["id"] == "cmpl-my \"id\"");
}

TEST_CASE("clients: what libevent refuses is an error of the API, and the connection ends") {
  CHECK(serve::api_reply_for("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<HTML>").empty());
  CHECK(serve::api_reply_for("HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\n\r\n{}")
            .empty());
  CHECK(serve::api_reply_for("HTTP/1.1 400 Bad").empty());
  serve::ServerOptions options = serve_test::options();
  options.http.max_body = 1000;
  Running running(options);
  const auto refused = [&](const std::string& request, int status) {
    CAPTURE(request.substr(0, 80));
    Client client(running.port());
    client.send(request);
    const Client::Reply reply = client.reply();
    CHECK(reply.status == status);
    const json error = error_of(reply);
    CHECK(error["code"] == status);
    CHECK(error["message"] != "");
    client.end_sending();
    CHECK(client.wait_for_end());
    CHECK(client.received().empty());
  };
  refused(post("/v1/completions", std::string(1001, ' ')), 413);
  refused("POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7D0\r\n" +
              std::string(2000, ' ') + "\r\n",
          413);
  refused("nonsense\r\n\r\n", 400);
  refused("GET http://%zz HTTP/1.1\r\n\r\n", 400);
  refused(get("/health", "X: " + std::string(70'000, 'x') + "\r\n"), 400);
  CHECK(running.ask(get("/version")).status == 200);
}

TEST_CASE("clients: extensions of chunks are passed over, wherever the bytes are cut") {
  const std::string body = R"({"prompt":"Once; upon","max_tokens":1,"temperature":0})";
  const std::string head =
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
  const auto chunked = [&](const std::string& extension) {
    return head + "transfer-encoding: Chunked\r\n\r\na" + extension + "\r\n" + body.substr(0, 10) +
           fmt::format("\r\n{:x}{}\r\n", body.size() - 10, extension) + body.substr(10) + "\r\n0" +
           extension + "\r\nTrailer: a;b\r\n\r\n";
  };
  const std::string plain = post("/v1/completions", body) + get("/version", "X: a;b\r\n");
  const std::string with = plain + chunked(";a=b;c=\"d\"") + chunked(" ;x") + plain;
  const std::string without = plain + chunked("") + chunked(" ") + plain;
  for (const size_t size : {size_t{1}, size_t{2}, size_t{7}, with.size()}) {
    serve::ChunkExtensions filter;
    std::string out;
    for (size_t at = 0; at < with.size(); at += size) out += filter.without(with.substr(at, size));
    CHECK(out == without);
  }
  Running running;
  for (const size_t size : {size_t{1}, with.size()}) {
    Client client(running.port());
    const std::string all = chunked(";a=b") + plain;
    for (size_t at = 0; at < all.size(); at += size) client.send(all.substr(at, size));
    const Client::Reply first = client.reply(), second = client.reply(), third = client.reply();
    CHECK(first.status == 200);
    CHECK(second.status == 200);
    CHECK(first.parsed()["choices"] == second.parsed()["choices"]);
    CHECK(third.status == 200);
  }
}

TEST_CASE("clients: an IPv6 address is one with or without brackets") {
  if (!kvtest::has_ipv6()) return;
  for (const char* host : {"::1", "[::1]"}) {
    serve::ServerOptions options = serve_test::options();
    options.http.host = host;
    const Running running(options);
    const int socket = ::socket(AF_INET6, SOCK_STREAM, 0);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(static_cast<uint16_t>(running.port()));
    address.sin6_addr = in6addr_loopback;
    CHECK(::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    ::close(socket);
  }
}
