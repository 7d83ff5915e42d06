#pragma once

// Tokens as a tokenizer.json spells them.

#include <cstdint>
#include <string>
#include <vector>

#include "qwen3/tokenizer.h"

namespace serve {

/// Hugging Face's convert_ids_to_tokens(): each byte of a token is a printable character (a space
/// is U+0120), and an added token is its text. An id that the tokenizer does not have is empty.
std::vector<std::string> spelled(const kv::Tokenizer& tokenizer, const std::vector<int32_t>& ids);

}  // namespace serve
