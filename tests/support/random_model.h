#pragma once

// Small Qwen3 models with random weights, written as a Hugging Face folder. A test takes the
// tensors, changes what it wants to see refused, and writes them.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "common/dtype.h"
#include "qwen3/random_weights.h"
#include "qwen3/safetensors.h"

namespace kvtest {

struct RandomModel {
  int vocab_size = 97;
  int hidden_size = 48;
  int intermediate_size = 80;
  int num_layers = 2;
  int num_heads = 4;
  int num_kv_heads = 2;
  int head_dim = 16;  // not hidden_size / num_heads
  bool tied = true;
  bool fused = false;             // qkv_proj and gate_up_proj instead of their parts
  std::string dtype = "BF16";     // or "F16", "F32"
  std::string prefix = "model.";  // in front of all names but lm_head's
  uint64_t seed = 1;
  float weight_std = 0.1f;  // large enough that an error shows in the logits
  double rope_theta = 10000.0;
  int max_position_embeddings = 1024;
};

struct OwnedTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};
using Tensors = std::map<std::string, OwnedTensor>;

inline OwnedTensor make_tensor(const std::string& dtype, std::vector<int64_t> shape,
                               const std::vector<float>& values) {
  OwnedTensor t{dtype, std::move(shape), {}};
  t.bytes.resize(values.size() * (dtype == "F32" ? 4 : 2));
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == "F32") {
      std::memcpy(&t.bytes[i * 4], &values[i], 4);
    } else {
      const uint16_t bits =
          dtype == "F16" ? kv::to_half(values[i]).bits : kv::to_bfloat16(values[i]).bits;
      std::memcpy(&t.bytes[i * 2], &bits, 2);
    }
  }
  return t;
}

/// Rounded to bf16 with few mantissa bits, so that every dtype holds the same values exactly.
inline std::vector<float> random_values(std::mt19937_64& rng, int64_t n, float mean, float std) {
  std::normal_distribution<float> normal(mean, std);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values) v = kv::to_float(kv::to_half(kv::to_float(kv::to_bfloat16(normal(rng)))));
  return values;
}

inline Tensors random_tensors(const RandomModel& m) {
  Tensors tensors;
  std::mt19937_64 rng(m.seed);
  const auto matrix = [&](const std::string& name, int64_t rows, int64_t cols) {
    tensors[name] =
        make_tensor(m.dtype, {rows, cols}, random_values(rng, rows * cols, 0.0f, m.weight_std));
  };
  const auto norm = [&](const std::string& name, int64_t n) {
    tensors[name] = make_tensor(m.dtype, {n}, random_values(rng, n, 1.0f, 0.2f));
  };
  // One matrix of stacked parts, or the parts: the same values either way.
  const auto stacked = [&](const std::string& at, const std::string& fused_name,
                           const std::vector<std::pair<std::string, int64_t>>& parts) {
    std::vector<float> all;
    int64_t total = 0;
    for (const auto& [name, rows] : parts) {
      const std::vector<float> v = random_values(rng, rows * m.hidden_size, 0.0f, m.weight_std);
      if (!m.fused) tensors[at + name] = make_tensor(m.dtype, {rows, m.hidden_size}, v);
      all.insert(all.end(), v.begin(), v.end());
      total += rows;
    }
    if (m.fused) tensors[at + fused_name] = make_tensor(m.dtype, {total, m.hidden_size}, all);
  };

  matrix(m.prefix + "embed_tokens.weight", m.vocab_size, m.hidden_size);
  const int64_t q_width = int64_t{m.num_heads} * m.head_dim;
  const int64_t kv_width = int64_t{m.num_kv_heads} * m.head_dim;
  for (int layer = 0; layer < m.num_layers; ++layer) {
    const std::string at = m.prefix + "layers." + std::to_string(layer) + ".";
    norm(at + "input_layernorm.weight", m.hidden_size);
    stacked(at + "self_attn.", "qkv_proj.weight",
            {{"q_proj.weight", q_width}, {"k_proj.weight", kv_width}, {"v_proj.weight", kv_width}});
    norm(at + "self_attn.q_norm.weight", m.head_dim);
    norm(at + "self_attn.k_norm.weight", m.head_dim);
    matrix(at + "self_attn.o_proj.weight", m.hidden_size, q_width);
    norm(at + "post_attention_layernorm.weight", m.hidden_size);
    stacked(at + "mlp.", "gate_up_proj.weight",
            {{"gate_proj.weight", m.intermediate_size}, {"up_proj.weight", m.intermediate_size}});
    matrix(at + "mlp.down_proj.weight", m.hidden_size, m.intermediate_size);
  }
  norm(m.prefix + "norm.weight", m.hidden_size);
  if (!m.tied) matrix("lm_head.weight", m.vocab_size, m.hidden_size);
  return tensors;
}

inline void write_config(const std::filesystem::path& dir, const RandomModel& m) {
  std::ofstream out(dir / "config.json");
  out << "{\"model_type\": \"qwen3\", \"architectures\": [\"Qwen3ForCausalLM\"]"
      << ", \"vocab_size\": " << m.vocab_size << ", \"hidden_size\": " << m.hidden_size
      << ", \"intermediate_size\": " << m.intermediate_size
      << ", \"num_hidden_layers\": " << m.num_layers << ", \"num_attention_heads\": " << m.num_heads
      << ", \"num_key_value_heads\": " << m.num_kv_heads << ", \"head_dim\": " << m.head_dim
      << ", \"rms_norm_eps\": 1e-06, \"rope_theta\": " << m.rope_theta
      << ", \"max_position_embeddings\": " << m.max_position_embeddings
      << ", \"hidden_act\": \"silu\", \"attention_bias\": false"
      << ", \"tie_word_embeddings\": " << (m.tied ? "true" : "false") << "}\n";
}

inline void write_tensors(const std::filesystem::path& file, const Tensors& tensors) {
  std::vector<kv::TensorToWrite> list;
  for (const auto& [name, t] : tensors) {
    list.push_back({name, t.dtype, t.shape, t.bytes.data(), t.bytes.size()});
  }
  kv::write_safetensors(file, list);
}

/// config.json and model.safetensors.
inline void write_model(const std::filesystem::path& dir, const RandomModel& m,
                        const Tensors& tensors) {
  write_config(dir, m);
  write_tensors(dir / "model.safetensors", tensors);
}
inline void write_model(const std::filesystem::path& dir, const RandomModel& m) {
  write_model(dir, m, random_tensors(m));
}

}  // namespace kvtest
