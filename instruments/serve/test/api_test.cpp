// Requests as they are read, and answers as they are written, byte for byte.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "common/error.h"
#include "instruments/serve/api/answer.h"
#include "instruments/serve/http/framing.h"
#include "instruments/serve/test/support.h"
#include "tests/support/temp_dir.h"

using kv::FinishReason;
using serve::Answer;
using serve::ApiError;
using serve::ApiRequest;
using serve::ApiRules;

namespace {

const ApiRules kRules{.model_name = "M", .defaults = {.temperature = 0.5, .top_k = 20, .seed = 7}};

ApiRequest completion(const std::string& fields) {
  return serve::parse_completion("{\"prompt\":\"x\"" + fields + "}", kRules);
}
ApiRequest chat(const std::string& fields) {
  return serve::parse_chat(R"({"messages":[{"role":"user","content":"x"}])" + fields + "}", kRules);
}

/// The status and the field of the error that a call throws.
std::string refused(const auto& call) {
  try {
    call();
  } catch (const ApiError& error) {
    const auto body = nlohmann::json::parse(body_of(error))["error"];
    CHECK(body["code"] == error.status);
    CHECK(body["message"] != "");
    return std::to_string(error.status) + " " + error.param;
  }
  return "accepted";
}

const kv::Tokenizer& tokenizer() {
  static const kv::Tokenizer small =
      kv::Tokenizer::parse(serve_test::chat_tokenizer({{"t", "h"}, {"th", "e"}}).dump(), "small");
  return small;
}

struct Token {
  int choice;
  int32_t id;
  std::optional<FinishReason> ended = {};
  std::vector<kv::TokenLogprob> logprobs = {};
};

Answer answer_of(const ApiRequest& request,
                 const std::vector<std::vector<int32_t>>& prompts = {{1, 2}}) {
  return Answer(request, {.id = "I", .model_name = "M", .created = 1}, prompts, tokenizer());
}

/// The events of a stream; after each token they are taken once.
std::string stream(const ApiRequest& request, const std::vector<Token>& tokens) {
  Answer answer = answer_of(request);
  std::string events;
  for (const Token& token : tokens) {
    answer.add(token.choice, {.token = token.id, .logprobs = token.logprobs}, token.ended);
    events += answer.take_chunks();
  }
  return events;
}

std::string body(const ApiRequest& request, const std::vector<Token>& tokens) {
  Answer answer = answer_of(request);
  for (const Token& token : tokens) {
    answer.add(token.choice, {.token = token.id, .logprobs = token.logprobs}, token.ended);
  }
  REQUIRE(answer.is_complete());
  return answer.body();
}

std::string chat_chunk(const std::string& choices) {
  return R"(data: {"id":"I","object":"chat.completion.chunk","created":1,"model":"M","choices":[)" +
         choices + "]}\n\n";
}
std::string text_chunk(const std::string& choices) {
  return R"(data: {"id":"I","object":"text_completion","created":1,"model":"M","choices":[)" +
         choices + "]}\n\n";
}
const std::string kRole =
    R"("delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null})";
const std::string kDone = "data: [DONE]\n\n";

}  // namespace

