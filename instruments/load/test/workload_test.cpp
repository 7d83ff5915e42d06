// The requests that a load generator sends.

#include "instruments/load/workload.h"

#include <doctest/doctest.h>

#include <fstream>
#include <set>

#include "common/error.h"
#include "tests/support/temp_dir.h"

namespace {

using namespace load;
using Fields = nlohmann::ordered_json;

/// All bodies, where each answer is "answer to" and its request's number.
std::vector<Fields> bodies_of(const std::vector<Ask>& asks, bool same_answers = false) {
  std::vector<std::string> answers(asks.size());
  std::vector<Fields> messages(asks.size()), bodies;
  for (size_t i = 0; i < asks.size(); ++i) {
    bodies.push_back(Fields::parse(body_of(asks, i, "tiny", answers, messages)));
    answers[i] = same_answers ? "yes" : "answer to " + std::to_string(i);
  }
  return bodies;
}

std::vector<Ask> from(const std::string& text, bool trace, const WorkloadOptions& options = {}) {
  const kvtest::TempDir dir;
  std::ofstream(dir.path() / "file") << text;
  return trace ? trace_workload(dir.path() / "file", options)
               : file_workload(dir.path() / "file", options);
}

void check_refused(const std::string& text, bool trace, const std::string& what) {
  CHECK_THROWS_WITH_AS(from(text, trace), doctest::Contains(what.c_str()), kv::UserError);
}

}  // namespace

TEST_CASE("load: made-up conversations share system prompts, grow, and are held twice") {
  WorkloadOptions options;
  options.num_requests = 30;
  const std::vector<Ask> asks = chat_workload(options);
  REQUIRE(asks.size() == 30);
  CHECK(bodies_of(asks) == bodies_of(chat_workload(options)));
  options.seed = 1;
  CHECK(bodies_of(asks) != bodies_of(chat_workload(options)));

  const std::vector<Fields> bodies = bodies_of(asks, true);
  std::set<std::string> systems, different;
  for (size_t i = 0; i < bodies.size(); ++i) {
    const Fields& messages = bodies[i]["messages"];
    systems.insert(messages[0]["content"].get<std::string>());
    different.insert(bodies[i].dump());
    CHECK(messages.back()["role"] == "user");
    CHECK(bodies[i]["stream"] == true);
    CHECK(bodies[i]["model"] == "tiny");
    CHECK(bodies[i]["max_tokens"] == 32);
    if (!asks[i].follows) {
      CHECK(messages.size() == 2);
      continue;
    }
    // All that was said before stands in front, with the answer.
    const Fields& before = bodies[*asks[i].follows]["messages"];
    REQUIRE(messages.size() == before.size() + 2);
    for (size_t m = 0; m < before.size(); ++m) CHECK(messages[m] == before[m]);
    CHECK(messages[before.size()]["content"] == "yes");
  }
  CHECK(systems.size() == 4);
  CHECK(different.size() == 16);  // 8 talks, 4 of them different; the last turn is short
  // Without equal answers the second turns of two copies are different requests.
  std::set<std::string> later;
  for (const Fields& body : bodies_of(asks)) later.insert(body.dump());
  CHECK(later.size() == 26);
}

TEST_CASE("load: prompts from a file, as text or as the API's fields, again and again") {
  WorkloadOptions options;
  options.num_requests = 5;
  const std::string text =
      "Once upon a time\r\n\n{\"prompt\": \"A cat\", \"max_tokens\": 7, \"pass\": 3, \"seed\": 9}\n"
      "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"stream\": false}";
  std::vector<Fields> bodies = bodies_of(from(text, false, options));
  REQUIRE(bodies.size() == 5);
  CHECK(bodies[0]["prompt"] == "Once upon a time");
  CHECK(bodies[0]["max_tokens"] == 32);
  CHECK(bodies[1]["max_tokens"] == 7);
  CHECK(bodies[1]["seed"] == 9);
  CHECK(!bodies[1].contains("pass"));
  CHECK(bodies[2]["messages"].size() == 1);
  CHECK(bodies[2]["stream"] == true);
  CHECK(bodies[3] == bodies[0]);
  CHECK(bodies[4] == bodies[1]);
  options.max_tokens = 4;
  options.temperature = 0;
  options.logprobs = true;
  bodies = bodies_of(from(text, false, options));
  CHECK(bodies[1]["max_tokens"] == 4);
  CHECK(bodies[1]["temperature"] == 0);
  CHECK(bodies[1]["logprobs"] == 0);
  CHECK(bodies[2]["logprobs"] == true);

  check_refused("\n \n", false, "no prompt in it");
  check_refused("ok\n{\"prompt\": \"a\", \"messages\": []}", false,
                "line 2: wanted \"prompt\" or \"messages\"");
  check_refused("{\"n\": 1}", false, "line 1: wanted \"prompt\" or \"messages\"");
  check_refused("{\"prompt\": ", false, "line 1");
  CHECK_THROWS_AS(file_workload("/nowhere/at/all", {}), kv::UserError);
}

