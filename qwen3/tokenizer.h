#pragma once

// Byte-level BPE as in a Hugging Face tokenizer.json of the Qwen family:
// NFC -> split by a regular expression -> bytes as printable characters -> merges by rank.
//
// Built: normalizer NFC or none; pre-tokenizer Split(Regex, Isolated)... + ByteLevel (GPT-2's
// pattern included); model BPE with merges as "a b" or ["a", "b"]; added tokens without lstrip,
// rstrip and single_word; post-processor ByteLevel or TemplateProcessing. Any other kind is refused
// by name. Truncation and padding of the file were those of a training; transformers sets its own
// for each text (none), and so they are not read. tokenizer_config.json: see tokenizer_config.h.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qwen3/tokenizer_config.h"

namespace kv {

/// Bytes [begin, end) of a text.
struct TextPart {
  size_t begin = 0, end = 0;
};

class Tokenizer {
 public:
  /// Reads `dir`/tokenizer.json, and what tokenizer_config.json beside it adds. Throws UserError.
  static Tokenizer load(const std::filesystem::path& dir);
  /// Parses the text of a tokenizer.json (also fuzzed). `name` is used in messages.
  static Tokenizer parse(std::string_view json, const std::string& name);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Text to ids. Invalid UTF-8 becomes U+FFFD, as Python's decode(errors="replace") does. The text
  /// of an added token is that token. Only if the file calls it special ("<|im_start|>", unlike
  /// Qwen3's "<think>") it stays text unless `parse_special`: what a user types cannot become a
  /// control token. With `parse_special` the ids are those of Hugging Face's
  /// encode(text, add_special_tokens=False). Safe to call from several threads.
  std::vector<int32_t> encode(std::string_view text, bool parse_special = false) const;
  /// With parse_special, but for tokens that begin inside a part of `plain`. `text` is valid UTF-8.
  std::vector<int32_t> encode(std::string_view text, std::span<const TextPart> plain) const;
  /// The ids of a whole prompt with the tokens that the model's folder sets before and after it
  /// (TemplateProcessing, add_bos_token, add_eos_token); often there are none.
  std::vector<int32_t> with_special_tokens(std::vector<int32_t> ids) const;

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
  /// The texts of all special tokens.
  std::vector<std::string> special_texts() const;
  /// What tokenizer_config.json says.
  const TokenizerConfig& config() const;
  /// `ids`, and the eos_token of tokenizer_config.json: generation ends after any of them.
  std::vector<int32_t> with_eos_token(std::vector<int32_t> ids) const;
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
