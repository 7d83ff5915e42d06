#pragma once

// Where guesses come from. Source: vLLM v1's NgramProposer (v0.22.1:
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

  /// At most `most` tokens that may come after a request's tokens, in order.
  virtual std::vector<int32_t> propose(int64_t id, std::span<const int32_t> tokens, int most) = 0;
};

/// How long a piece of text must come again before its continuation is a guess.
struct NgramOptions {
  int longest = 4;  // tokens
  int shortest = 2;
};

/// Prompt lookup: the last tokens have come before, and what came after them then is the guess. Of
/// all lengths from `shortest` to `longest` the longest that has come before counts, and of several
/// places the first one, as in vLLM: from there on the most text is there to go on with. Keeps
/// nothing from call to call.
class NgramDrafter : public Drafter {
 public:
  /// Throws UserError unless 1 <= shortest <= longest.
  explicit NgramDrafter(const NgramOptions& options = {});
  std::vector<int32_t> propose(int64_t id, std::span<const int32_t> tokens, int most) override;

 private:
  NgramOptions options_;
};

/// Where the longest of these n-grams, the last tokens, came first: the index of the token after
/// it. tokens.size() if it has not come before. Compares each
/// token with at most `longest` others, and nearly always with one.
size_t find_continuation(std::span<const int32_t> tokens, const NgramOptions& options);

}  // namespace lesson09
