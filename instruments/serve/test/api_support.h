#pragma once

// Requests and answers of the API, without a server.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "instruments/serve/api/answer.h"
#include "instruments/serve/test/support.h"

namespace serve_test {

using kv::FinishReason;
using serve::Answer;
using serve::ApiError;
using serve::ApiRequest;
using serve::ApiRules;

inline const ApiRules kRules{.model_name = "M",
                             .defaults = {.temperature = 0.5, .top_k = 20, .seed = 7}};

inline ApiRequest completion(const std::string& fields) {
  return serve::parse_completion("{\"prompt\":\"x\"" + fields + "}", kRules);
}
inline ApiRequest chat(const std::string& fields) {
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

inline const kv::Tokenizer& tokenizer() {
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

inline Answer answer_of(const ApiRequest& request,
                        const std::vector<std::vector<int32_t>>& prompts = {{1, 2}}) {
  return Answer(request, {.id = "I", .model_name = "M", .created = 1}, prompts, tokenizer());
}

/// The events of a stream; after each token they are taken once.
inline std::string stream(const ApiRequest& request, const std::vector<Token>& tokens) {
  Answer answer = answer_of(request);
  std::string events;
  for (const Token& token : tokens) {
    answer.add(token.choice, {.token = token.id, .logprobs = token.logprobs}, token.ended);
    events += answer.take_chunks();
  }
  return events;
}

inline std::string body(const ApiRequest& request, const std::vector<Token>& tokens) {
  Answer answer = answer_of(request);
  for (const Token& token : tokens) {
    answer.add(token.choice, {.token = token.id, .logprobs = token.logprobs}, token.ended);
  }
  REQUIRE(answer.is_complete());
  return answer.body();
}

inline std::string chat_chunk(const std::string& choices) {
  return R"(data: {"id":"I","object":"chat.completion.chunk","created":1,"model":"M","choices":[)" +
         choices + "]}\n\n";
}
inline std::string text_chunk(const std::string& choices) {
  return R"(data: {"id":"I","object":"text_completion","created":1,"model":"M","choices":[)" +
         choices + "]}\n\n";
}
inline const std::string kRole =
    R"("delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null})";
inline const std::string kDone = "data: [DONE]\n\n";

}  // namespace serve_test
