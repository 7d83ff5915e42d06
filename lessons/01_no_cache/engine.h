#pragma once

// Generation without a cache: every step runs every token of every sequence through the model
// again.

#include <memory>
#include <span>
#include <vector>

#include "causal_attention.h"
#include "common/device.h"
#include "qwen3/attention.h"
#include "qwen3/config.h"
#include "qwen3/engine.h"
#include "qwen3/model.h"

namespace lesson01 {

/// Attention among the rows of one pass. A pass holds whole sequences, each from its token 0, one
/// after the other; K and V live as long as the pass.
class CausalAttention : public kv::Attention {
 public:
  explicit CausalAttention(const kv::ModelConfig& config);

  void begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) override;
  void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override;

 private:
  int num_heads_;
  int num_kv_heads_;
  int head_dim_;
  int max_seq_len_ = 0;  // of the pass
};

class NoCacheEngine : public kv::Engine {
 public:
  NoCacheEngine(kv::Model& model, const kv::EngineOptions& options);
  kv::GenerateResult generate(std::span<const kv::Request> requests,
                              const kv::TokenCallback& on_token = {}) override;

  /// Rows of each pass of the running or the last generate(), in order. May be read inside a token
  /// callback.
  std::span<const int> rows_of_passes() const { return rows_of_passes_; }

 private:
  kv::Model* model_;
  kv::EngineOptions options_;
  CausalAttention attention_;
  std::vector<int> rows_of_passes_;
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const kv::EngineOptions& options);

}  // namespace lesson01