TEST_CASE("api: defaults are vLLM's, after those of the model's folder") {
  const ApiRequest c = completion("");
  CHECK(c.max_tokens == 16);
  CHECK(c.sampling.temperature == 0.5f);
  CHECK(c.sampling.top_k == 20);
  CHECK(c.sampling.seed == 7);
  CHECK(c.num_logprobs == -1);
  CHECK(completion(R"(,"max_tokens":null,"temperature":null,"n":null)").max_tokens == 16);
  CHECK(!chat("").max_tokens);
  CHECK(chat(R"(,"max_tokens":3)").max_tokens == 3);
  CHECK(chat(R"(,"max_tokens":3,"max_completion_tokens":4)").max_tokens == 4);
  CHECK(completion(R"(,"seed":-1)").sampling.seed == ~uint64_t{0});
  CHECK(completion(R"(,"top_k":-1)").sampling.top_k == 0);
  CHECK(completion(R"(,"stop":"a")").text.stops == std::vector<std::string>{"a"});
  CHECK(completion(R"(,"stream":true,"stream_options":{})").include_usage);
  CHECK(!completion(R"(,"stream":true,"stream_options":{"include_usage":false})").include_usage);
  CHECK(completion(R"(,"new_field":1,"user":"u")").unknown ==
        std::vector<std::string>{"new_field"});
  const kvtest::TempDir dir;
  CHECK(serve::defaults_of(dir.path()).temperature == 1);
  std::ofstream(dir.path() / "generation_config.json") << R"({"temperature":0.6,"top_p":0.95})";
  CHECK(serve::defaults_of(dir.path()).temperature == 0.6);
  CHECK(serve::defaults_of(dir.path()).top_p == 0.95);
  for (const std::string bad : {R"({"temperature":-1})", R"({"temperature":1e300})",
                                R"({"top_p":0})", R"({"top_p":1.5})", R"({"top_k":-2})"}) {
    CAPTURE(bad);
    std::ofstream(dir.path() / "generation_config.json") << bad;
    CHECK_THROWS_WITH_AS(serve::defaults_of(dir.path()), doctest::Contains("_config.json: \"t"),
                         kv::UserError);
  }
}

TEST_CASE("api: prompts are text, token ids, or several of either") {
  const auto prompts = [](const std::string& json) {
    return serve::parse_completion("{\"prompt\":" + json + "}", kRules).prompts;
  };
  CHECK(prompts(R"("a")").size() == 1);
  CHECK(prompts(R"(["a","b"])").size() == 2);
  CHECK(std::get<1>(prompts("[1,2]").at(0)) == std::vector<int32_t>{1, 2});
  CHECK(prompts("[[1],[2,3]]").size() == 2);
  for (const char* wrong :
       {R"("")", "[]", "[[]]", "null", "7", R"(["a",""])", "[1,-2]", "[1.5]", "{}", R"(["a",7])"}) {
    CAPTURE(wrong);
    CHECK(refused([&] { prompts(wrong); }) == "400 prompt");
  }
}

TEST_CASE("api: kv_transfer_params asks for the first token alone, and needs a store") {
  const std::string asks = R"("kv_transfer_params":{"do_remote_decode":true,"remote_host":null})";
  ApiRules rules = kRules;
  const auto parse = [&](const std::string& fields) {
    return serve::parse_completion(R"({"prompt":"x","max_tokens":9,"min_tokens":4)" + fields + "}",
                                   rules);
  };
  CHECK(refused([&] { parse("," + asks); }) == "400 kv_transfer_params");
  CHECK(parse(R"(,"kv_transfer_params":{"do_remote_prefill":true})").max_tokens == 9);
  CHECK(parse(R"(,"kv_transfer_params":null)").max_tokens == 9);
  rules.has_store = true;
  CHECK(refused([&] { parse(R"(,"kv_transfer_params":[])"); }) == "400 kv_transfer_params");
  CHECK(refused([&] { parse(R"(,"kv_transfer_params":{"do_remote_decode":1})"); }) ==
        "400 kv_transfer_params.do_remote_decode");
  CHECK(!parse("").remote_decode);
  const ApiRequest request = parse("," + asks);
  CHECK(request.remote_decode);
  CHECK(request.max_tokens == 1);
  CHECK(request.text.min_tokens == 1);
  Answer answer(request, {.id = "I", .model_name = "M", .engine_id = "E"}, {{1, 2}}, tokenizer());
  answer.add(0, {.id = 0, .token = 'a'}, FinishReason::kLength);
  CHECK(answer.body().ends_with(R"(,"kv_transfer_params":{"do_remote_prefill":true,)"
                                R"("do_remote_decode":false,"remote_engine_id":"E"}})"));
  rules.prefill = true;
  CHECK(parse("").remote_decode);
}

