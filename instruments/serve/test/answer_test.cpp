// Answers as they are written, byte for byte.
#include "instruments/serve/test/api_support.h"

using namespace serve_test;

TEST_CASE("api: a stream of a chat") {
  const ApiRequest request = chat(R"(,"stream":true,"stream_options":{},"n":2,"stop":"b")");
  const auto chunk = [](int index, const std::string& rest) {
    return chat_chunk("{\"index\":" + std::to_string(index) + "," + rest);
  };
  const auto text = [](const std::string& content) {
    return R"("delta":{"content":")" + content + R"("},"logprobs":null,"finish_reason":null})";
  };
  // Half a character and its end, a stop string, and the length.
  CHECK(
      stream(request,
             {{0, 0xC3}, {0, 0xA9}, {1, 'a'}, {1, 'b'}, {0, 'c', FinishReason::kLength}}) ==
      chunk(0, kRole) + chunk(1, kRole) + chunk(0, text("\xC3\xA9")) + chunk(1, text("a")) +
          chunk(
              1,
              R"("delta":{"content":""},"logprobs":null,"finish_reason":"stop","stop_reason":"b"})") +
          chunk(
              0,
              R"("delta":{"content":"c"},"logprobs":null,"finish_reason":"length","stop_reason":null})") +
          R"(data: {"id":"I","object":"chat.completion.chunk","created":1,"model":"M","choices":[],)"
          R"("usage":{"prompt_tokens":2,"total_tokens":7,"completion_tokens":5},"seed":7})"
          "\n\n" +
          kDone);
}

TEST_CASE("api: a stream of a completion, its stop token and its echo") {
  const int32_t eos = *tokenizer().id_of_special("<|im_end|>");
  const auto text = [](const std::string& content, const std::string& end) {
    return text_chunk(R"({"index":0,"text":")" + content + R"(","logprobs":null,"finish_reason":)" +
                      end + "}");
  };
  CHECK(stream(completion(R"(,"stream":true,"echo":true)"),
               {{0, 'a'}, {0, eos, FinishReason::kStop}}) ==
        text("xa", R"(null,"stop_reason":null)") + text("", R"("stop","stop_reason":null)") +
            kDone);
  CHECK(stream(completion(R"(,"stream":true,"stop_token_ids":[97])"),
               {{0, 'a', FinishReason::kStop}}) == text("", R"("stop","stop_reason":97)") + kDone);
  CHECK(stream(completion(R"(,"stop_token_ids":[97],"include_stop_str_in_output":true)"),
               {{0, 'a', FinishReason::kStop}}) == text("a", R"("stop","stop_reason":97)") + kDone);
  Answer alone = answer_of(completion(R"(,"echo":true,"max_tokens":0)"));
  CHECK(alone.is_complete());
  CHECK(alone.take_chunks() == text("x", R"("length","stop_reason":null)") + kDone);
}

TEST_CASE("api: whole answers") {
  CHECK(
      body(completion(R"(,"n":2)"),
           {{1, 'b', FinishReason::kLength}, {0, 'a', FinishReason::kLength}}) ==
      R"({"id":"I","object":"text_completion","created":1,"model":"M","choices":[)"
      R"({"index":0,"text":"a","logprobs":null,"finish_reason":"length","stop_reason":null},)"
      R"({"index":1,"text":"b","logprobs":null,"finish_reason":"length","stop_reason":null}],)"
      R"("usage":{"prompt_tokens":2,"total_tokens":4,"completion_tokens":2,"prompt_tokens_details":null},"seed":7})");
  CHECK(
      body(chat(""), {{0, 'a'}, {0, 0xC3, FinishReason::kCancelled}}) ==
      R"({"id":"I","object":"chat.completion","created":1,"model":"M","choices":[)"
      R"({"index":0,"message":{"role":"assistant","content":"a)"
      "\uFFFD"
      R"(","refusal":null,"tool_calls":[]},)"
      R"("logprobs":null,"finish_reason":"abort","stop_reason":null}],)"
      R"("usage":{"prompt_tokens":2,"total_tokens":4,"completion_tokens":2,"prompt_tokens_details":null},"seed":7})");
  const ApiRequest ids = completion(R"(,"return_token_ids":true)");
  const auto json = nlohmann::json::parse(body(ids, {{0, 'a'}, {0, 'b', FinishReason::kLength}}));
  CHECK(json["choices"][0]["token_ids"] == nlohmann::json{'a', 'b'});
  CHECK(json["choices"][0]["prompt_token_ids"] == nlohmann::json{1, 2});
  CHECK(json["usage"]["prompt_tokens_details"]["cached_tokens"] == 0);
}

