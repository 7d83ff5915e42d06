#include "instruments/serve/text.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/utf8.h"

namespace serve {

TextStream::TextStream(const kv::Tokenizer& tokenizer, const TextOptions& options)
    : tokenizer_(&tokenizer), options_(options) {}

std::string TextStream::decode(int32_t token) {
  // An id of a padded vocabulary ends a character that was begun, as in kv::StreamingDecoder.
  if (!tokenizer_->has(token)) return kv::replace_invalid_utf8(std::exchange(half_, {})) + "\uFFFD";
  if (options_.skip_special && tokenizer_->is_special(token)) return {};
  half_ += tokenizer_->token_bytes(token);
  const size_t whole = half_.size() - kv::unfinished_utf8_bytes(half_);
  std::string text = kv::replace_invalid_utf8(std::string_view(half_).substr(0, whole));
  half_.erase(0, whole);
  return text;
}

std::string TextStream::push(int32_t token) {
  ++num_tokens_;
  std::string text = decode(token);
  num_characters_ += serve::num_characters(text);
  return release(std::move(text));
}

/// Returns the part of held_ + text that is certain.
std::string TextStream::release(std::string text) {
  const size_t num_old = held_.size();
  text.insert(0, std::exchange(held_, {}));
  size_t first_end = text.npos;
  const std::string* found = nullptr;
  for (const std::string& stop : options_.stops) {
    if (num_tokens_ <= options_.min_tokens) break;
    // A match ends in the new text: earlier ones have been found, or came before min_tokens.
    const size_t from = num_old + 1 - std::min(num_old + 1, stop.size());
    const size_t at = text.find(stop, from);
    if (at == text.npos || at + stop.size() >= first_end) continue;
    first_end = at + stop.size();
    found = &stop;
  }
  if (found != nullptr) {
    stop_ = *found;
    text.resize(options_.include_stop ? first_end : first_end - found->size());
    return text;
  }
  const size_t certain = text.size() - num_held(text);
  held_ = text.substr(certain);
  text.resize(certain);
  return text;
}

/// The longest end of the text that is the beginning of a stop string.
size_t TextStream::num_held(const std::string& text) const {
  size_t longest = 0;
  for (const std::string& stop : options_.stops) {
    for (size_t n = std::min(stop.size() - 1, text.size()); n > longest; --n) {
      if (text.ends_with(std::string_view(stop).substr(0, n))) longest = n;
    }
  }
  return longest;
}

std::string TextStream::finish() {
  return std::exchange(held_, {}) + kv::replace_invalid_utf8(std::exchange(half_, {}));
}

int num_characters(const std::string& text) {
  return static_cast<int>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace serve
