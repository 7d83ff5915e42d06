#include "instruments/serve/api/logprobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "common/utf8.h"
#include "instruments/serve/api/error.h"
#include "instruments/serve/text.h"

namespace serve {
namespace {

/// vLLM's value for a token that cannot come, since JSON has no infinity.
constexpr float kLeast = -9999.0f;

std::string number(float logprob) {
  return nlohmann::json(static_cast<double>(std::max(logprob, kLeast))).dump();
}

/// A token's bytes; none for an id that the tokenizer lacks.
std::string bytes_of(const kv::Tokenizer& tokenizer, int32_t token) {
  return tokenizer.has(token) ? std::string(tokenizer.token_bytes(token)) : std::string();
}

void append(std::string& list, const std::string& value) {
  if (!list.empty()) list += ',';
  list += value;
}

/// The token itself, then the most likely ones, without repeating it: at most num_entries.
std::vector<kv::TokenLogprob> entries_of(const kv::NewToken& token, int num_entries) {
  std::vector<kv::TokenLogprob> entries;
  for (const kv::TokenLogprob& one : token.logprobs) {
    if (std::ssize(entries) == num_entries) break;
    if (entries.empty() || one.token != token.token) entries.push_back(one);
  }
  return entries;
}

/// {"token":" the","logprob":-0.5,"bytes":[32,116,104,101], without the closing brace.
std::string chat_entry(const kv::Tokenizer& tokenizer, const kv::TokenLogprob& entry) {
  const std::string bytes = bytes_of(tokenizer, entry.token);
  std::string list;
  for (const char c : bytes) append(list, std::to_string(static_cast<unsigned char>(c)));
  return fmt::format(R"({{"token":{},"logprob":{},"bytes":[{}])",
                     json_text(kv::replace_invalid_utf8(bytes)), number(entry.logprob), list);
}

}  // namespace

void Logprobs::add(const kv::NewToken& token, const kv::Tokenizer& tokenizer) {
  if (token.logprobs.empty()) return;
  chat_ ? add_chat(token, tokenizer) : add_completion(token, tokenizer);
}

void Logprobs::add_chat(const kv::NewToken& token, const kv::Tokenizer& tokenizer) {
  std::string top;
  for (const kv::TokenLogprob& entry : entries_of(token, num_top_)) {
    append(top, chat_entry(tokenizer, entry) + "}");
  }
  append(content_, fmt::format(R"({},"top_logprobs":[{}]}})",
                               chat_entry(tokenizer, token.logprobs.front()), top));
}

void Logprobs::add_completion(const kv::NewToken& token, const kv::Tokenizer& tokenizer) {
  const auto text_of = [&](int32_t id) {
    return kv::replace_invalid_utf8(bytes_of(tokenizer, id));
  };
  nlohmann::ordered_json top = nlohmann::ordered_json::object();
  for (const kv::TokenLogprob& entry : entries_of(token, num_top_ + 1)) {
    top[text_of(entry.token)] = static_cast<double>(std::max(entry.logprob, kLeast));
  }
  append(offsets_, std::to_string(offset_));
  append(values_, number(token.logprobs.front().logprob));
  append(tokens_, json_text(text_of(token.token)));
  append(tops_, top.dump());
  offset_ += num_characters(text_of(token.token));
}

std::string Logprobs::take() {
  if (chat_) return fmt::format(R"({{"content":[{}]}})", std::exchange(content_, {}));
  return fmt::format(
      R"({{"text_offset":[{}],"token_logprobs":[{}],"tokens":[{}],"top_logprobs":[{}]}})",
      std::exchange(offsets_, {}), std::exchange(values_, {}), std::exchange(tokens_, {}),
      std::exchange(tops_, {}));
}

}  // namespace serve
