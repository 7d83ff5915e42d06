#pragma once

// The Qwen3 forward pass (transformers: models/qwen3/modeling_qwen3.py), on either device.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "common/device.h"
#include "common/kernel.h"
#include "qwen3/attention.h"
#include "qwen3/config.h"
#include "qwen3/pass.h"

namespace kv {

/// Called while weights are read: (bytes done, bytes in all).
using LoadProgress = std::function<void(int64_t, int64_t)>;

/// Weights and workspace on one device. On the CPU the weights are used in place, in the mapped
/// file.
class Model {
 public:
  /// Loads a Hugging Face folder unchanged. Throws UserError or DeviceError; nothing is half
  /// loaded.
  static Model load(const std::filesystem::path& dir, Device device,
                    const LoadProgress& progress = {});
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  const ModelConfig& config() const;
  Device device() const;
  const Stream& stream() const;
  /// The kernels that attention is asked to use, from the next pass on.
  Kernel kernel() const;
  void set_kernel(Kernel kernel);
  /// Replaces the layers' windows (ModelConfig::windows) from the next pass on; the weights stay
  /// the same. Throws std::invalid_argument unless the list is empty or has one non-negative window
  /// for each layer.
  void set_windows(std::vector<int> windows);
  /// Rounds every row of K and V to this format from the next pass on, before anything is cached
  /// or attended to; the rows stay in the activation dtype. An attention that keeps K and V in the
  /// format rounds them itself (Attention::rounds_kv()).
  void set_kv_format(KvFormat format);
  /// Bytes of the weights as stored in the files.
  int64_t weight_bytes() const;
  /// Called with all weights as this device has them, piece by piece, always in the same order.
  using WeightVisitor = std::function<void(DType dtype, std::span<const std::byte> bytes)>;
  void for_each_weight(const WeightVisitor& visit) const;

  /// Runs one pass and waits. Returns logits [logit rows, vocab_size], fp32, on the host; valid
  /// until the next call. Throws UserError for a token id outside the vocabulary.
  std::span<const float> forward(const PassRows& rows, Attention& attention);

  /// Queues the same pass without waiting for it or copying the logits to the host.
  void launch(const PassRows& rows, Attention& attention);
  /// Logits of the last launch, on the device: fp32 [logit rows, vocab_size].
  const float* device_logits() const;

  /// Number of passes replayed from a CUDA graph.
  int64_t graph_replays() const;

 private:
  Model();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kv
