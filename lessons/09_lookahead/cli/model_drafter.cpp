#include "model_drafter.h"

#include <algorithm>
#include <utility>

#include "common/error.h"

namespace lesson09 {
namespace {

/// Throws UserError unless both models have vocabularies of one size: else the guesses mean
/// nothing.
kv::Model checked(kv::Model draft, const kv::ModelConfig& checked_by) {
  if (draft.config().vocab_size != checked_by.vocab_size) {
    kv::user_error(
        "the model that guesses has a vocabulary of {} tokens, the one that checks has {}; take "
        "two "
        "models of one family",
        draft.config().vocab_size, checked_by.vocab_size);
  }
  return draft;
}

}  // namespace

ModelDrafter::ModelDrafter(kv::Model draft, const kv::ModelConfig& checked_by, int64_t num_slots)
    : model_(checked(std::move(draft), checked_by)),
      engine_(model_, {.block_size = kBlockSize,
                       .num_blocks = static_cast<int>((num_slots + kBlockSize - 1) / kBlockSize)}) {
}

std::vector<int32_t> ModelDrafter::propose(int64_t, std::span<const int32_t> tokens,
                                           int max_guesses) {
  kv::Request request;
  request.prompt.assign(tokens.begin(), tokens.end());
  // The draft model guesses nothing beyond its last position.
  const auto room = model_.config().max_position_embeddings - static_cast<int>(tokens.size()) + 1;
  request.max_tokens = std::max(0, std::min(max_guesses, room));
  if (request.max_tokens == 0) return {};
  return engine_.generate({&request, 1}).completions[0].tokens;
}

}  // namespace lesson09