TEST_CASE("api: log probabilities in both forms") {
  const float least = -std::numeric_limits<float>::infinity();
  const std::vector<Token> tokens = {
      {0, 'a', {}, {{'a', -0.5f}, {'b', -0.25f}, {'a', -0.5f}}},  // its own, then the likeliest
      {0, 0xC3, {}, {{0xC3, least}, {'a', -1.0f}, {'b', -2.0f}}},
      {0, 0xA9, FinishReason::kLength, {{0xA9, -1.0f}, {0xA9, -1.0f}, {'b', -2.0f}}}};
  const auto text = nlohmann::ordered_json::parse(body(completion(R"(,"logprobs":2)"), tokens));
  CHECK(text["choices"][0]["logprobs"].dump() ==
        R"({"text_offset":[0,1,1],"token_logprobs":[-0.5,-9999.0,-1.0],)"
        R"("tokens":["a","bytes:\\xc3","bytes:\\xa9"],)"
        R"("top_logprobs":[{"a":-0.5,"b":-0.25},{"bytes:\\xc3":-9999.0,"a":-1.0,"b":-2.0},)"
        R"({"bytes:\\xa9":-1.0,"b":-2.0}]})");
  const auto chats =
      nlohmann::ordered_json::parse(body(chat(R"(,"logprobs":true,"top_logprobs":1)"), tokens));
  CHECK(
      chats["choices"][0]["logprobs"]["content"][0].dump() ==
      R"({"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[{"token":"a","logprob":-0.5,"bytes":[97]}]})");
  CHECK(chats["choices"][0]["logprobs"]["content"][1]["bytes"].dump() == "[195]");
  // The token itself is one of the likeliest, and is there once.
  const auto two =
      nlohmann::json::parse(body(chat(R"(,"logprobs":true,"top_logprobs":2)"), tokens));
  const auto& top = two["choices"][0]["logprobs"]["content"][2]["top_logprobs"];
  REQUIRE(top.size() == 2);
  CHECK(top[0]["bytes"].dump() == "[169]");
  CHECK(top[1]["token"] == "b");
  // A chunk for every token, also for one without text.
  const std::string events = stream(completion(R"(,"stream":true,"logprobs":0)"), tokens);
  CHECK(events.find(R"("text":"","logprobs":{"text_offset":[1],"token_logprobs":[-9999.0])") !=
        events.npos);
}

TEST_CASE("api: log probabilities and offsets go by token, not by its text") {
  const int32_t special = *tokenizer().id_of_special("<|im_end|>");
  // Pieces of characters, and ids that the tokenizer lacks, have names of their own.
  const std::vector<Token> tokens = {
      {0, 'x', {}, {{'x', -1.0f}, {0x80, -2.0f}, {0x81, -3.0f}, {9000, -4.0f}, {9001, -5.0f}}},
      {0, special, {}, {{special, -1.0f}}},
      {0, 0xF0, {}, {{0xF0, -1.0f}}},
      {0, 0x9F, {}, {{0x9F, -1.0f}}},
      {0, 0x98, {}, {{0x98, -1.0f}}},
      {0, 0x80, {}, {{0x80, -1.0f}}},
      {0, 9000, {}, {{9000, -1.0f}}},
      {0, 'y', FinishReason::kLength, {{'y', -1.0f}}}};
  const auto json =
      nlohmann::ordered_json::parse(body(completion(R"(,"logprobs":4,"echo":false)"), tokens));
  const auto& choice = json["choices"][0];
  CHECK(choice["text"] == "x\U0001F600\uFFFDy");
  CHECK(choice["logprobs"]["text_offset"].dump() == "[0,1,1,1,1,1,2,3]");
  CHECK(
      choice["logprobs"]["top_logprobs"][0].dump() ==
      R"({"x":-1.0,"bytes:\\x80":-2.0,"bytes:\\x81":-3.0,"token_id:9000":-4.0,"token_id:9001":-5.0})");
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string name = choice["logprobs"]["tokens"][i];
    CHECK(choice["logprobs"]["top_logprobs"][i][name] == -1.0);
  }
}

TEST_CASE("api: a request without a seed gets one of its own, and is told it") {
  ApiRules rules = kRules;
  rules.defaults.seed.reset();
  const auto parse = [&](const std::string& fields) {
    return serve::parse_completion("{\"prompt\":\"x\"" + fields + "}", rules);
  };
  const uint64_t first = parse("").sampling.seed;
  CHECK(parse("").sampling.seed != first);
  CHECK(first < uint64_t{1} << 53);  // JavaScript holds it
  CHECK(parse(R"(,"seed":9)").sampling.seed == 9);
  const auto seed_in = [](const ApiRequest& request) {
    return nlohmann::json::parse(body(request, {{0, 'a', FinishReason::kLength}}))["seed"];
  };
  CHECK(seed_in(parse(R"(,"seed":-1)")) == -1);
  const ApiRequest request = parse("");
  CHECK(seed_in(request) == request.sampling.seed);
}
