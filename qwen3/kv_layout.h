#pragma once

// Bytes of K and V of a published model, computed from its config.json alone. Knows many families
// of models besides the one that the course runs. No weights are needed.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "qwen3/known_models.h"

namespace kv {

/// Layers that keep the same tokens of a sequence.
struct KvGroup {
  int num_layers = 0;
  int64_t window = 0;  // a layer attends to its last `window` tokens; 0 means all of them

  /// Blocks that a sequence of this length holds at most: those that its window may touch, which
  /// begins and ends anywhere in a block.
  int64_t blocks_of(int64_t seq_len, int64_t block_size) const;
  /// Slots in its blocks, and slots of tokens that the next one attends to: the mean over lengths
  /// around seq_len, which leave the last block filled to any degree.
  double mean_slots(int64_t seq_len, int64_t block_size) const;
  double slots_needed(int64_t seq_len) const;
};

struct KvLayout {
  std::string name;        // of the known model, or of the folder
  std::string model_type;  // "llama"; empty for a known model
  int num_heads = 0;
  int num_kv_heads = 0;  // equal in all layers
  int head_dim = 0;
  int max_position_embeddings = 0;  // 0 means that the file does not say
  std::vector<KvGroup> groups;      // one or two: attending to all, attending to a window

  int num_layers() const;
  /// Bytes of K and V of one token in one layer.
  int64_t bytes_per_layer(int64_t element_bytes) const {
    return int64_t{2} * num_kv_heads * head_dim * element_bytes;
  }
  /// Bytes that a sequence holds in whole blocks while its last token is computed.
  int64_t bytes_per_sequence(int64_t seq_len, int64_t block_size, int64_t element_bytes) const;
  /// The share of these bytes that no token needs, over lengths around seq_len.
  double mean_waste(int64_t seq_len, int64_t block_size) const;
};

/// Reads a config.json of a model that keeps a row of K and V for each token and layer: MHA, GQA or
/// MQA, with or without sliding windows, also inside "text_config". Throws UserError for anything
/// else (a latent instead of K and V, a state, an encoder) and for an unknown architecture.
KvLayout parse_kv_layout(std::string_view json, const std::string& name);

/// `model` is a folder with a config.json, the path of a config.json, or the name of a known model
/// in upper or lower case.
KvLayout load_kv_layout(const std::string& model);

}  // namespace kv
