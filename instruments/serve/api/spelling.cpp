#include "instruments/serve/api/spelling.h"

#include <string_view>

#include "qwen3/tokenizer_file.h"

namespace serve {

std::vector<std::string> spelled(const kv::Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::vector<std::string> all;
  for (const int32_t id : ids) {
    std::string& text = all.emplace_back();
    if (!tokenizer.has(id)) continue;
    const std::string_view bytes = tokenizer.token_bytes(id);
    const bool added = tokenizer.id_of_special(bytes) == id;
    if (added) text = bytes;
    for (size_t i = 0; !added && i < bytes.size(); ++i) {
      text += kv::byte_spelling(static_cast<uint8_t>(bytes[i]));
    }
  }
  return all;
}

}  // namespace serve
