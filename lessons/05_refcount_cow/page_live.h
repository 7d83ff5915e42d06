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

struct LiveOptions {
  bool beams = false;  // false: samples
  int n = 3;           // samples or beams
  std::string prompt;
  int max_tokens = 12;
  int num_blocks = 16;
  int block_size = 4;
};

class LiveSharing : public viz::Live {
 public:
  using Live::Live;

  /// A sample, or a beam. The best heir of a beam keeps its name and hue; other heirs have new
  /// ones.
  struct Sequence : viz::SequenceView {
    int number = -1;                 // the manager's; -1: it has ended
    std::vector<int32_t> tokens;     // prompt and generated; the last one may have no slot yet
    std::vector<std::string> words;  // of them
    std::string text;                // all of it
    std::string origin;              // its name, or its parent's, when settle() was called
    size_t parent = 0;               // its place in the step before
  };

  /// Runs the prompt and generates the first token. Throws UserError for what the engine refuses.
  void watch(const LiveOptions& options);

  const LiveOptions& options() const { return options_; }
  /// The engine's own. It is empty when the run has ended.
  const BlockManager& manager() const { return *engine<SharingEngine>().manager(); }
  /// As they stand after the last step; heirs in the order of their parents.
  const std::vector<Sequence>& sequences() const { return sequences_; }
  int64_t num_generated() const;
  /// What happened since it was told last, in plain words. Called after every step.
  std::string story();
  const std::string& told() const { return told_; }
  /// From here on origins count anew.
  void settle();

  /// Throws std::logic_error unless the manager's counts are right and sequences that share a slot
  /// have the same token there.
  void check() const;

 private:
  std::vector<std::vector<int32_t>> generated() const;
  void follow();
  void name_heirs(std::vector<Sequence>& heirs) const;

  LiveOptions options_;
  std::vector<kv::Beam> beams_;  // of the last step, best first
  std::vector<Sequence> sequences_;
  std::string told_;
  int64_t copies_told_ = 0;  // the manager's numbers then
  int used_told_ = 0;
};

}  // namespace lesson05
