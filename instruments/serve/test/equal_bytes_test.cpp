// The promise over HTTP: a request's answer is the same alone and among others, whatever the server
// does meanwhile, and it is the answer of ./course run for that seed.
#define KV_SERVE_TESTS_SERVER
#include "instruments/serve/test/support.h"
#include "lessons/08_scheduler/engine.h"
#include "tests/support/same_bits.h"

using namespace serve_test;

namespace {

/// All at once; every other one as a stream.
Answers in_company(const Running& running, std::vector<json> requests) {
  for (size_t i = 1; i < requests.size(); i += 2) requests[i]["stream"] = true;
  return together(running, requests);
}

void check_same(const Answers& found, const Answers& wanted, const std::vector<json>& requests) {
  REQUIRE(found.size() == wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    INFO("request ", i, ": ", requests[i].dump());
    CHECK(found[i] == wanted[i]);
  }
}

serve::ServerOptions small_pool() {
  serve::ServerOptions options = serve_test::options();
  options.lesson.block_size = 4;
  options.lesson.num_blocks = 40;
  options.lesson.max_model_len = 120;
  options.lesson.serve.scheduler.max_tokens_per_pass = 48;
  return options;
}

}  // namespace

TEST_CASE("equal bytes: alone, and among others with preemptions, chunks and hits") {
  const std::vector<json> requests = mixed(48, 8);
  const Answers wanted = one_by_one(Running(), requests);
  {
    Running running(small_pool());
    check_same(in_company(running, requests), wanted, requests);
    CHECK(running.metric("vllm:num_preemptions_total") > 0);
    check_same(in_company(running, requests), wanted, requests);  // with what the cache has now
    CHECK(running.metric("vllm:prefix_cache_hits_total") > 0);
    CHECK(running.becomes_idle());
  }
  {
    serve::ServerOptions options = serve_test::options();
    options.lesson.serve.scheduler.chunked_prefill = false;
    options.lesson.serve.caching = false;
    check_same(in_company(Running(options), requests), wanted, requests);
  }
}

TEST_CASE("equal bytes: on every lesson's server") {
  const std::vector<json> requests = mixed(16, 8);
  const Answers wanted = one_by_one(Running(), requests);
  for (const int lesson : {9, 10, 11, 12, 14}) {  // 14 without --kv-dtype fp8
    CAPTURE(lesson);
    serve::ServerOptions options = small_pool();
    options.lesson.number = lesson;
    options.lesson.host_blocks = 64;
    Running running(options);
    check_same(in_company(running, requests), wanted, requests);
    CHECK(running.becomes_idle());
  }
}

TEST_CASE("serve: what the host's memory gives is counted apart, and all counts add up") {
  for (const int lesson : {8, 11, 12}) {
    CAPTURE(lesson);
    serve::ServerOptions options = small_pool();
    options.lesson.number = lesson;
    options.lesson.host_blocks = 400;
    options.tell_cached = true;
    Running running(options);
    int64_t looked_up = 0, found = 0;
    const auto ask = [&](int first) {
      const json request{{"prompt", tokens_from(first, 90)}, {"max_tokens", 2}};
      const json usage = running.complete(request).parsed()["usage"];
      looked_up += usage["prompt_tokens"].get<int64_t>();
      found += usage["prompt_tokens_details"]["cached_tokens"].get<int64_t>();
    };
    ask(300);
    ask(300);                                                  // found on the device
    for (const int first : {500, 700, 900, 1100}) ask(first);  // evict it
    ask(300);                                                  // only the host still has it
    const auto count = [&](const std::string& name) {
      return static_cast<int64_t>(running.metric("vllm:" + name + "_total"));
    };
    const int64_t hits = count("prefix_cache_hits"), rest = count("external_prefix_cache_queries"),
                  loaded = count("external_prefix_cache_hits");
    CHECK(count("prefix_cache_queries") == looked_up);
    CHECK(hits == 88);
    CHECK(hits + loaded == found);
    CHECK(loaded == (lesson == 8 ? 0 : 88));
    CHECK(rest == (lesson == 8 ? 0 : looked_up - hits));
  }
}