TEST_CASE("load: what is no prompt is not sent as one") {
  for (const char* array :
       {R"([{"id": "a1", "conversations": [{"from": "human", "value": "Once"}]}])", "[",
        "[1, 2, 3]", " [[1], [2]]", "[\"a\",", "['a', 'b']", "  [ {"}) {
    CAPTURE(array);
    check_refused(array, false, "line 1: a JSON array, wanted");
  }
  check_refused("\"Once upon\"", false, "line 1: a JSON string, wanted");
  check_refused("ok\n{\n\"prompt\": \"a\"}", false, "line 2");
  check_refused("\x1f\x8b\x08", false, "line 1: not text in UTF-8");
  check_refused(std::string("a\0b\0", 4), false, "line 1: not text in UTF-8");
  check_refused(R"({"conversations": []})", false, "line 1: wanted \"prompt\" or");
  WorkloadOptions options;
  options.num_requests = 4;
  const std::vector<Ask> asks = from(
      "  {\"prompt\": \"Once\", \"max_tokens\": 2.0}\n[INST] Hi [/INST]\n  indented\n\"Yes,\" he "
      "said",
      false, options);
  CHECK(asks.at(0).fields["prompt"] == "Once");
  CHECK(asks.at(0).fields["max_tokens"] == 2);
  CHECK(asks.at(1).fields["prompt"] == "[INST] Hi [/INST]");
  CHECK(asks.at(2).fields["prompt"] == "  indented");
  CHECK(asks.at(3).fields["prompt"] == "\"Yes,\" he said");
}

TEST_CASE("load: files that were joined have byte order marks, and lines may end in CR and LF") {
  const std::string mark = "\xEF\xBB\xBF", three = R"({"prompt":"Three","seed":null})";
  const auto asks = from(mark + "{\"prompt\": \"One\"}\r\nTwo\r\n" + mark + three, false);
  CHECK(asks.at(0).fields["prompt"] == "One");
  CHECK(asks.at(1).fields["prompt"] == "Two");
  CHECK(asks.at(2).fields["prompt"] == "Three");
  CHECK(asks.at(2).fields["seed"] == 2);  // null leaves it open
}

TEST_CASE("load: a trace keeps its times, its lengths and what its prompts share") {
  WorkloadOptions options;
  options.shrink = 128;
  options.speed = 2;
  const std::string text =
      R"({"timestamp": 1000, "input_length": 1100, "output_length": 500, "hash_ids": [5, 6, 7]})"
      "\n"
      R"({"timestamp": 3000, "input_length": 1600, "output_length": 10, "hash_ids": [5, 6, 8, 9]})"
      "\n";
  const std::vector<Ask> asks = from(text, true, options);
  const std::vector<Fields> bodies = bodies_of(asks);
  REQUIRE(bodies.size() == 2);
  CHECK(asks[0].timestamp == 0.0);
  CHECK(asks[1].timestamp == 1.0);
  CHECK(bodies[0]["max_tokens"] == 3);
  CHECK(bodies[1]["max_tokens"] == 1);
  CHECK(bodies[0]["ignore_eos"] == true);
  const std::vector<int> one = bodies[0]["prompt"], other = bodies[1]["prompt"];
  CHECK(one.size() == 8);
  CHECK(other.size() == 12);
  CHECK(std::equal(one.begin(), one.end(), other.begin()));  // two blocks of 4
  for (const int token : other) CHECK((token >= 0 && token < 256));

  options.num_requests = 100;
  const std::vector<Ask> example =
      trace_workload(KV_SOURCE_DIR "/instruments/replay/example.jsonl", options);
  CHECK(example.size() == 100);

  check_refused("", true, "no request in it");
  const std::string of_16 =
      R"({"timestamp": 0.5, "input_length": 40, "output_length": 7, "hash_ids": [11.0, 12, 13]})"
      "\n"
      R"({"timestamp": 3.5, "input_length": 72, "output_length": 9, "hash_ids": [11, 12, 14, 15, 16]})";
  check_refused(of_16, true, "3 hash ids for 40 input tokens in blocks of 512, wanted 1");
  WorkloadOptions small;
  small.block_size = 16;
  CHECK_THROWS_WITH_AS(from(of_16, true, small), doctest::Contains("--time-unit s"), kv::UserError);
  small.time_unit = replay::TimeUnit::kSeconds;
  const std::vector<Ask> two = from(of_16, true, small);
  CHECK(two.at(1).timestamp == 3.0);
  const std::vector<int> first = two[0].fields["prompt"], second = two[1].fields["prompt"];
  CHECK(first.size() == 40);
  CHECK(std::equal(first.begin(), first.begin() + 32, second.begin()));
  CHECK_FALSE(std::equal(first.begin() + 32, first.end(), second.begin() + 32));
  small.time_unit = replay::TimeUnit::kMilliseconds;
  CHECK(from(of_16, true, small).at(1).timestamp == 0.003);

  check_refused("{\"timestamp\": 0}", true, "line 1");
  const auto line = [](const char* time, const char* input, const char* ids) {
    return fmt::format(
        R"({{"timestamp": {}, "input_length": {}, "output_length": 5, "hash_ids": {}}})", time,
        input, ids);
  };
  check_refused(line("0", "1100", "[5]"), true, "1 hash id for 1100 input tokens");
  check_refused(line("-1", "100", "[5]"), true, "timestamp");
  check_refused(line("0", "0", "[5]"), true, "1 hash id for 0 input tokens");
  check_refused(line("0", "0", "[]"), true, "input_length");
  check_refused(line("0", "100", "[-5]"), true, "hash id is -5");
}
