#pragma once

// The promise, checked while the server runs: a share of the requests is computed a second time,
// beside other requests and without the cache, and must give the same tokens from the same logits.

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "instruments/serve/pass_thread.h"

namespace serve {

class EqualBits {
 public:
  /// 0 checks no request, 1 checks each.
  explicit EqualBits(double share) : share_(share) {}

  /// Takes note of a submission. Each 1/share-th one is chosen.
  void note(const Submission& submission);
  /// A token that a chosen request got, and that its client gets.
  void note_token(const kv::NewToken& token);
  /// The request will not be checked: it was aborted.
  void forget(int64_t id) { first_.erase(id); }
  /// The request is complete. Returns its second computation, with the id `second_id`.
  std::optional<Submission> repeat(int64_t id, int64_t second_id);

  /// A token of a second computation. `last` if none follows. Returns whether all were equal, when
  /// that is known: at the first difference, or at the end. Empty for any other request, too.
  std::optional<bool> compare(const kv::NewToken& token, bool last);
  /// The second computation was refused, or cannot end.
  void drop_second(int64_t id) { second_.erase(id); }

 private:
  struct Checked {
    Submission submission;
    std::vector<int32_t> tokens = {};
    uint64_t logits_xxh64 = 0;
    size_t num_compared = 0;
  };

  double share_;
  int64_t num_noted_ = 0;
  std::unordered_map<int64_t, Checked> first_, second_;  // by id
};

}  // namespace serve
