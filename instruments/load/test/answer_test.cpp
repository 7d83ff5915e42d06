// An answer, read from the bytes of its stream, and what many answers come to.

#include "instruments/load/answer.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "instruments/load/account.h"
#include "instruments/load/plot.h"

namespace {

using namespace load;
using std::chrono::milliseconds;

const std::string kChat =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
    "\"logprobs\":null,\"finish_reason\":null}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"One\"},\"logprobs\":{\"content\":"
    "[{\"token\":\"One\",\"logprob\":-0.5}]},\"finish_reason\":null}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" "
    "d\xC3\xA9\"},\"logprobs\":{\"content\":"
    "[{\"token\":\" d\",\"logprob\":-1.25},{\"token\":\"\xC3\xA9\",\"logprob\":-2}]},"
    "\"finish_reason\":\"length\"}]}\n\n"
    "data: "
    "{\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"total_tokens\":12,\"completion_tokens\":3,"
    "\"prompt_tokens_details\":{\"cached_tokens\":8}}}\n\n"
    "data: [DONE]\n\n";

/// The stream in pieces of `size` bytes, 10 ms apart.
Outcome read(const std::string& stream, size_t size) {
  const Clock::time_point begin = Clock::now();
  AnswerReader reader(begin);
  Clock::time_point now = begin;
  for (size_t at = 0; at < stream.size(); at += size) {
    now += milliseconds(10);
    reader.take(stream.substr(at, size), now);
  }
  Outcome outcome;
  outcome.request = 7;
  reader.finish(outcome, now + milliseconds(10));
  return outcome;
}

}  // namespace

TEST_CASE("load: an answer is the same however its bytes come") {
  const Outcome whole = read(kChat, kChat.size());
  CHECK(whole.error.empty());
  CHECK(whole.request == 7);
  CHECK(whole.text == "One d\xC3\xA9");
  CHECK(whole.prompt_tokens == 9);
  CHECK(whole.cached_tokens == 8);
  CHECK(whole.generated_tokens == 3);
  CHECK(whole.first_token == doctest::Approx(0.01));
  CHECK(whole.total == doctest::Approx(0.02));
  REQUIRE(whole.gaps.size() == 1);
  CHECK(whole.gaps[0] == 0);
  for (const size_t size : {1u, 2u, 3u, 7u, 100u}) {
    const Outcome pieces = read(kChat, size);
    CHECK(pieces.answer == whole.answer);
    CHECK(pieces.generated_tokens == 3);
    CHECK(pieces.gaps.size() == 1);
    // The role chunk is no token.
    CHECK(pieces.first_token > 0.01 * static_cast<double>(kChat.find("One\"") / size));
  }
  std::string with_returns;
  for (const char c : kChat) with_returns += c == '\n' ? std::string("\r\n") : std::string(1, c);
  CHECK(read(": a comment\n\n" + with_returns, 5).answer == whole.answer);
  const Outcome no_done = read(kChat.substr(0, kChat.size() - 14), 5);
  CHECK(no_done.answer == whole.answer);
  CHECK(no_done.error.empty());
  CHECK(read("data: {\"error\": null,\ndata:\"choices\":[]}\n\n" + kChat, 5).error.empty());
}

TEST_CASE("load: the first text is that of a thought, a refusal or a tool's call, too") {
  const auto delta = [](const std::string& fields) {
    return "data: {\"choices\":[{\"index\":0,\"delta\":{" + fields + "}}]}\n\n";
  };
  const std::string end = delta("\"content\":\"yes\"") + "data: [DONE]\n\n";
  for (const std::string field :
       {R"("reasoning_content":"hm")", R"("reasoning":"hm")", R"("refusal":"no")",
        R"("content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}])",
        R"("reasoning_details":[{"type":"reasoning.text","text":"hm"}])",
        R"("tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}])",
        R"("tool_calls":[{"index":0,"function":{"arguments":"{"}}])",
        R"("function_call":{"arguments":"{"})"}) {
    CAPTURE(field);
    const Clock::time_point begin = Clock::now();
    AnswerReader reader(begin);
    reader.take(delta(R"("role":"assistant","content":"","reasoning":null)"),
                begin + milliseconds(5));
    reader.take(delta(field), begin + milliseconds(20));
    reader.take(delta(field), begin + milliseconds(70));
    reader.take(end, begin + milliseconds(80));
    Outcome outcome;
    reader.finish(outcome, begin + milliseconds(90));
    CHECK(outcome.first_token == doctest::Approx(0.02));
    REQUIRE(outcome.gaps.size() == 2);
    CHECK(outcome.gaps[0] == doctest::Approx(0.05));
    CHECK(outcome.text.ends_with("yes"));
    CHECK(outcome.answer != read(end, 1000).answer);
  }
}

