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
  int n = 4;           // samples or beams
  std::string prompt;
  int max_tokens = 24;
  int num_blocks = 64;
  int block_size = 16;
};

class LiveSharing : public viz::Live {
 public:
  using Live::Live;

  /// A sequence that the engine has at this moment: a sample, or a beam; its hue is its index, for
  /// beams the best first.
  struct Sequence : viz::SequenceView {
    int number = 0;               // the manager's
    std::vector<int32_t> tokens;  // prompt and generated; the last one may have no slot yet
  };

  /// Runs the prompt and generates the first token. Throws UserError for what the engine refuses.
  void watch(const LiveOptions& options);

  const LiveOptions& options() const { return options_; }
  /// The engine's own. It is empty when the run has ended.
  const BlockManager& manager() const { return *engine<SharingEngine>().manager(); }
  std::vector<Sequence> sequences() const;
  /// What was generated so far, one text for each sample or live beam.
  std::vector<std::string> texts();
  int64_t num_generated() const;
  /// What happened since it was told last, in plain words.
  std::string story();
  const std::string& told() const { return told_; }

  /// Throws std::logic_error unless the manager's counts are right and sequences that share a slot
  /// have the same token there.
  void check() const;

 private:
  std::vector<std::vector<int32_t>> generated() const;

  LiveOptions options_;
  std::vector<kv::Beam> beams_;  // of the last step
  std::string told_;
  int64_t copies_told_ = 0;  // the manager's numbers then
  int used_told_ = 0;
};

}  // namespace lesson05
