#pragma once

// The text of an answer, as its tokens come.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "qwen3/tokenizer.h"

namespace serve {

struct TextOptions {
  std::vector<std::string> stops = {};  // none is empty
  bool include_stop = false;            // a stop string or token stays in the text
  bool skip_special = true;
  int min_tokens = 0;  // a stop string must end after the text of these tokens
};

/// Turns tokens into text and cuts it at a stop string. Never returns half a character, nor text
/// that a stop string could begin with. So the pieces that it returns, joined, do not depend on how
/// the text is split into tokens. The string that is complete first counts; of those that end
/// together, the one listed first.
class TextStream {
 public:
  /// Borrows the tokenizer.
  TextStream(const kv::Tokenizer& tokenizer, const TextOptions& options);

  /// The text that became certain with this token. Must not be called after a stop.
  std::string push(int32_t token);
  /// Returns the rest at the end. An unfinished character becomes U+FFFD.
  std::string finish();
  /// Whole characters of the text of all tokens so far, those of a stop string included.
  int num_characters() const { return num_characters_; }
  /// The stop string that ended the text.
  const std::optional<std::string>& stop() const { return stop_; }

 private:
  std::string decode(int32_t token);
  std::string release(std::string text);
  size_t num_held(const std::string& text) const;

  const kv::Tokenizer* tokenizer_;
  TextOptions options_;
  std::string half_;  // bytes of an unfinished character
  std::string held_;  // text that a stop string could begin with
  int num_tokens_ = 0, num_characters_ = 0;
  std::optional<std::string> stop_;
};

/// Number of characters (code points) of valid UTF-8.
int num_characters(const std::string& text);

}  // namespace serve
