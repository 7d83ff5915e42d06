#include "qwen3/beam_search.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "common/error.h"
#include "qwen3/sampling.h"

namespace kv {
namespace {

/// Best first; a total order, as no two hypotheses have the same tokens.
bool better(const Beam& a, const Beam& b) {
  if (a.score != b.score) return a.score > b.score;
  if (a.tokens.size() != b.tokens.size()) return a.tokens.size() < b.tokens.size();
  return a.tokens < b.tokens;
}

}  // namespace

BeamSearch::BeamSearch(const BeamSearchParams& params, int max_tokens,
                       std::span<const int32_t> stop_tokens)
    : num_beams_(static_cast<size_t>(std::max(params.num_beams, 0))),
      length_penalty_(params.length_penalty),
      max_tokens_(static_cast<size_t>(std::max(max_tokens, 0))),
      stop_tokens_(stop_tokens.begin(), stop_tokens.end()),
      live_(1),
      done_(max_tokens <= 0) {
  if (params.num_beams < 1) {
    user_error("num_beams: found {}, wanted at least 1", params.num_beams);
  }
  if (!std::isfinite(params.length_penalty) || params.length_penalty < 0) {
    user_error("length_penalty: found {}, wanted 0 (the sum itself) or a positive number",
               params.length_penalty);
  }
}

std::vector<size_t> BeamSearch::step(std::span<const float> logits) {
  std::vector<size_t> parents;
  std::vector<Beam> next;
  for (const Candidate& candidate : candidates(logits)) {
    Beam beam = live_[candidate.parent];
    beam.tokens.push_back(candidate.token);
    beam.log_prob = candidate.log_prob;
    beam.score = score(beam.log_prob, beam.tokens.size());
    beam.finished = std::ranges::find(stop_tokens_, candidate.token) != stop_tokens_.end();
    if (beam.finished) {
      finished_.push_back(std::move(beam));
    } else if (next.size() < num_beams_) {
      next.push_back(std::move(beam));
      parents.push_back(candidate.parent);
    }
  }
  live_ = std::move(next);
  keep_best(finished_);
  done_ = live_.empty() || live_[0].tokens.size() == max_tokens_ || is_decided();
  return parents;
}

std::vector<BeamSearch::Candidate> BeamSearch::candidates(std::span<const float> logits) const {
  const size_t vocab = logits.size() / live_.size();
  std::vector<Candidate> all;
  all.reserve(logits.size());
  for (size_t parent = 0; parent < live_.size(); ++parent) {
    const std::vector<double> log_probs = log_softmax(logits.subspan(parent * vocab, vocab));
    for (size_t token = 0; token < vocab; ++token) {
      if (std::isinf(log_probs[token])) continue;  // impossible
      all.push_back({.log_prob = live_[parent].log_prob + log_probs[token],
                     .parent = parent,
                     .token = static_cast<int32_t>(token)});
    }
  }
  // Each parent may end in each stop token: beyond all of these, num_beams that go on.
  const size_t wanted = std::min(all.size(), num_beams_ * (1 + stop_tokens_.size()));
  std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(wanted),
                            [](const Candidate& a, const Candidate& b) {
                              return std::tuple(-a.log_prob, a.parent, a.token) <
                                     std::tuple(-b.log_prob, b.parent, b.token);
                            });
  all.resize(wanted);
  return all;
}

void BeamSearch::keep_best(std::vector<Beam>& beams) const {
  std::ranges::sort(beams, better);
  if (beams.size() > num_beams_) beams.resize(num_beams_);
}

bool BeamSearch::is_decided() const {
  if (finished_.size() < num_beams_) return false;
  // At best it loses no more probability, and is divided by the largest length.
  return score(live_[0].log_prob, max_tokens_) < finished_.back().score;
}

double BeamSearch::score(double log_prob, size_t num_tokens) const {
  return log_prob / std::pow(static_cast<double>(num_tokens), length_penalty_);
}

std::vector<Beam> BeamSearch::best() const {
  std::vector<Beam> all = finished_;
  all.insert(all.end(), live_.begin(), live_.end());
  keep_best(all);
  return all;
}

}  // namespace kv
