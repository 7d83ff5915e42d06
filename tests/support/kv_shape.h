#pragma once

#include "qwen3/config.h"

namespace kvtest {

/// As much of a model as a cache asks for.
inline kv::ModelConfig shape(int num_layers, int num_kv_heads, int head_dim) {
  kv::ModelConfig config;
  config.num_layers = num_layers;
  config.num_kv_heads = num_kv_heads;
  config.head_dim = head_dim;
  return config;
}

}  // namespace kvtest