TEST_CASE("api: what is wrong, and what the course lacks, is refused by name") {
  const auto of = [](const std::string& field) {
    return refused([&] { completion("," + field); });
  };
  const auto of_chat = [](const std::string& field) { return refused([&] { chat("," + field); }); };
  CHECK(refused([] { serve::parse_completion("{", kRules); }) == "400 ");
  CHECK(refused([] { serve::parse_completion("[]", kRules); }) == "400 ");
  CHECK_THROWS_WITH(serve::parse_completion("", kRules), "the body is empty, wanted a JSON object");
  CHECK(of(R"("model":"other")") == "404 model");
  CHECK(of(R"("max_tokens":0)") == "400 max_tokens");
  CHECK(of(R"("max_tokens":0,"echo":true)") == "accepted");
  CHECK(of(R"("max_tokens":"7")") == "400 max_tokens");
  CHECK(of(R"("temperature":-1)") == "400 temperature");
  CHECK(of(R"("top_p":0)") == "400 top_p");
  CHECK(of(R"("n":0)") == "400 n");
  CHECK(of(R"("n":1000)") == "400 n");
  CHECK(of(R"("stop":[""])") == "400 stop");
  CHECK(of(R"("stop":7)") == "400 stop");
  CHECK(of(R"("logprobs":21)") == "400 logprobs");
  CHECK(of(R"("logprobs":1,"echo":true)") == "400 logprobs");
  CHECK(of(R"("stream_options":{})") == "400 stream_options");
  const std::string usage = R"("stream":true,"stream_options":{"continuous_usage_stats":)";
  CHECK(of(usage + "false}") == "accepted");
  CHECK(of(usage + "true}") == "400 stream_options.continuous_usage_stats");
  CHECK(of(R"("priority":1)") == "400 priority");
  CHECK(of(R"("priority":0)") == "accepted");
  CHECK(of(R"("cache_salt":"")") == "400 cache_salt");
  CHECK(of(R"("cache_salt":")" + std::string(4096, 'x') + "\"") == "accepted");
  CHECK(of(R"("cache_salt":")" + std::string(4097, 'x') + "\"") == "400 cache_salt");
  CHECK(of_chat(R"("top_logprobs":2)") == "400 top_logprobs");
  CHECK(of_chat(R"("top_logprobs":2,"logprobs":true)") == "accepted");
  CHECK(refused([] { serve::parse_chat(R"({"messages":[]})", kRules); }) == "400 messages");
  CHECK(refused([] { serve::parse_chat(R"({"messages":[{"role":"x"}]})", kRules); }) ==
        "400 messages");
  // Clients send default values, too.
  for (const auto& pair :
       std::vector<std::pair<std::string, std::string>>{{"presence_penalty", "0"},
                                                        {"frequency_penalty", "0.0"},
                                                        {"repetition_penalty", "1"},
                                                        {"min_p", "0"},
                                                        {"logit_bias", "{}"},
                                                        {"best_of", "1"},
                                                        {"suffix", "\"\""},
                                                        {"response_format", R"({"type":"text"})"},
                                                        {"prompt_logprobs", "null"}}) {
    const std::string field = pair.first, none = pair.second;
    CAPTURE(field);
    CHECK(of("\"" + field + "\":" + none) == "accepted");
    CHECK(of("\"" + field + "\":2.5") == "400 " + field);
  }
  for (const char* field :
       {"tools", "tool_choice", "functions", "continue_final_message", "audio"}) {
    CAPTURE(field);
    CHECK(of_chat("\"" + std::string(field) + "\":null") == "accepted");
    CHECK(of_chat("\"" + std::string(field) + "\":{\"a\":1}") == "400 " + std::string(field));
  }
  CHECK(of_chat(R"("chat_template_kwargs":{"x":1})") == "400 chat_template_kwargs.x");
}

