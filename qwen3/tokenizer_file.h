#pragma once

// The content of a tokenizer.json, checked, in plain structures. Internal to the tokenizer.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

/// A token that is matched in the text itself, before any splitting ("<|im_start|>").
struct AddedToken {
  int32_t id = 0;
  std::string text;
  bool special = false;     // a control token, skipped in printed text
  bool normalized = false;  // matched after normalisation, else before it
};

/// The tokens `left` and `right`, side by side, become `merged`.
struct Merge {
  int32_t left = 0;
  int32_t right = 0;
  int32_t merged = 0;
};

/// Tokens before and after the ids of a whole text.
struct TokensAround {
  std::vector<int32_t> before = {}, after = {};
};

struct TokenizerFile {
  bool nfc = false;                                // normalise to NFC first
  std::vector<std::string> split_patterns;         // applied in turn to every piece
  std::vector<std::optional<std::string>> tokens;  // [largest id + 1] raw bytes; ids may have gaps
  std::vector<int32_t> byte_ids;                   // [256] the token of each single byte
  std::vector<Merge> merges;                       // by rank: the first is the most urgent
  std::vector<AddedToken> added;
  TokensAround around;  // of the post-processor
};

/// A byte as a tokenizer.json spells it: one printable character, of a space U+0120.
std::string byte_spelling(uint8_t byte);

/// Throws UserError for a file that is broken, or of a kind that is not built here: nothing that
/// would change the ids is ignored.
TokenizerFile parse_tokenizer_file(std::string_view json, const std::string& name);

}  // namespace kv
