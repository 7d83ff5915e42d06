#pragma once

// Log probabilities of an answer's tokens, in the two forms that the API has.

#include <string>

#include "qwen3/server.h"
#include "qwen3/tokenizer.h"

namespace serve {

/// Collects JSON values of tokens, separated by commas.
class Logprobs {
 public:
  /// A chat's form has at most `num_top` alternatives; a completion's the token itself, too. The
  /// first token's text begins at character `offset`.
  Logprobs(bool chat, int num_top, int offset) : chat_(chat), num_top_(num_top), offset_(offset) {}
  void add(const kv::NewToken& token, const kv::Tokenizer& tokenizer);
  /// The object of all tokens since the last call.
  std::string take();

 private:
  void add_chat(const kv::NewToken& token, const kv::Tokenizer& tokenizer);
  void add_completion(const kv::NewToken& token, const kv::Tokenizer& tokenizer);

  bool chat_;
  int num_top_, offset_;
  std::string content_;                           // of a chat
  std::string offsets_, values_, tokens_, tops_;  // of a completion
};

}  // namespace serve
