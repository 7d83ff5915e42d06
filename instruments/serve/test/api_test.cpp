// Requests as they are read, byte for byte.
#include "common/error.h"
#include "instruments/serve/http/framing.h"
#include "instruments/serve/test/api_support.h"
#include "tests/support/temp_dir.h"

using namespace serve_test;

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
  CHECK(completion("").add_special);
  CHECK(!chat("").add_special);
  CHECK(chat(R"(,"add_special_tokens":true)").add_special);
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
  const auto read = [&](const std::string& text) {
    std::ofstream(dir.path() / "generation_config.json") << text;
    return serve::defaults_of(dir.path());
  };
  CHECK(read(R"({"temperature":0.6,"do_sample":false})").temperature == 0);
  CHECK(read(R"({"max_length":50,"stop_strings":"a"})").max_length == 50);
  CHECK(read(R"({"stop_strings":["a","b"]})").stops == std::vector<std::string>{"a", "b"});
  ApiRules rules = kRules;
  rules.defaults = read(R"({"max_new_tokens":5,"stop_strings":"a"})");
  const auto with = [&](const std::string& fields) {
    return serve::parse_completion("{\"prompt\":\"x\"" + fields + "}", rules);
  };
  CHECK(with("").max_tokens == 5);
  CHECK(with(R"(,"max_tokens":3)").max_tokens == 3);
  CHECK(serve::parse_chat(R"({"messages":[{"role":"user"}]})", rules).max_tokens == 5);
  CHECK(with(R"(,"stop":"b")").text.stops == std::vector<std::string>{"a", "b"});
  CHECK_THROWS_AS(read(R"({"stop_strings":[""]})"), kv::UserError);
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
  for (const char* wrong : {R"("")", "[]", "[[]]", "null", "7", R"(["a",""])", "[1,-2]", "[1.5]",
                            "{}", R"(["a",7])", R"(["a",[1]])", R"([[1],"a"])", R"([1,"a"])"}) {
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
  CHECK_THROWS_WITH(completion(R"(,"top_p":7)"), "top_p is 7, wanted a number above 0 and up to 1");
  CHECK_THROWS_WITH(completion(R"(,"max_tokens":-1)"), doctest::Contains("from 1 to"));
  const std::string nested = std::string(127, '[') + std::string(127, ']');
  CHECK(completion(R"(,"x":)" + nested).unknown.size() == 1);
  CHECK_THROWS_WITH(completion(R"(,"x":[)" + nested + "]"),
                    doctest::Contains("deeper than 128 levels, which is more than this server"));
  for (const std::string bad :
       {R"("max_tokens":0)", R"("max_tokens":"7")", R"("max_tokens":2.5)", R"("temperature":-1)",
        R"("top_p":0)", R"("n":0)", R"("n":1000)", R"("n":1.5)", R"("stop":[""])", R"("stop":7)",
        R"("logprobs":21)", R"("logprobs":1,"echo":true)", R"("stream_options":{})",
        R"("priority":1)", R"("cache_salt":"")"}) {
    CAPTURE(bad);
    CHECK(of(bad) == "400 " + bad.substr(1, bad.find('"', 1) - 1));
  }
  const std::string usage = R"("stream":true,"stream_options":{"continuous_usage_stats":)";
  for (const std::string& good :
       {R"("max_tokens":0,"echo":true)" + std::string(), usage + "false}", usage + "true}",
        R"("priority":0)" + std::string(), R"("n":2,"best_of":2)" + std::string(),
        R"("cache_salt":")" + std::string(4096, 'x') + "\""}) {
    CHECK(of(good) == "accepted");
  }
  CHECK(of(R"("model":"other")") == "404 model");
  CHECK(of(usage + "7}") == "400 stream_options.continuous_usage_stats");
  CHECK(of(R"("cache_salt":")" + std::string(4097, 'x') + "\"") == "400 cache_salt");
  CHECK(of_chat(R"("top_logprobs":2)") == "400 top_logprobs");
  CHECK(of_chat(R"("top_logprobs":2,"logprobs":true)") == "accepted");
  for (const char* messages : {"[]", R"([{"role":7}])"}) {
    const std::string body = fmt::format(R"({{"messages":{}}})", messages);
    CHECK(refused([&] { serve::parse_chat(body, kRules); }) == "400 messages");
  }
  // Clients send default values, too.
  for (const auto& pair :
       std::vector<std::pair<std::string, std::string>>{{"presence_penalty", "0"},
                                                        {"frequency_penalty", "0.0"},
                                                        {"repetition_penalty", "1"},
                                                        {"min_p", "0"},
                                                        {"logit_bias", "{}"},
                                                        {"best_of", "1"},
                                                        {"vllm_xargs", "{}"},
                                                        {"suffix", "\"\""},
                                                        {"response_format", R"({"type":"text"})"},
                                                        {"prompt_logprobs", "null"}}) {
    const std::string field = pair.first, none = pair.second;
    CAPTURE(field);
    CHECK(of("\"" + field + "\":" + none) == "accepted");
    CHECK(of("\"" + field + "\":2.5") == "400 " + field);
  }
  for (const char* field :
       {"tools", "tool_choice", "functions", "continue_final_message", "audio", "documents"}) {
    CAPTURE(field);
    CHECK(of_chat("\"" + std::string(field) + "\":null") == "accepted");
    CHECK(of_chat("\"" + std::string(field) + "\":{\"a\":1}") == "400 " + std::string(field));
  }
  CHECK(of_chat(R"("chat_template_kwargs":{"x":1})") == "accepted");
  CHECK(of_chat(R"("chat_template_kwargs":{"tokenize":1})") == "400 chat_template_kwargs.tokenize");
}

TEST_CASE("api: errors are vLLM's, and hold for any bytes") {
  CHECK(body_of(ApiError(400, "a \"b\"", "n")) ==
        R"({"error":{"message":"a \"b\"","type":"BadRequestError","param":"n","code":400}})");
  CHECK(body_of(ApiError(502, "x")).find(R"("type":"InternalServerError")") != std::string::npos);
  CHECK(body_of(ApiError(503, "x")).find(R"("param":null,"code":503)") != std::string::npos);
  CHECK(nlohmann::json::accept(body_of(ApiError(404, "\xFF\xC3"))));
  const std::string lines = body_of(ApiError(404, "a\nb\x1b" + std::string(5000, 'x'), "c\n"));
  CHECK(lines.starts_with(R"({"error":{"message":"a\\x0ab\\x1bxxx)"));
  CHECK(lines.find(R"("param":"c\\x0a")") != std::string::npos);
  CHECK(lines.size() < 1200);
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
