// From a model folder to the weights of the forward pass: every tensor is found by name and checked
// against config.json before anything is used.

#include <cmath>
#include <cstring>
#include <set>

#include "common/error.h"
#include "qwen3/model_internal.h"

namespace kv {
namespace {

using Shape = std::vector<int64_t>;

class Loader {
 public:
  Loader(const std::filesystem::path& dir, const ModelConfig& config)
      : config_(config), files_(Weights::open(dir)) {
    // A base model saved on its own has no "model." in front of its names.
    if (files_.find("model.embed_tokens.weight") == nullptr &&
        files_.find("embed_tokens.weight") != nullptr) {
      prefix_.clear();
    }
  }

  ModelWeights load() {
    const ModelConfig& c = config_;
    out_.embedding = matrix(prefix_ + "embed_tokens.weight", c.vocab_size, c.hidden_size);
    out_.final_norm = vector(prefix_ + "norm.weight", c.hidden_size);
    for (int layer = 0; layer < c.num_layers; ++layer) out_.layers.push_back(load_layer(layer));
    load_head();
    refuse_others();
    compute_inv_freq();
    out_.files = std::move(files_);
    return std::move(out_);
  }

 private:
  LayerWeights load_layer(int layer) {
    const ModelConfig& c = config_;
    const std::string at = fmt::format("{}layers.{}.", prefix_, layer);
    const std::string attention = at + "self_attn.";
    LayerWeights w;
    w.input_norm = vector(at + "input_layernorm.weight", c.hidden_size);
    if (has(attention + "qkv_proj.weight")) {
      w.qkv = {{matrix(attention + "qkv_proj.weight", c.qkv_width(), c.hidden_size)}, 1};
    } else {
      w.qkv = {{matrix(attention + "q_proj.weight", c.q_width(), c.hidden_size),
                matrix(attention + "k_proj.weight", c.kv_width(), c.hidden_size),
                matrix(attention + "v_proj.weight", c.kv_width(), c.hidden_size)},
               3};
    }
    w.q_norm = vector(attention + "q_norm.weight", c.head_dim);
    w.k_norm = vector(attention + "k_norm.weight", c.head_dim);
    w.o = {{matrix(attention + "o_proj.weight", c.hidden_size, c.q_width())}, 1};
    w.post_attention_norm = vector(at + "post_attention_layernorm.weight", c.hidden_size);
    w.gate_up = load_gate_up(at + "mlp.");
    w.down = {{matrix(at + "mlp.down_proj.weight", c.hidden_size, c.intermediate_size)}, 1};
    return w;
  }

  MatrixParts load_gate_up(const std::string& mlp) {
    const int width = config_.intermediate_size;
    const int hidden = config_.hidden_size;
    if (!has(mlp + "gate_up_proj.weight")) {
      return {{matrix(mlp + "gate_proj.weight", width, hidden),
               matrix(mlp + "up_proj.weight", width, hidden)},
              2};
    }
    // One matrix, gate's rows first: cut into its halves.
    Matrix gate = matrix(mlp + "gate_up_proj.weight", 2 * int64_t{width}, hidden);
    gate.rows = width;
    Matrix up = gate;
    up.data = static_cast<const std::byte*>(gate.data) +
              int64_t{width} * hidden * static_cast<int64_t>(size_of(gate.dtype));
    return {{gate, up}, 2};
  }

  void load_head() {
    const std::string name = "lm_head.weight";
    if (!config_.tie_word_embeddings) {
      out_.lm_head = matrix(name, config_.vocab_size, config_.hidden_size);
      return;
    }
    // A tied model may carry its head all the same (Qwen3-0.6B does), as long as it is the same.
    out_.lm_head = out_.embedding;
    const TensorView* head = files_.find(name);
    if (head == nullptr) return;
    used_.insert(name);
    const TensorView* embedding = files_.find(prefix_ + "embed_tokens.weight");
    if (head->dtype != embedding->dtype || head->shape != embedding->shape ||
        std::memcmp(head->data, embedding->data, head->bytes) != 0) {
      user_error(
          "{}: tensor '{}' differs from '{}embed_tokens.weight', but config.json says "
          "tie_word_embeddings = true; set it to false or remove the tensor",
          files_.where(name), name, prefix_);
    }
  }