TEST_CASE("equal bytes: the tokens are those of lesson 08's engine for that seed") {
  std::vector<kv::Request> samples;
  const std::string prompt = "Once upon a time";
  const kv::Tokenizer tokenizer = kv::Tokenizer::load(KV_SOURCE_DIR "/models/tiny");
  kv::Model& model = kvtest::shipped_model();
  const kv::Request request{
      .prompt = tokenizer.encode(prompt),
      .max_tokens = 24,
      .sampling = {.temperature = 0.8f, .top_k = 50, .top_p = 0.9f, .seed = 11},
      .stop_token_ids = model.config().eos_token_ids};
  const std::vector<kv::Request> four = kv::samples_of(request, 4);
  const auto wanted = lesson08::make_engine(model, {})->generate(four);
  Running running;
  json body = json::parse(R"({"max_tokens":24,"temperature":0.8,"top_k":50,"top_p":0.9,"seed":11,
      "n":4,"return_token_ids":true})");
  body["prompt"] = prompt;
  const json answer = running.complete(body).parsed();
  for (size_t i = 0; i < 4; ++i) {
    CHECK(answer["choices"][i]["token_ids"] == json(wanted.completions[i].tokens));
    kv::StreamingDecoder decoder(tokenizer);
    std::string text;
    for (const int32_t token : wanted.completions[i].tokens) text += decoder.push(token);
    CHECK(answer["choices"][i]["text"] == text + decoder.finish());
  }
  // Token ids instead of the text; and the chat of a model without a template.
  json ids = body;
  ids["prompt"] = request.prompt;
  CHECK(running.complete(ids).parsed()["choices"] == answer["choices"]);
  json chat = body;
  chat.erase("prompt");
  chat["messages"] = {{{"role", "user"}, {"content", prompt}}};
  const json said = running.ask(post("/v1/chat/completions", chat.dump())).parsed();
  for (size_t i = 0; i < 4; ++i) {
    CHECK(said["choices"][i]["message"]["content"] == answer["choices"][i]["text"]);
  }
}

TEST_CASE("equal bytes: a request without a seed is told the one it got, and gets it again") {
  const json request = {
      {"prompt", "Once upon a time"}, {"max_tokens", 12}, {"n", 2}, {"return_token_ids", true}};
  json stream = request;
  stream["stream"] = true;
  stream["stream_options"] = {{"include_usage", true}};
  {
    Running running;
    const json first = running.complete(request).parsed(),
               other = running.complete(request).parsed();
    CHECK(first["seed"] != other["seed"]);
    CHECK(first["choices"] != other["choices"]);
    json again = request;
    again["seed"] = first["seed"];
    CHECK(running.complete(again).parsed()["choices"] == first["choices"]);
    const Client::Reply told = running.ask(post("/v1/completions", stream.dump()));
    again["seed"] = events_of(told.body).back().at("seed");
    again["stream"] = true;
    CHECK(answer_of(running.ask(post("/v1/completions", again.dump()))) == answer_of(told));
  }
  serve::ServerOptions with_seed = options();
  with_seed.seed = 5;
  Running running(with_seed);
  const json first = running.complete(request).parsed();
  CHECK(first["seed"] == 5);
  CHECK(running.complete(request).parsed()["choices"] == first["choices"]);
}

TEST_CASE("serve: the cached tokens of a prompt count once, whatever n is") {
  serve::ServerOptions options = serve_test::options();
  options.tell_cached = true;
  Running running(options);
  const std::vector<int32_t> prompt = tokens_from(300, 40);
  json request = {{"prompt", {prompt, prompt}}, {"max_tokens", 2}, {"n", 4}};
  running.complete(request);  // what the second prompt finds depends on the passes
  const json whole = running.complete(request).parsed()["usage"];
  CHECK(whole["prompt_tokens"] == 80);
  CHECK(whole["prompt_tokens_details"]["cached_tokens"] == 64);
  request["stream"] = true;
  request["stream_options"] = {{"include_usage", true}};
  const json usage =
      events_of(running.ask(post("/v1/completions", request.dump())).body).back()["usage"];
  CHECK(usage["prompt_tokens_details"]["cached_tokens"] == 64);
}

TEST_CASE("equal bytes: the server computes requests a second time, and counts") {
  serve::ServerOptions options = small_pool();
  options.limits.check_equal_bits = 0.5;
  Running running(options);
  in_company(running, mixed(20, 8));
  // Half of 5 x 3 + 15. An answer leaves before its second computation has begun.
  CHECK(eventually([&] { return running.metric("course:equal_bits_checked_total") == 15; }));
  CHECK(running.becomes_idle());
  CHECK(running.metric("course:equal_bits_failed_total") == 0);
}

TEST_CASE("equal bytes: a second computation that differs is seen") {
  serve::EqualBits check(1);
  const serve::Submission submission{.id = 3, .request = kvtest::request_of(4, 9)};
  const auto second = [&](std::vector<kv::NewToken> tokens) {
    check.note(submission);
    check.note_token({.id = 3, .token = 5, .logits_xxh64 = 1});
    check.note_token({.id = 3, .token = 6, .logits_xxh64 = 2});
    const auto again = check.repeat(3, 4);
    REQUIRE(again);
    CHECK(again->request.max_tokens == 2);
    std::optional<bool> equal;
    for (size_t i = 0; i < tokens.size() && !equal; ++i) {
      tokens[i].id = 4;
      equal = check.compare(tokens[i], i + 1 == tokens.size());
    }
    return equal;
  };
  CHECK(second({{0, 5, 1}, {0, 6, 2}}) == true);
  CHECK(second({{0, 5, 1}, {0, 7, 2}}) == false);
  CHECK(second({{0, 4, 1}, {0, 6, 2}}) == false);
  CHECK(second({{0, 5, 1}, {0, 6, 3}}) == false);  // the same token from other logits
  CHECK(second({{0, 5, 1}}) == false);
  check.note(submission);
  check.forget(3);
  CHECK(!check.repeat(3, 4));
}
