#pragma once

// The page of lesson 14: heads of a few tokens in one block, their scales and codes, and what comes
// back; and the tokens that a memory holds. page.cpp: what its commands do; scene.cpp: the picture.

#include <cstdint>
#include <string>
#include <vector>

#include "viz/page.h"

namespace lesson14 {

/// Where a scale comes from. kBlock is wrong: one scale for a block, grown as tokens come.
enum class Rule { kToken, kBlock, kOne };

/// The head of one token.
struct ShownToken {
  std::vector<float> numbers;
  std::vector<uint8_t> codes = {};
  int exponent = 0;
  std::vector<bool> changed = {};  // by the last command, which wrote another token
  float back(size_t i) const;
  bool is_lost(size_t i) const;  // became zero, or is too large
};

struct Shown {
  std::vector<ShownToken> tokens = {};
  Rule rule = Rule::kToken;
  int memory_gib = 24;
  std::string reason;
  int64_t tokens_in(bool fp8) const;  // of Qwen3-0.6B, in the memory
};

inline constexpr size_t kNumbers = 6;  // of a head
inline constexpr size_t kTokens = 4;   // of the block

viz::Scene fp8_scene(const viz::Room& room, const Shown& shown);

class Fp8Page : public viz::Page {
 public:
  Fp8Page();

  void reset() override { shown_ = {.reason = "An empty block. Write a token."}; }
  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override;
  viz::Scene scene(const viz::Room& room) override { return fp8_scene(room, shown_); }
  std::vector<viz::Button> actions() const override;
  void draw(viz::Ui& ui) override;

 private:
  std::string write(const std::vector<float>& numbers);
  std::string write_all(std::vector<ShownToken> tokens, Rule rule);

  Shown shown_;
};

}  // namespace lesson14