  /// Further layers, biases, scales: the files and config.json do not belong together.
  void refuse_others() const {
    for (const std::string& name : files_.names()) {
      if (used_.contains(name) || name.ends_with("rotary_emb.inv_freq")) continue;
      user_error(
          "{}: found tensor '{}', which the model of config.json (num_hidden_layers = {}) does not "
          "have; use the config.json that came with these weights",
          files_.where(name), name, config_.num_layers);
    }
  }

  void compute_inv_freq() {
    const int half = config_.head_dim / 2;
    auto* inv_freq = new_floats(half);
    for (int i = 0; i < half; ++i) {
      inv_freq[i] = static_cast<float>(std::pow(config_.rope_theta, -2.0 * i / config_.head_dim));
    }
    out_.inv_freq = inv_freq;
  }

  bool has(const std::string& name) const { return files_.find(name) != nullptr; }

  /// The tensor, its shape and dtype checked.
  const TensorView& tensor(const std::string& name, const Shape& shape, DType& dtype) {
    const TensorView* found = files_.find(name);
    if (found == nullptr) {
      user_error("{}: tensor '{}' is missing, wanted with shape [{}]; {}", files_.where(name), name,
                 fmt::join(shape, ", "), "download the model's files again");
    }
    if (found->shape != shape) {
      user_error(
          "{}: tensor '{}' has shape [{}], config.json wants [{}]; use the config.json that came "
          "with these weights",
          files_.where(name), name, fmt::join(found->shape, ", "), fmt::join(shape, ", "));
    }
    if (found->dtype == "F32") {
      dtype = DType::kF32;
    } else if (found->dtype == "F16") {
      dtype = DType::kF16;
    } else if (found->dtype == "BF16") {
      dtype = DType::kBF16;
    } else {
      user_error("{}: tensor '{}' has dtype {}, wanted BF16, F16 or F32; convert the weights",
                 files_.where(name), name, found->dtype);
    }
    used_.insert(name);
    out_.file_bytes += static_cast<int64_t>(found->bytes);
    return *found;
  }

  /// A matrix in place, or a copy of it if the file put it at an odd address.
  Matrix matrix(const std::string& name, int64_t rows, int64_t cols) {
    DType dtype{};
    const TensorView& view = tensor(name, {rows, cols}, dtype);
    const void* data = view.data;
    if (reinterpret_cast<uintptr_t>(data) % size_of(dtype) != 0) {
      DeviceBuffer& copy = out_.buffers.emplace_back(Device::kCpu, view.bytes);
      std::memcpy(copy.data(), data, view.bytes);
      data = copy.data();
    }
    return {data, dtype, static_cast<int>(rows), static_cast<int>(cols)};
  }

  /// A vector, as fp32.
  const float* vector(const std::string& name, int n) {
    DType dtype{};
    const TensorView& view = tensor(name, {n}, dtype);
    float* out = new_floats(n);
    for (int i = 0; i < n; ++i) {
      if (dtype == DType::kF32) {
        std::memcpy(out + i, view.data + i * 4, 4);
        continue;
      }
      uint16_t bits = 0;
      std::memcpy(&bits, view.data + i * 2, 2);
      out[i] = dtype == DType::kF16 ? to_float(Half{bits}) : to_float(BFloat16{bits});
    }
    return out;
  }

  float* new_floats(int n) {
    const size_t bytes = static_cast<size_t>(n) * sizeof(float);
    return out_.buffers.emplace_back(Device::kCpu, bytes).as<float>();
  }

  const ModelConfig& config_;
  Weights files_;
  std::string prefix_ = "model.";
  ModelWeights out_;
  std::set<std::string> used_;  // names of tensors
};

}  // namespace

ModelWeights load_model_weights(const std::filesystem::path& dir, const ModelConfig& config) {
  return Loader(dir, config).load();
}

}  // namespace kv
