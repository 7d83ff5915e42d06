#pragma once

// A byte-level tokenizer.json that is small enough to see through.

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/utf8.h"

namespace kv::testing {

inline constexpr const char* kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

/// How the file spells `bytes`: GPT-2's printable characters.
inline std::string spelled(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    char32_t shift = 0;  // how many bytes before this one have no printable character
    const auto printable = [](unsigned b) {
      return (b >= 33 && b <= 126) || (b >= 161 && b != 173);
    };
    for (unsigned b = 0; b < byte; ++b) shift += printable(b) ? 0 : 1;
    append_utf8(out, printable(byte) ? byte : 0x100 + shift);
  }
  return out;
}

/// Ids 0 to 255 are the bytes; each merge (two byte strings) makes the next id.
inline nlohmann::json small_tokenizer(
    const std::vector<std::pair<std::string, std::string>>& merges = {}) {
  using nlohmann::json;
  json vocab = json::object();
  for (int byte = 0; byte < 256; ++byte)
    vocab[spelled(std::string(1, static_cast<char>(byte)))] = byte;
  json list = json::array();
  int next = 256;
  for (const auto& [left, right] : merges) {
    list.push_back(spelled(left) + " " + spelled(right));
    const auto [slot, is_new] = vocab.emplace(spelled(left + right), next);
    if (is_new) ++next;
  }
  const auto added = [&](const char* text, bool special) {
    return json{{"id", next++},    {"content", text},     {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", special}};
  };
  json file = json::parse(R"({
    "version": "1.0", "truncation": null, "normalizer": {"type": "NFC"},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Split", "behavior": "Isolated", "invert": false},
      {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}]},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "dropout": null, "continuing_subword_prefix": "",
              "end_of_word_suffix": ""}})");
  file["added_tokens"] = json::array({added("<|end|>", true), added("<think>", false)});
  file["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {{"Regex", kQwenPattern}};
  file["model"]["vocab"] = std::move(vocab);
  file["model"]["merges"] = std::move(list);
  return file;
}

}  // namespace kv::testing
