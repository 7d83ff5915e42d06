#pragma once

// Requests whose texts a page knows, so that they run without a model, and the blocks of the texts.

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "viz/served_requests.h"

namespace viz {

constexpr int kOwnTokens = 10'000;  // that a text may have; no other text has one of them

/// A text that grows. The prompt of each request of this name is a beginning of it.
struct TextRequest : ServedRequest {
  std::vector<int32_t> text = {};  // with the tokens still to be generated, if they are known

  /// The next request comes.
  void begin(int64_t its_id, int its_prompt, int its_max_tokens) {
    id = its_id;
    num_prompt = its_prompt;
    max_tokens = its_max_tokens;
    generated = num_computed = num_cached = 0;
    ended = false;
    while (std::ssize(text) < num_prompt + max_tokens) {
      text.push_back(hue * kOwnTokens + static_cast<int32_t>(text.size()) + 1);
    }
  }
  std::span<const int32_t> prompt() const {
    return std::span(text).first(static_cast<size_t>(num_prompt));
  }
  int32_t next_token() const { return text[static_cast<size_t>(num_prompt + generated)]; }
};

/// Why no request of this text can come now; empty if one can.
template <class Text>
std::string why_not_come(const NamedList<Text>& texts, const std::string& name) {
  const Text* const known = texts.find(name);
  if (known != nullptr && known->is_there()) return "a request of " + name + " is there already";
  return known == nullptr ? texts.why_not_add(name) : "";
}

/// Hue and name of a block of a text: "A2" comes after two others.
using BlockLabel = std::pair<int, std::string>;
/// Labels the blocks of a text by their keys, its first block first. A block that two texts begin
/// with keeps its first label.
template <class Key>
void label_blocks(std::map<Key, BlockLabel>& labels, const SequenceView& text,
                  const std::vector<Key>& keys) {
  for (size_t i = 0; i < keys.size(); ++i) {
    labels.try_emplace(keys[i], text.hue, fmt::format("{}{}", text.name, i));
  }
}

/// Throws std::logic_error for a block that a lesson's index finds, unless holds(id, tokens).
template <class Index, class Holds>
void check_found(const Index& index, Holds holds) {
  for (int32_t id = 1; id < index.num_ids(); ++id) {
    if (index.block(id) == nullptr || holds(id, index.tokens(id))) continue;
    throw std::logic_error(fmt::format("block {} does not hold what it is found by", id));
  }
}

}  // namespace viz
