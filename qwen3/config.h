#pragma once

// config.json of a Hugging Face Qwen3 folder: the shape of the model.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

class JsonObject;

/// Format of K and V in the cache.
enum class KvFormat {
  kActivations,  // in activation_dtype(device): fp32 on the CPU, bf16 on CUDA
  kFp8,          // e4m3: a byte for each element, and one for the scale of each token's head
};

struct ModelConfig {
  int vocab_size = 0;
  int hidden_size = 0;
  int intermediate_size = 0;  // width of the MLP
  int num_layers = 0;         // num_hidden_layers
  int num_heads = 0;          // num_attention_heads
  int num_kv_heads = 0;       // num_key_value_heads; divides num_heads
  int head_dim = 0;           // need not be hidden_size / num_heads; 128 if the file has none
  float rms_norm_eps = 1e-6f;
  double rope_theta = 10000.0;  // at the top of the file, or inside "rope_parameters"
  bool tie_word_embeddings = false;
  int max_position_embeddings = 0;  // longest sequence the model was made for
  /// From config.json and generation_config.json; may be empty. Tokenizer::with_eos_token() adds
  /// tokenizer_config.json's.
  std::vector<int32_t> eos_token_ids;
  /// [num_layers]: number of keys that a query sees in each layer, its own included; 0 means no
  /// limit. An empty list means no limit in any layer.
  std::vector<int> windows;
  KvFormat kv_format = KvFormat::kActivations;  // not of the file: see Model::set_kv_format()

  int window_of(int layer) const {
    return windows.empty() ? 0 : windows[static_cast<size_t>(layer)];
  }
  int q_width() const { return num_heads * head_dim; }
  int kv_width() const { return num_kv_heads * head_dim; }
  /// Width of the fused QKV output: (num_heads + 2 num_kv_heads) head_dim.
  int qkv_width() const { return q_width() + 2 * kv_width(); }
  /// Bytes of K and V that one token needs in all layers.
  int64_t kv_bytes_per_token(int64_t element_bytes) const {
    return int64_t{2} * num_layers * kv_width() * element_bytes;
  }
};

/// Reads `dir`/config.json, and the generation_file() for eos ids. Throws UserError that names the
/// file, the key, what was found and what was wanted. A setting that would change logits or tokens
/// and is not built here is refused. The others of a generation (temperature, top_k, top_p,
/// do_sample, max_new_tokens, max_length, stop_strings) are for a server to use: a program's
/// options have them.
ModelConfig load_config(const std::filesystem::path& dir);

/// Of each layer whether it has a window, as "layer_types" of newer files says. Throws UserError.
std::vector<bool> read_layer_types(const JsonObject& config, int num_layers);
/// Throws UserError if the attention heads cannot share the KV heads evenly.
void check_heads(const JsonObject& config, int num_heads, int num_kv_heads);

/// `dir`/generation_config.json, or config.json in a folder from before there was one.
std::filesystem::path generation_file(const std::filesystem::path& dir);

/// Parses the text of a config.json (also fuzzed). `name` is used in messages.
ModelConfig parse_config(std::string_view json, const std::string& name);

}  // namespace kv
