#pragma once

// The blocks that a sequence holds at a length, counted with the lesson's own coordinator and a
// pool without memory: no model is needed.

#include <cstdint>

#include "qwen3/known_models.h"

namespace lesson10 {

struct HeldBlocks {
  int num_tokens = 0;
  int64_t full = 0;     // blocks of group 0
  int64_t sliding = 0;  // of all other groups together
  int64_t peak = 0;     // of all groups, the most while the prompt ran in chunks
  int64_t bytes = 0;    // of `full` and `sliding`
  /// Blocks of the same size and their bytes, if all layers kept all tokens.
  int64_t all = 0, all_bytes = 0;
};

/// The model's shape with its windows: the layers are cut into equal runs, and the last layer of
/// each run has no window.
kv::ModelConfig with_windows(const kv::KnownModel& model);

/// The blocks held after a prompt of num_tokens tokens ran in chunks, its last token alone.
/// Elements have 2 bytes.
HeldBlocks held_blocks(const kv::ModelConfig& config, int num_tokens, int block_size, int chunk);

}  // namespace lesson10
