#pragma once

// The engine of this lesson, watched while it generates: n samples of one prompt or a beam search,
// one token at a time.

#include <cstdint>
#include <string>
#include <vector>

#include "engine.h"
#include "viz/live.h"
#include "viz/names.h"

namespace lesson05 {

class LiveSharing : public viz::Live {
 public:
  using Live::Live;

  /// A sample, or a beam. The best heir of a beam keeps its name and hue; other heirs have new
  /// ones.
  struct Sequence : viz::SequenceView {
    int number = -1;              // the manager's; -1: it has ended
    std::vector<int32_t> tokens;  // prompt and generated; the last one may have no slot yet
    std::string origin;           // its name, or its parent's, when settle() was called
    size_t parent = 0;            // its place in the step before
    double log_prob = 0;          // of a beam
  };

  /// Runs the prompt and generates the first token of n samples, or beams. Throws UserError for
  /// what the engine refuses.
  void watch(bool beams, int n, const std::string& prompt, int max_tokens,
             const lesson03::PagedOptions& pool);

  bool beams() const { return beams_; }
  /// The engine's manager. It has no sequence when the run has ended.
  const BlockManager& manager() const { return *engine<SharingEngine>().manager(); }
  /// The sequences after the last step; heirs in the order of their parents.
  const std::vector<Sequence>& sequences() const { return sequences_; }
  int64_t num_generated() const;
  /// Tells in plain words what happened since the last call. Called after every step.
  std::string story();
  /// Makes the current sequences the origins of those to come.
  void settle() {
    for (Sequence& sequence : sequences_) sequence.origin = sequence.name;
  }

  /// Throws std::logic_error unless the manager's counts are right and sequences that share a slot
  /// have the same token there.
  void check() const;

 private:
  void follow();
  void name_heirs(std::vector<Sequence>& heirs) const;

  bool beams_ = false;
  std::vector<kv::Beam> best_;  // of the last step, best first
  std::vector<Sequence> sequences_;
  int64_t copies_told_ = 0;  // the manager's counts at the last story()
  int used_told_ = 0;
};

}  // namespace lesson05
