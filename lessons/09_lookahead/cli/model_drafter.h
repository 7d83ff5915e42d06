#pragma once

// A drafter that is a second, smaller model: it guesses its most likely tokens.

#include "lessons/09_lookahead/drafter.h"
#include "lessons/09_lookahead/engine.h"
#include "qwen3/model.h"

namespace lesson09 {

/// The second model has a cache of its own. It is served as any model is: by lesson 08's engine,
/// whose prefix cache still holds the earlier guesses that were right.
class ModelDrafter : public Drafter {
 public:
  static constexpr int kBlockSize = 4;  // of what was right, at most 3 tokens run once more

  /// Takes the model. Throws UserError unless it has the vocabulary of the one that checks.
  /// `num_slots`: tokens that its cache holds.
  ModelDrafter(kv::Model draft, const kv::ModelConfig& checked_by, int64_t num_slots);
  std::vector<int32_t> propose(int64_t id, std::span<const int32_t> tokens,
                               int max_guesses) override;

 private:
  kv::Model model_;
  lesson08::ServingEngine engine_;
};

}  // namespace lesson09
