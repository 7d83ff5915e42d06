#pragma once

// Byte-level BPE as in a Hugging Face tokenizer.json of the Qwen family:
// NFC -> split by a regular expression -> bytes as printable characters -> merges by rank.
//
// Built: normalizer NFC or none; pre-tokenizer Split(Regex, Isolated)... + ByteLevel (GPT-2's
// pattern included); model BPE with merges as "a b" or ["a", "b"]; added tokens without lstrip,
// rstrip and single_word. Any other kind is refused by name. Post-processor, truncation and padding
// act on finished ids and are ignored.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

class Tokenizer {
 public:
  /// Reads `dir`/tokenizer.json. Throws UserError.
  static Tokenizer load(const std::filesystem::path& dir);
  /// Parses the text of a tokenizer.json (also fuzzed). `name` is used in messages.
  static Tokenizer parse(std::string_view json, const std::string& name);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Text to ids. Invalid UTF-8 becomes U+FFFD, as Python's decode(errors="replace") does. The text
  /// of an added token ("<|im_start|>", and also "<think>", which Qwen3's file does not call
  /// special) stays text unless `parse_special`: what a user types cannot become a control token.
  /// With `parse_special` all of them are matched, and the ids are those of Hugging Face's
  /// encode(text, add_special_tokens=False). Safe to call from several threads.
  std::vector<int32_t> encode(std::string_view text, bool parse_special = false) const;

  /// Ids to text; bytes that are not valid UTF-8 become U+FFFD. Unknown ids throw UserError.
  std::string decode(std::span<const int32_t> ids, bool skip_special = false) const;
  /// Ids to text in one line, to be looked at: a line break is "\n", an unknown id U+FFFD.
  std::string shown(std::span<const int32_t> ids) const;

  /// The raw bytes of one token (added tokens: their text). Throws UserError for an unknown id.
  std::string_view token_bytes(int32_t id) const;
  /// True for an added token that the file calls special: a control token, no text.
  bool is_special(int32_t id) const;
  /// False for ids that only the model knows: a vocabulary is often padded to a round size.
  bool has(int32_t id) const;
  /// The id of an added token, special or not, from its text.
  std::optional<int32_t> id_of_special(std::string_view text) const;
  int32_t vocab_size() const;  // largest id + 1

 private:
  Tokenizer();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Turns tokens into text as they come, and never returns half a character: bytes of an unfinished
/// UTF-8 sequence are held back until the tokens that finish it arrive.
class StreamingDecoder {
 public:
  explicit StreamingDecoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}
  /// The text that became complete with this token (may be empty). Special tokens print nothing;
  /// an id that the tokenizer does not have, which a padded model may draw, prints U+FFFD.
  std::string push(int32_t id);
  /// Returns the rest at the end of a stream; an unfinished character becomes U+FFFD.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  std::string pending_;
};

}  // namespace kv
