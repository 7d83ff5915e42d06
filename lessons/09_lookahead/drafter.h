#pragma once

// The sources of guesses. Source: vLLM v1's NgramProposer (v0.22.1:
// vllm/v1/spec_decode/ngram_proposer.py).

#include <cstdint>
#include <span>
#include <vector>

namespace lesson09 {

/// A guess may be any token: a wrong one costs a row of a pass, and never an output.
class Drafter {
 public:
  Drafter() = default;
  Drafter(const Drafter&) = delete;
  Drafter& operator=(const Drafter&) = delete;
  virtual ~Drafter() = default;

  /// Up to `max_guesses` tokens that are likely to follow a request's tokens, in order.
  virtual std::vector<int32_t> propose(int64_t id, std::span<const int32_t> tokens,
                                       int max_guesses) = 0;
};

/// The lengths of the n-grams that the drafter looks for.
struct NgramOptions {
  int longest = 4;  // tokens
  int shortest = 2;
};

/// Prompt lookup: finds where the text's last tokens occurred before, and guesses the tokens that
/// followed them there. Uses the longest n-gram of `shortest` to `longest` tokens that occurred
/// before. Of several places it takes the first one, as vLLM does, because the most text follows
/// there. Keeps nothing from call to call.
class NgramDrafter : public Drafter {
 public:
  /// Throws UserError unless 1 <= shortest <= longest.
  explicit NgramDrafter(const NgramOptions& options = {});
  std::vector<int32_t> propose(int64_t id, std::span<const int32_t> tokens,
                               int max_guesses) override;

 private:
  NgramOptions options_;
};

/// Finds the first place of the longest such n-gram. Returns the index of the token after it, or
/// tokens.size() if no n-gram has come before. Compares each token with at most `longest` others,
/// and nearly always with one.
size_t find_continuation(std::span<const int32_t> tokens, const NgramOptions& options);

}  // namespace lesson09
