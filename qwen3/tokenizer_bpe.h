#pragma once

// Byte-pair encoding of one word. Internal to the tokenizer.

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "qwen3/tokenizer_file.h"

namespace kv {

class Bpe {
 public:
  /// `byte_ids` [256]: where every word starts; `merges` by rank.
  Bpe(std::vector<int32_t> byte_ids, const std::vector<Merge>& merges);

  /// Appends the ids of `word` (raw bytes). Takes time n log n for n bytes, so that even a megabyte
  /// without a space is encoded quickly.
  void encode(std::string_view word, std::vector<int32_t>& ids) const;

 private:
  struct Result {
    uint32_t rank;
    int32_t merged;
  };
  const Result* find(int32_t left, int32_t right) const;

  std::vector<int32_t> byte_ids_;
  std::unordered_map<uint64_t, Result> merges_;  // left and right in one key
};

}  // namespace kv
