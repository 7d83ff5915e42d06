#pragma once

// The shapes of published models that the lessons compute with. Weights are not needed for that.

#include <span>
#include <string>

#include "qwen3/config.h"

namespace kv {

struct KnownModel {
  std::string name;
  ModelConfig config;       // hidden_size, num_layers, num_heads, num_kv_heads, head_dim, and
                            // max_position_embeddings only
  int windowed_layers = 0;  // layers with a window: they need less KV than the formula
  int window = 0;           // tokens in the window
};

/// In the order in which the lessons show them; the first is Qwen3-0.6B.
std::span<const KnownModel> known_models();

/// Throws std::out_of_range for an unknown name.
const KnownModel& known_model(const std::string& name);

}  // namespace kv
