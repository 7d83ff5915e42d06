#include "qwen3/known_models.h"

#include <stdexcept>
#include <vector>

namespace kv {
namespace {

KnownModel shape(const char* name, int hidden, int layers, int heads, int kv_heads, int head_dim,
                 int max_positions, int windowed_layers = 0, int window = 0) {
  KnownModel model{
      .name = name, .config = {}, .windowed_layers = windowed_layers, .window = window};
  model.config.hidden_size = hidden;
  model.config.num_layers = layers;
  model.config.num_heads = heads;
  model.config.num_kv_heads = kv_heads;
  model.config.head_dim = head_dim;
  model.config.max_position_embeddings = max_positions;
  return model;
}

}  // namespace

std::span<const KnownModel> known_models() {
  static const std::vector<KnownModel> kModels{
      shape("Qwen3-0.6B", 1024, 28, 16, 8, 128, 40960),
      shape("Gemma 3 27B", 5376, 62, 32, 16, 128, 131072, 52, 1024),
      shape("Llama 3 70B", 8192, 80, 64, 8, 128, 8192),
      shape("Llama 2 7B", 4096, 32, 32, 32, 128, 4096),
  };
  return kModels;
}

const KnownModel& known_model(const std::string& name) {
  for (const KnownModel& model : known_models()) {
    if (model.name == name) return model;
  }
  throw std::out_of_range("there is no known model named " + name);
}

}  // namespace kv