TEST_CASE("api: errors are vLLM's, and hold for any bytes") {
  CHECK(body_of(ApiError(400, "a \"b\"", "n")) ==
        R"({"error":{"message":"a \"b\"","type":"BadRequestError","param":"n","code":400}})");
  CHECK(body_of(ApiError(502, "x")).find(R"("type":"InternalServerError")") != std::string::npos);
  CHECK(body_of(ApiError(503, "x")).find(R"("param":null,"code":503)") != std::string::npos);
  CHECK(nlohmann::json::accept(body_of(ApiError(404, "\xFF\xC3"))));
  const std::string lines = body_of(ApiError(404, "a\nb\x1b" + std::string(5000, 'x'), "c\n"));
  CHECK(lines.starts_with(R"({"error":{"message":"a b\\x1bxxx)"));
  CHECK(lines.find(R"("param":"c ")") != std::string::npos);
  CHECK(lines.size() < 1200);
}

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
          R"("usage":{"prompt_tokens":2,"total_tokens":7,"completion_tokens":5}})"
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
      R"("usage":{"prompt_tokens":2,"total_tokens":4,"completion_tokens":2,"prompt_tokens_details":null}})");
  CHECK(
      body(chat(""), {{0, 'a'}, {0, 0xC3, FinishReason::kCancelled}}) ==
      R"({"id":"I","object":"chat.completion","created":1,"model":"M","choices":[)"
      R"({"index":0,"message":{"role":"assistant","content":"a)"
      "\uFFFD"
      R"(","refusal":null,"tool_calls":[]},)"
      R"("logprobs":null,"finish_reason":"abort","stop_reason":null}],)"
      R"("usage":{"prompt_tokens":2,"total_tokens":4,"completion_tokens":2,"prompt_tokens_details":null}})");
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
        R"({"text_offset":[0,1,2],"token_logprobs":[-0.5,-9999.0,-1.0],"tokens":["a",")"
        "\uFFFD\",\"\uFFFD"
        R"("],"top_logprobs":[{"a":-0.5,"b":-0.25},{")"
        "\uFFFD"
        R"(":-9999.0,"a":-1.0,"b":-2.0},{")"
        "\uFFFD"
        R"(":-1.0,"b":-2.0}]})");
  const auto chats =
      nlohmann::ordered_json::parse(body(chat(R"(,"logprobs":true,"top_logprobs":1)"), tokens));
  CHECK(
      chats["choices"][0]["logprobs"]["content"][0].dump() ==
      R"({"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[{"token":"a","logprob":-0.5,"bytes":[97]}]})");
  CHECK(chats["choices"][0]["logprobs"]["content"][1]["bytes"].dump() == "[195]");
  // The token itself is one of the likeliest, and stands there once.
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

TEST_CASE("api: the end of a request is beyond doubt") {
  using serve::framing_error;
  CHECK(framing_error({{"content-length", "5"}, {"X", "y"}}).empty());
  CHECK(framing_error({{"Transfer-Encoding", "Chunked"}}).empty());
  for (const serve::Headers& headers :
       std::vector<serve::Headers>{{{"Content-Length", "5"}, {"content-length", "5"}},
                                   {{"Content-Length", "5"}, {"Transfer-Encoding", "chunked"}},
                                   {{"Content-Length", "+5"}},
                                   {{"Content-Length", "-5"}},
                                   {{"Content-Length", ""}},
                                   {{"Content-Length", "0x5"}},
                                   {{"Content-Length", "5, 5"}},
                                   {{"Content-Length ", "5"}},
                                   {{"Transfer-Encoding", "gzip, chunked"}},
                                   {{"Transfer-Encoding", "identity"}},
                                   {{"a b", "5"}},
                                   {{"", "5"}}}) {
    CHECK(!framing_error(headers).empty());
  }
}
