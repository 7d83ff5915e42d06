#pragma once

// Log probabilities of an answer's tokens, in the two forms that the API has.

#include <nlohmann/json.hpp>
#include <string>

#include "qwen3/server.h"
#include "qwen3/tokenizer.h"

namespace serve {

class Logprobs {
 public:
  /// A chat's form has at most `num_top` alternatives; a completion's the token itself, too.
  Logprobs(bool chat, int num_top) : chat_(chat), num_top_(num_top), tokens_(none()) {}
  /// `offset`: whole characters of the answer's text before this token.
  void add(const kv::NewToken& token, const kv::Tokenizer& tokenizer, int offset);
  /// The object of all tokens since the last call, in JSON.
  std::string take();

 private:
  using Json = nlohmann::ordered_json;
  Json none() const;

  bool chat_;
  int num_top_;
  Json tokens_;  // the object with the tokens that have not been taken
};

}  // namespace serve
