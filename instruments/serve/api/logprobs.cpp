#include "instruments/serve/api/logprobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/utf8.h"

namespace serve {
namespace {

/// JSON has no infinity. This is vLLM's value for a token that cannot come.
double finite(float logprob) { return std::max(logprob, -9999.0f); }

/// A token's bytes; none for an id that the tokenizer lacks.
std::string bytes_of(const kv::Tokenizer& tokenizer, int32_t token) {
  return tokenizer.has(token) ? std::string(tokenizer.token_bytes(token)) : std::string();
}
std::string text_of(const kv::Tokenizer& tokenizer, int32_t token) {
  return kv::replace_invalid_utf8(bytes_of(tokenizer, token));
}

/// A name that no other token of the place has: its text, if it is one; "bytes:\\xf0\\x9f", as
/// OpenAI writes pieces of characters; and else its id, as vLLM writes it.
std::string name_of(const kv::Tokenizer& tokenizer, int32_t token, const auto& taken) {
  const std::string bytes = bytes_of(tokenizer, token);
  std::string name = bytes;
  if (kv::replace_invalid_utf8(bytes) != bytes) {
    name = "bytes:";
    for (const char byte : bytes) name += fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
  }
  return name.empty() || taken.contains(name) ? fmt::format("token_id:{}", token) : name;
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

/// {"token":" the","logprob":-0.5,"bytes":[32,116,104,101]}
nlohmann::ordered_json chat_entry(const kv::Tokenizer& tokenizer, const kv::TokenLogprob& entry) {
  const std::string bytes = bytes_of(tokenizer, entry.token);
  return {{"token", text_of(tokenizer, entry.token)},
          {"logprob", finite(entry.logprob)},
          {"bytes", std::vector<uint8_t>(bytes.begin(), bytes.end())}};
}

}  // namespace

Logprobs::Json Logprobs::none() const {
  const Json list = Json::array();
  if (chat_) return {{"content", list}};
  return {
      {"text_offset", list}, {"token_logprobs", list}, {"tokens", list}, {"top_logprobs", list}};
}

void Logprobs::add(const kv::NewToken& token, const kv::Tokenizer& tokenizer, int offset) {
  if (token.logprobs.empty()) return;
  const kv::TokenLogprob& own = token.logprobs.front();
  if (chat_) {
    Json entry = chat_entry(tokenizer, own);
    entry["top_logprobs"] = Json::array();
    for (const kv::TokenLogprob& one : entries_of(token, num_top_)) {
      entry["top_logprobs"].push_back(chat_entry(tokenizer, one));
    }
    tokens_["content"].push_back(std::move(entry));
    return;
  }
  Json top = Json::object();
  for (const kv::TokenLogprob& one : entries_of(token, num_top_ + 1)) {
    top[name_of(tokenizer, one.token, top)] = finite(one.logprob);
  }
  tokens_["text_offset"].push_back(offset);
  tokens_["token_logprobs"].push_back(finite(own.logprob));
  tokens_["tokens"].push_back(name_of(tokenizer, token.token, Json::object()));
  tokens_["top_logprobs"].push_back(std::move(top));
}

std::string Logprobs::take() { return std::exchange(tokens_, none()).dump(); }

}  // namespace serve
