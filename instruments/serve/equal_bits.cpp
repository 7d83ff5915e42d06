#include "instruments/serve/equal_bits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace serve {

void EqualBits::note(const Submission& submission) {
  const double before = std::floor(static_cast<double>(num_noted_) * share_);
  ++num_noted_;
  if (std::floor(static_cast<double>(num_noted_) * share_) == before) return;
  first_.emplace(submission.id, Checked{.submission = submission});
}

void EqualBits::note_token(const kv::NewToken& token) {
  const auto found = first_.find(token.id);
  if (found == first_.end()) return;
  found->second.tokens.push_back(token.token);
  found->second.logits_xxh64 = token.logits_xxh64;
}

std::optional<Submission> EqualBits::repeat(int64_t id, int64_t second_id) {
  const auto found = first_.find(id);
  if (found == first_.end()) return std::nullopt;
  Checked checked = std::move(found->second);
  first_.erase(found);
  Submission second = checked.submission;
  second.id = second_id;
  second.request.max_tokens = static_cast<int>(checked.tokens.size());
  second.request.min_tokens = std::min(second.request.min_tokens, second.request.max_tokens);
  second.options.priority = std::numeric_limits<int>::max();
  second.options.skip_reading_prefix_cache = true;
  second_.emplace(second_id, std::move(checked));
  return second;
}

std::optional<bool> EqualBits::compare(const kv::NewToken& token, bool last) {
  const auto found = second_.find(token.id);
  if (found == second_.end()) return std::nullopt;
  Checked& checked = found->second;
  const size_t at = checked.num_compared++;
  const bool same = at < checked.tokens.size() && token.token == checked.tokens[at];
  if (same && !last) return std::nullopt;
  const bool equal =
      same && at + 1 == checked.tokens.size() && token.logits_xxh64 == checked.logits_xxh64;
  second_.erase(found);
  return equal;
}

}  // namespace serve
