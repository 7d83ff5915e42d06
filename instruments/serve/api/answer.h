#pragma once

// The answer to one request, from its tokens: chunks of a stream, or one body. The bytes are
// vLLM's. It knows no socket and no engine.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "instruments/serve/api/logprobs.h"
#include "instruments/serve/api/request.h"
#include "qwen3/server.h"

namespace serve {

struct AnswerHead {
  std::string id;  // "cmpl-.." or "chatcmpl-.."
  std::string model_name;
  std::string engine_id = {};  // of the server, for the one that goes on
  int64_t created = 0;         // seconds since 1970
  bool tell_cached = false;    // the usage has the prompt's tokens that were found in the cache
};

class Answer {
 public:
  /// Borrows the tokenizer. A choice for each prompt and each of its request.n samples. If the
  /// request wants no tokens (echo alone), it is complete at once.
  Answer(const ApiRequest& request, const AnswerHead& head,
         const std::vector<std::vector<int32_t>>& prompts, const kv::Tokenizer& tokenizer);

  /// A choice's next token; `ended` says why it is the last one. Returns false if the choice is
  /// complete now, because it has ended or because of a stop string.
  bool add(int choice, const kv::NewToken& token, std::optional<kv::FinishReason> ended);
  /// Tokens of a choice's prompt that were found in the cache. The choices of one prompt have it in
  /// common: it counts once, for the first of them.
  void note_cached(int choice, int num_tokens) {
    if (choice % request_.n == 0) num_cached_ += num_tokens;
  }

  bool is_complete() const { return num_open_ == 0; }
  /// Another server loads the prompt's blocks, so the store must have them before the answer
  /// leaves.
  bool needs_store() const { return request_.remote_decode; }
  const std::string& finish_reason(int choice) const {
    return choices_[static_cast<size_t>(choice)].finish;
  }
  int num_choices() const { return static_cast<int>(choices_.size()); }
  /// The events of a stream for what was added since the last call; with the last choice the usage,
  /// if it is wanted, and the end.
  std::string take_chunks();
  /// The whole answer, once it is complete.
  std::string body();

 private:
  struct Choice {
    TextStream text;
    std::string delta;  // text that has not been sent
    Logprobs logprobs;
    int num_echoed = 0;    // characters of the prompt before the text
    std::string ids = {};  // tokens that have not been sent, with commas
    std::string prompt_ids = {};
    std::string finish = {};             // empty as long as tokens come
    std::string stop_reason = "null";    // in JSON
    bool has_news = false;               // tokens that have not been sent
    int num_prompt = 0, num_tokens = 0;  // for the usage of its own chunks
    bool has_ended = false;              // in the stream
  };

  void end(Choice& choice, const std::string& reason);
  std::string head(const char* object) const;
  std::string event(const std::string& choices, const std::string& more = {}) const;
  std::string part_of(int index, Choice& choice, bool whole) const;
  /// The usage and, as the last field, the seed that gives the same answer again.
  std::string usage(bool in_stream) const;
  std::string usage_of(const Choice& choice, int num_tokens) const;

  const kv::Tokenizer* tokenizer_;
  ApiRequest request_;
  AnswerHead head_;
  std::vector<Choice> choices_;
  bool has_begun_ = false;  // the stream has the roles
  int num_open_ = 0;
  int num_prompt_ = 0, num_completion_ = 0, num_cached_ = 0;  // tokens
};

}  // namespace serve
