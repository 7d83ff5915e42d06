#pragma once

// The engine of this lesson, watched while it generates: n samples of one prompt or a beam search,
// one token at a time.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/model/model.h"
#include "common/model/tokenizer.h"
#include "engine.h"
#include "viz/live.h"

namespace lesson05 {

struct LiveOptions {
  bool beams = false;  // false: samples
  int n = 4;           // samples or beams
  std::string prompt;
  int max_tokens = 24;
  uint64_t seed = 0;
  int num_blocks = 64;
  int block_size = 16;
};

/// One call of the engine on a thread of its own, which stands still between steps.
class LiveSharing {
 public:
  static constexpr int kMaxSequences = 8;

  /// A sequence that the engine has at this moment.
  struct Sequence {
    int index = 0;                // of the sample; of the beam, best first
    int number = 0;               // the manager's
    std::vector<int32_t> tokens;  // prompt and generated; the last one may have no slot yet
  };

  /// Borrows the model and the tokenizer. Runs the prompt and generates the first token. Throws
  /// UserError for what the engine refuses.
  LiveSharing(kv::Model& model, const kv::Tokenizer& tokenizer, const LiveOptions& options);

  /// One token of one sample, or one of every beam. False if the run had ended.
  bool step();
  bool finished() const { return run_->finished(); }

  const LiveOptions& options() const { return options_; }
  /// The engine's own books. They are empty when the run has ended.
  const BlockManager& manager() const { return *engine_.manager(); }
  std::vector<Sequence> sequences() const;
  /// A token as it is shown.
  std::string text(int32_t token) const;
  /// What was generated so far, one text for each sample or live beam.
  std::vector<std::string> texts() const;
  int64_t num_generated() const;
  /// What the last step did, in plain words.
  const std::string& story() const { return story_; }

  /// Throws std::logic_error unless the manager's books are right and sequences that share a slot
  /// have the same token there.
  void check() const;

 private:
  std::vector<std::vector<int32_t>> generated() const;
  void tell(int64_t copies_before, int used_before);

  LiveOptions options_;
  const kv::Tokenizer* tokenizer_;
  kv::Request request_;
  SharingEngine engine_;
  std::vector<kv::Beam> beams_;  // of the last step
  std::string story_;
  std::unique_ptr<viz::LiveRun> run_;  // last: its thread ends before what it uses
};

}  // namespace lesson05