TEST_CASE("load: an answer has all choices, and log probabilities whatever chunk they came in") {
  const auto chunk = [](int index, const std::string& text, const std::string& tokens,
                        const std::string& logprobs, const std::string& reason) {
    return "data: {\"choices\":[{\"index\":" + std::to_string(index) + ",\"text\":\"" + text +
           "\",\"logprobs\":{\"tokens\":[" + tokens + "],\"token_logprobs\":[" + logprobs +
           "]},\"finish_reason\":" + reason + "}]}\n\n";
  };
  const std::string end = "data: [DONE]\n\n";
  const Outcome one = read(chunk(0, "ab", R"("a","b")", "-1,-2", "\"stop\"") +
                               chunk(1, "c", R"("c")", "-3", "\"length\"") + end,
                           1000);
  const Outcome other =
      read(chunk(1, "c", R"("c")", "-3", "\"length\"") + chunk(0, "a", R"("a")", "-1", "null") +
               chunk(0, "b", R"("b")", "-2", "\"stop\"") + end,
           3);
  CHECK(one.error.empty());
  CHECK(one.answer == other.answer);
  CHECK(one.text == "ab");
  for (const auto& [index, text, tokens, logprobs, reason] :
       {std::tuple{0, "ab", R"("a","b")", "-1,-2.5", "\"stop\""},
        std::tuple{0, "ab", R"("a","b")", "-1,-2", "\"length\""},
        std::tuple{0, "aB", R"("a","b")", "-1,-2", "\"stop\""}}) {
    const Outcome third = read(chunk(index, text, tokens, logprobs, reason) +
                                   chunk(1, "c", R"("c")", "-3", "\"length\"") + end,
                               1000);
    CHECK(third.answer != one.answer);
  }
}

TEST_CASE("load: a stream that is broken is an error, and the first one counts") {
  const std::string first = kChat.substr(0, kChat.find("\n\n") + 2);
  const std::string done = "\n\ndata: [DONE]\n\n";
  CHECK(read(first, 1000).error == "stream without its end");
  CHECK(read("", 1000).error == "stream without its end");
  CHECK(read("{\"error\":{\"message\":\"full\"}}", 9).error_message == "full");
  CHECK(read("data: {\"choi" + done, 1000).error == "broken stream");
  CHECK(read("data: 7" + done, 1000).error == "broken stream");
  for (const std::string full :
       {R"({"error":{"message":"full","code":500}})", R"({"object":"error","message":"full"})"}) {
    CHECK(read(first + "data: " + full + done, 9).error == "error in a stream");
    CHECK(read(first + "data: " + full + done, 9).error_message == "full");
  }
  for (const char* odd :
       {"{\"choices\":7}", "{\"choices\":[7]}", "{\"choices\":[{\"delta\":[]}]}", "{}",
        "{\"choices\":[{\"index\":\"x\",\"text\":5,\"logprobs\":{\"tokens\":3}}]}"}) {
    CHECK(read("data: " + (odd + done), 4).error.empty());
  }
  CHECK(error_message_of("{\"error\":\"Unauthorized\"}") == "Unauthorized");
  CHECK(error_message_of("<html>") == "<html>");
}

TEST_CASE("load: a stream that never ends is cut, whether it has lines or none") {
  for (const std::string line : {"data: {\"choices\":[]}\n\n", ": still here\n\n", "xxxx"}) {
    CAPTURE(line);
    AnswerReader reader(Clock::now(), 1 << 20);
    size_t taken = 0;
    const auto take_all = [&] {
      for (; taken < (2 << 20); taken += line.size()) reader.take(line, Clock::now());
    };
    CHECK_THROWS_WITH_AS(take_all(), "answer over 1 MiB", std::runtime_error);
    CHECK(taken <= (1 << 20));
  }
}

TEST_CASE("load: quantiles, tables and plots of no value, one and many") {
  CHECK(Account::quantile({}, 0.5) == 0);
  CHECK(Account::quantile({3}, 0.01) == 3);
  CHECK(Account::quantile({1, 2, 3, 4}, 0.5) == 2);
  CHECK(Account::quantile({1, 2, 3, 4}, 0.99) == 4);
  std::vector<Outcome> outcomes(3);
  outcomes[0].first_token = 0.002, outcomes[0].total = 1.5, outcomes[0].gaps = {0.01, 0.02};
  outcomes[0].generated_tokens = 3;
  outcomes[1].error = "HTTP 503", outcomes[1].error_message = "full";
  outcomes[2].error = "HTTP 503", outcomes[2].error_message = "full again";
  const Account account(outcomes, 2);
  CHECK(account.num_whole == 1);
  CHECK(!account.tells_cached);
  outcomes[0].cached_tokens = 0;
  CHECK(Account(outcomes, 2).tells_cached);
  CHECK(account.errors() == "! 2 x HTTP 503: full\n");
  outcomes[1].error_message = "two\nlines\x1b[31m";
  CHECK(Account(outcomes, 2).errors() == "! 2 x HTTP 503: two\\x0alines\\x1b[31m\n");
  CHECK(account.table().find("1.50 s") != std::string::npos);
  CHECK(account.json()["tokens_per_second"] == 1.5);
  CHECK(account.json()["errors"]["HTTP 503"] == 2);
  const std::string svg = plot("title", account);
  CHECK(svg.ends_with("</svg>\n"));
  for (const char* name :
       {">first token<", ">between tokens<", ">end to end<", ">1 ms<", ">10 s<"}) {
    CHECK(svg.find(name) != std::string::npos);
  }
  CHECK(plot("nothing", Account({}, 0)).ends_with("</svg>\n"));
}
