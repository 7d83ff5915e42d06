#pragma once

// Chooses the hypotheses of a beam search that continue. Knows tokens and log probabilities, but
// nothing about KV.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "qwen3/engine.h"

namespace kv {

/// One hypothesis of a beam search.
struct Beam {
  std::vector<int32_t> tokens;  // generated, the stop token included
  double log_prob = 0;          // sum over the tokens
  double score = 0;             // log_prob / tokens ^ length_penalty
  bool finished = false;        // ended with a stop token
};

struct BeamSearchParams {
  int num_beams = 4;
  double length_penalty = 1.0;  // 0 ranks by the sum itself; larger favours longer hypotheses
};

/// An engine's result: beams, best first, instead of completions.
struct BeamSearchResult : GenerateResult {
  std::vector<Beam> beams;
};
/// Called after every step with the live hypotheses, best first. The last token of each has not yet
/// been through the model. Returning false ends the search.
using BeamCallback = std::function<bool(std::span<const Beam> beams)>;

/// Ties are broken the same way every time. Among candidates of one step, the better parent wins,
/// then the lower token id. Among hypotheses of equal score, the one with fewer tokens wins, then
/// the lexicographically smaller.
///
/// The search ends when num_beams hypotheses are finished and no live one can still reach the worst
/// of them (log probabilities only fall), or at max_tokens. Hypotheses that are live at that point
/// count with their current score.
class BeamSearch {
 public:
  /// Throws UserError unless num_beams is at least 1 and length_penalty is a number of at least 0:
  /// a negative penalty would rank an unfinished hypothesis higher the sooner the search ends.
  BeamSearch(const BeamSearchParams& params, int max_tokens, std::span<const int32_t> stop_tokens);

  bool done() const { return done_; }
  /// The live hypotheses, best first: at first the empty one, later at most num_beams.
  std::span<const Beam> live() const { return live_; }

  /// Extends the search by one token. `logits` is [live, vocab]. Returns, for each hypothesis live
  /// after the step, the index of the one it continues. Throws UserError for a NaN or +inf logit.
  std::vector<size_t> step(std::span<const float> logits);

  /// Finished and live, best first, num_beams of them (fewer if fewer exist).
  std::vector<Beam> best() const;

 private:
  struct Candidate {
    double log_prob;
    size_t parent;
    int32_t token;
  };
  std::vector<Candidate> candidates(std::span<const float> logits) const;
  void keep_best(std::vector<Beam>& beams) const;
  bool is_decided() const;
  double score(double log_prob, size_t num_tokens) const;

  size_t num_beams_;
  double length_penalty_;
  size_t max_tokens_;
  std::vector<int32_t> stop_tokens_;
  std::vector<Beam> live_;
  std::vector<Beam> finished_;  // the best num_beams that ended with a stop token
  bool done_;
};

}  // namespace kv
