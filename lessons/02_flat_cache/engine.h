#pragma once

// Generation with a flat cache: the prompts go through the model once, then one token of each
// sequence per step.

#include <memory>
#include <optional>
#include <span>

#include "decode_attention.h"
#include "flat_kv_cache.h"
#include "qwen3/engine.h"
#include "qwen3/model.h"

namespace lesson02 {

/// The sizes of a pass, the same for every layer. The caller adds the addresses.
DecodeAttentionArgs sizes_of(const kv::PassRows& rows, const kv::ModelConfig& config);

/// Attention over a flat cache, which it borrows: writes this pass's K and V, then reads all of
/// them. A pass is the model's forward(), then end_pass().
class FlatAttention : public kv::Attention {
 public:
  FlatAttention(const kv::ModelConfig& config, FlatKvCache& cache)
      : config_(config), cache_(&cache) {}

  /// Throws UserError if a slab has no room for its rows; nothing has changed then. Passes with one
  /// row for each sequence may be replayed: lengths and places are read from device memory.
  void begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) override;
  void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override;
  /// Advances the slabs' positions once the last layer is done.
  void end_pass(const kv::PassRows& rows);

 private:
  /// The arguments of decode_attention for these rows.
  DecodeAttentionArgs args_of(const kv::AttentionRows& rows) const;
  /// Writes this pass's K and V into their slots of the layer.
  void append(const kv::AttentionRows& rows, const kv::Stream& stream) const;
  /// Request i lives in slab i. Each sequence of a pass wants logits, so requests[seq] is its own.
  static int slab_of(const kv::PassRows& rows, int seq) {
    return static_cast<int>(rows.requests[seq]);
  }

  kv::ModelConfig config_;
  FlatKvCache* cache_;
  // Of this pass:
  const int32_t* row_seq_ = nullptr;  // [num_rows], on the device
  DecodeAttentionArgs args_;          // without what forward() adds for a layer
};

/// Every request gets a slab of max_seq_len slots for the whole of generate(). A finished request
/// keeps its slab until the last request has finished. The next generate() of the same shape uses
/// the cache again.
class FlatCacheEngine : public kv::Engine {
 public:
  FlatCacheEngine(kv::Model& model, const kv::EngineOptions& options)
      : model_(&model), options_(options) {}
  /// Throws UserError, with both numbers, for a request longer than max_seq_len, before anything is
  /// computed; DeviceError if the slabs do not fit in the device's memory.
  kv::GenerateResult generate(std::span<const kv::Request> requests,
                              const kv::TokenCallback& on_token = {}) override;
  int64_t slots_to_start(std::span<const kv::Request> requests) const override {
    return std::ssize(requests) * max_seq_len(requests);
  }

  /// The cache of the last generate(); null before the first.
  const FlatKvCache* cache() const { return cache_ ? &*cache_ : nullptr; }

 private:
  int max_seq_len(std::span<const kv::Request> requests) const;
  void make_cache(std::span<const kv::Request> requests);

  kv::Model* model_;
  kv::EngineOptions options_;
  std::optional<FlatKvCache> cache_;
  std::optional<FlatAttention> attention_;  // borrows cache_
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const kv::EngineOptions& options);

}  // namespace lesson02
