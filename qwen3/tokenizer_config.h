#pragma once

// tokenizer_config.json (and special_tokens_map.json, added_tokens.json): what transformers adds to
// a tokenizer.json when it loads the folder.
//
// Used: the named special tokens, of which eos_token ends a text; add_bos_token and add_eos_token;
// added_tokens_decoder; model_max_length; the chat template is its reader's business. Refused by
// name, unless they ask for nothing: add_prefix_space, do_lower_case, split_special_tokens,
// fix_mistral_regex, and a token that tokenizer.json has another way, or not at all.
// clean_up_tokenization_spaces is not read: vLLM's streams of text have no such step.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "qwen3/tokenizer_file.h"

namespace kv {

struct TokenizerConfig {
  std::map<std::string, std::string> special = {};  // "eos_token" -> its text
  std::optional<int32_t> eos_id = {};
  std::optional<TokensAround> around = {};  // instead of the post-processor's
  int64_t max_length = INT64_MAX;           // tokens of a text
};

/// Reads the files of `dir`, as far as there are any. Tokens that only they call added are added to
/// `file`. Throws UserError.
TokenizerConfig load_tokenizer_config(const std::filesystem::path& dir, TokenizerFile& file);

}  // namespace kv
