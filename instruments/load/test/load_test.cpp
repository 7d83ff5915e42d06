// ./course load as a user runs it, against servers that answer, that do not, and that break.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "instruments/load/run.h"
#include "instruments/load/test/tiny_server.h"
#include "tests/support/shell.h"

namespace {

using kvtest::check_refused;
using kvtest::Outcome;
using kvtest::shell;
using kvtest::TinyServer;
using nlohmann::json;
using Reply = TinyServer::Reply;
using Request = TinyServer::Request;

Outcome run_load(const TinyServer& server, const std::string& options) {
  return shell("$B/load --url " + server.url() + " " + options);
}

json numbers(const TinyServer& server, const std::string& options) {
  const Outcome out = run_load(server, "--json - " + options);
  INFO(out.err);
  const json all = json::parse(out.out);
  REQUIRE(out.code == (all["whole"] == all["requests"] ? 0 : 1));
  return all;
}

/// The answer depends on the request alone.
Reply answer(const Request& request) {
  return {TinyServer::stream(std::to_string(std::hash<std::string>()(request.body)))};
}

bool shows(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("load: a table, a plot and numbers of a server whose answers are equal") {
  const TinyServer server(answer);
  const Outcome out = run_load(
      server,
      "--num-requests 40 --concurrency 8 --alone-too --plot $T/p --json $T/j && cat $T/p $T/j");
  CAPTURE(out.err);
  REQUIRE(out.code == 0);
  CHECK(shows(out.out, "40 requests to " + server.url() + " (tiny), 8 at a time: "));
  CHECK(shows(out.out, "\nfirst token "));
  CHECK(shows(out.out, "80 tokens generated"));
  CHECK(shows(out.out, "equal requests in company: 20 of 20 pairs got equal answers"));
  CHECK(shows(out.out, "each request in company and alone: 40 of 40 pairs got equal answers"));
  CHECK(shows(out.out, "</svg>\n{"));
  CHECK(!shows(out.out, "!"));
  CHECK(server.num_posts() == 80);
}

TEST_CASE("load: the digest is of all answers, in the order of the requests") {
  const auto digest_of = [](int different, const std::string& options) {
    const TinyServer server([=](const Request& request) {
      return Reply{TinyServer::stream(
          std::to_string(std::hash<std::string>()(request.body) + (request.number == different)))};
    });
    return numbers(server, "--turns 1 " + options)["digest"].get<std::string>();
  };
  const std::string digest = digest_of(-1, "--concurrency 1 --num-requests 20");
  CHECK(digest.size() == 16);
  CHECK(digest == digest_of(-1, "--concurrency 8 --num-requests 20"));
  CHECK(digest != digest_of(7, "--concurrency 1 --num-requests 20"));
  CHECK(digest != digest_of(-1, "--concurrency 1 --num-requests 19"));
}

TEST_CASE("load: other answers to equal requests are counted, and the first difference is shown") {
  const TinyServer server([](const Request& request) {
    return Reply{TinyServer::stream(std::to_string(request.number))};
  });
  const Outcome out = run_load(server, "--num-requests 8 --turns 1 --alone-too");
  CHECK(out.code == 0);
  CHECK(shows(out.out, "equal requests in company: 0 of 4 pairs got equal answers\n! request "));
  CHECK(shows(out.out,
              "each request in company and alone: 0 of 8 pairs got equal answers\n! request "));
}

TEST_CASE("load: requests at a rate, at a trace's times, and with a key") {
  const TinyServer server([](const Request& request) {
    if (!shows(request.head, "Authorization: Bearer key")) {
      return Reply{TinyServer::with_length(401, R"({"error":"Unauthorized"})")};
    }
    return answer(request);
  });
  json all = numbers(server, "--num-requests 20 --rate 200 --api-key key");
  CHECK(all["whole"] == 20);
  CHECK(all["seconds"] < 5);
  all = numbers(server,
                "--num-requests 6 --speed 10 --shrink 64 --api-key key --trace "
                "$S/instruments/replay/example.jsonl");
  CHECK(all["whole"] == 6);
  CHECK(all["seconds"] > 0.03);
  all = numbers(server, "--num-requests 3 --turns 1");
  CHECK(all["errors"]["HTTP 401"] == 3);
  CHECK(all["model"] == "tiny");
}

TEST_CASE("load: every kind of failure is counted, and the requests beside it go on") {
  const std::string begun = TinyServer::stream_head() + TinyServer::chunk(TinyServer::event("x"));
  struct Failure {
    std::string kind;
    Reply reply;
  };
  const std::vector<Failure> failures{
      {"HTTP 503", {TinyServer::with_length(503, R"({"error":{"message":"the queue is full"}})")}},
      {"connection lost", {begun, true}},                         // it dies in the middle
      {"connection lost", {begun + "40\r\ndata: {\"cho", true}},  // of a chunk
      {"connection lost", {"", true}},                            // before the head
      {"connection lost", {"HTTP/1.1 200 OK\r\nContent-Le", true}},
      {"stream without its end", {begun + "0\r\n\r\n"}},
      {"error in a stream",
       {begun + TinyServer::chunk("data: {\"error\":{\"message\":\"it broke\"}}\n\n") +
        TinyServer::chunk("data: [DONE]\n\n") + "0\r\n\r\n"}},
      {"broken stream", {begun + TinyServer::chunk("data: {\n\n") + "0\r\n\r\n"}},
      {"broken HTTP", {"this is no HTTP\r\n\r\n", true}},
      {"connection lost", {TinyServer::stream_head() + "zz\r\n", true}},
  };
  for (const Failure& failure : failures) {
    CAPTURE(failure.kind);
    CAPTURE(failure.reply.bytes);
    const TinyServer server([&](const Request& request) {
      return request.number % 2 == 0 ? failure.reply : answer(request);
    });
    const json all = numbers(server, "--num-requests 10 --turns 1 --concurrency 2");
    CHECK(all["requests"] == 10);
    CHECK(all["whole"] == 5);
    CHECK(all["errors"] == json{{failure.kind, 5}});
  }
}

TEST_CASE("load: a server that is silent, a turn that failed, and Ctrl-C") {
  {
    const TinyServer server([](const Request&) {
      return Reply{TinyServer::stream("x"), false, 60'000};
    });
    const json all = numbers(server, "--num-requests 2 --turns 2 --copies 1 --timeout 0.3");
    CHECK(all["errors"] == json{{"time-out", 1}, {"not sent", 1}});
    const Outcome out = shell("timeout --foreground -s INT 5 $B/load --url " + server.url() +
                              " --num-requests 30 --concurrency 10");
    CAPTURE(out.err);
    CHECK(shows(out.out, "! stopped: 0 of 30 had ended"));
  }
  const TinyServer dies([](const Request& request) {
    return request.number < 3 ? answer(request) : Reply{"", true};
  });
  const Outcome out = run_load(dies, "--num-requests 8 --turns 1 --concurrency 1");
  CHECK(out.code == 1);
  CHECK(shows(out.out, "! 5 x connection lost: no answer came"));
  CHECK(shows(out.err, "error: 5 of 8 requests had no whole answer; "));
}

TEST_CASE("load: a server that sends without end is left, whatever it sends") {
  const std::string many(3 << 20, 'x');
  const auto refused = [](const TinyServer& server, const std::string& what) {
    check_refused(shell("$B/load --url " + server.url() + "/other"), what);
  };
  refused(TinyServer([&](const Request&) {
            return Reply{TinyServer::stream_head() + TinyServer::chunk(many), false};
          }),
          "answer over 1 MiB, in the middle of an answer; wanted a server with OpenAI's API");
  refused(TinyServer([&](const Request&) { return Reply{"HTTP/1.1 200 OK\r\nX: " + many}; }),
          "broken HTTP");
  refused(TinyServer([&](const Request&) { return Reply{TinyServer::with_length(503, many)}; }),
          "HTTP 503");
  const TinyServer silent([](const Request&) { return Reply{"", false, 60'000}; });
  const Outcome stopped =
      shell("timeout --foreground -s INT 1 $B/load --url " + silent.url() + "/other");
  CHECK(stopped.err.find("interrupted") != std::string::npos);
}

TEST_CASE("load: a turn is not sent after one that failed, and a request waits for its moment") {
  const TinyServer server([](const Request& request) {
    return request.number == 0 ? Reply{TinyServer::with_length(503, "full")} : answer(request);
  });
  load::ClientOptions options;
  options.url = kv::parse_http_server(server.url(), "--url");
  load::Client client(options);
  load::WorkloadOptions two;
  two.num_requests = two.turns = 2;
  two.copies = 1;
  std::vector<load::Ask> asks = load::chat_workload(two);
  load::RunResult result = load::run(client, asks, "tiny", {});
  REQUIRE(result.outcomes.size() == 2);
  CHECK(result.outcomes[0].error == "HTTP 503");
  CHECK(result.outcomes[0].error_message == "full");
  CHECK(result.outcomes[1].error == "not sent");
  CHECK(server.num_posts() == 1);

  asks[1].follows.reset();
  asks[1].timestamp = 0.25;
  result = load::run(client, asks, "tiny", {});
  CHECK(server.num_posts() == 3);
  CHECK(result.seconds >= 0.25);
  CHECK(load::run_alone(client, asks, result).outcomes.size() == 2);
}

TEST_CASE("load: options and servers that do not fit are refused in one line") {
  check_refused(
      shell("$B/load --url http://127.0.0.1:1"),
      "no server answers at http://127.0.0.1:1; start one, in another terminal: ./course serve");
  check_refused(shell("$B/load --url https://127.0.0.1"), "no TLS");
  for (const char* url : {"127.0.0.1:8000", "http://", "ftp://x", "nonsense"}) {
    check_refused(shell(std::string("$B/load --url ") + url), "wanted http://HOST:PORT");
  }
  check_refused(shell("$B/load --rate 2 --concurrency 3"), "--concurrency");
  check_refused(shell("$B/load --prompts /nowhere"), "/nowhere");
  check_refused(shell("$B/load --num-requests 0"), "--num-requests");
  check_refused(shell("$B/load --seed x"), "'x' is not allowed, wanted 0 to");
  check_refused(shell("$B/load --api-key ''"), "--api-key");
  const TinyServer web(
      [](const Request&) { return Reply{TinyServer::with_length(404, "<html>")}; });
  check_refused(shell("$B/load --url " + web.url() + "/other"),
                "/v1/models: HTTP 404, <html>; wanted a server with OpenAI's API");
  const TinyServer server(answer);
  CHECK(shell("$B/load --num-requests 1 --url " + server.url() + "/v1/").code == 0);
  const Outcome odd = run_load(server, "--num-requests 1 --model \"$(printf 'a\\nb\\033')\"");
  CHECK(odd.out.starts_with("1 request to " + server.url() + " (a\\x0ab\\x1b), "));
}
