#pragma once

// Ways to keep K and V, and how far each moves a model's logits: whole texts in one pass each, on
// the CPU, in fp32 but for K and V.

#include <span>
#include <string>
#include <vector>

#include "lessons/01_no_cache/engine.h"
#include "qwen3/attention.h"

namespace lesson14 {

enum class Keep {
  kFp32,          // as they are
  kBf16,          // rounded to bf16
  kTokenAndHead,  // this lesson's FP8: a power of two for each token's head of K, or of V
  kOne,           // FP8 with scale 1
  kFirstTensor,   // FP8 with the first text's scale, one for all K of a layer, and one for all V
  kFirstHead,     // FP8 with the first text's scale, one for each head of K, or of V, in a layer
};
struct Way {
  std::string name;
  Keep keep;
};
std::span<const Way> ways();

/// Lesson 01's attention over rows of K and V that are kept in some way. The first pass decides the
/// scales of kFirstTensor and kFirstHead; a later, larger value saturates. Borrows nothing.
class RoundedAttention final : public kv::Attention {
 public:
  /// K is multiplied by `k_factor` and q divided by it, a power of two: in fp32 that changes no bit
  /// of a score. It stands for a model whose K is that much larger.
  RoundedAttention(const kv::ModelConfig& config, Keep keep, float k_factor = 1);

  void begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) override;
  void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override;

  float largest_k() const { return largest_k_; }  // magnitude, of all passes so far
  float largest_v() const { return largest_v_; }

 private:
  void keep_rows(std::vector<float>& rows, std::vector<float>& scales);

  lesson01::CausalAttention attention_;
  kv::ModelConfig config_;
  Keep keep_;
  float k_factor_;
  std::vector<std::vector<float>> k_scales_,
      v_scales_;  // [num_layers][num_kv_heads], of the first pass
  std::vector<float> q_, k_, v_;
  float largest_k_ = 0, largest_v_ = 0;
};

/// How far logits are from those of fp32, over many tokens.
struct Distance {
  double squared_error = 0, squared = 0, log_probability = 0;
  int64_t num_tokens = 0;  // whose next token is known
  int64_t num_same = 0;    // tokens whose likeliest next token is that of fp32

  /// Adds a text: logits [tokens, vocab_size] of this way and of fp32.
  void add(std::span<const float> logits, std::span<const float> exact,
           std::span<const int32_t> tokens);
  double relative_error() const;
  double perplexity() const;
};

/// Logits of every token of a text: [tokens, vocab_size].
std::vector<float> logits_of(kv::Model& model, kv::Attention& attention,
                             std::span<const int32_t> tokens);

}  // namespace lesson14
