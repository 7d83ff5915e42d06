#pragma once

// Shared by the parts of the model: the weights in the form that the forward pass reads, its
// workspace, and the CUDA side. Internal: programs and lessons include qwen3/model.h.
//
// clang-format off
//   model_weights.cpp  folder -> ModelWeights in host memory, every tensor checked by name and shape
//   model.cpp          the forward pass
//   model_cuda.cu      ModelWeights on the host -> ModelWeights on the device; CUDA graphs
// clang-format on

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/device.h"
#include "kernels/matmul.h"
#include "qwen3/config.h"
#include "qwen3/model.h"
#include "qwen3/safetensors.h"

namespace kv {

/// The parts of one product, stacked by rows: MatmulArgs::weight is a view of them.
struct MatrixParts {
  std::array<Matrix, 3> parts;
  int count = 0;
  std::span<const Matrix> view() const { return {parts.data(), static_cast<size_t>(count)}; }
};

/// One layer. Matrices are [outputs, inputs]; norm weights are fp32 on the device of the weights.
struct LayerWeights {
  const float* input_norm = nullptr;           // [hidden]
  MatrixParts qkv;                             // host: {q, k, v} or {fused}; CUDA: {packed}
  const float* q_norm = nullptr;               // [head_dim]
  const float* k_norm = nullptr;               // [head_dim]
  MatrixParts o;                               // [hidden, q_width]
  const float* post_attention_norm = nullptr;  // [hidden]
  MatrixParts gate_up;                         // host: {gate, up}, always two; CUDA: {packed}
  MatrixParts down;                            // [hidden, intermediate]
};

/// All weights on one device, and who owns the bytes. Move-only.
struct ModelWeights {
  Device device = Device::kCpu;
  Matrix embedding;                   // [vocab, hidden]
  Matrix lm_head;                     // [vocab, hidden]; the same data pointer as embedding if tied
  const float* final_norm = nullptr;  // [hidden]
  const float* inv_freq = nullptr;    // [head_dim / 2]
  std::vector<LayerWeights> layers;
  int64_t file_bytes = 0;  // of all tensors the model uses, as stored

  std::optional<Weights> files;       // host: the mapping that matrices point into
  std::vector<DeviceBuffer> buffers;  // norms, inv_freq, what had to be copied; CUDA: everything
};

/// Host weights: matrices in place in the mapped files. Throws UserError for a missing tensor, a
/// wrong shape or dtype, and for layers that config.json does not have.
ModelWeights load_model_weights(const std::filesystem::path& dir, const ModelConfig& config);

/// Buffers of a pass, grown to the largest pass so far. On CUDA growing moves them, so graphs that
/// were captured before are dropped.
struct Workspace {
  int max_rows = 0;
  int max_logit_rows = 0;
  DeviceBuffer residual;   // fp32 [max_rows, hidden]: the residual stream
  DeviceBuffer qkv;        // fp32 [max_rows, qkv_width]
  DeviceBuffer q;          // activation dtype [max_rows, q_width]
  DeviceBuffer k;          // activation dtype [max_rows, kv_width]
  DeviceBuffer v;          // activation dtype [max_rows, kv_width]
  DeviceBuffer attention;  // activation dtype [max_rows, q_width]
  DeviceBuffer mlp;        // activation dtype [max_rows, intermediate]
  DeviceBuffer scratch;    // MatmulArgs::scratch of every product (matmul_scratch_bytes)
  DeviceBuffer head;       // fp32 [max_logit_rows, hidden]: the residual rows that want logits
  DeviceBuffer logits;     // fp32 [max_logit_rows, vocab]
};

#if KV_HAVE_CUDA
/// Packs and uploads (pack_weights(), bf16), a tied head once; calls progress as bytes arrive.
ModelWeights upload_model_weights(const ModelWeights& host, const ModelConfig& config,
                                  const Stream& stream, const LoadProgress& progress);

/// Captures passes as CUDA graphs and replays them.
class PassGraphs {
 public:
  PassGraphs();
  ~PassGraphs();
  PassGraphs(const PassGraphs&) = delete;
  PassGraphs& operator=(const PassGraphs&) = delete;

  /// Queues `pass`, a function that only launches work on `stream`. For each key
  /// (PassArrays::graph_key()) the first call runs it directly, the second captures it as a graph,
  /// and later calls replay the graph. The key leaves out the workspace's pointers: see drop_all().
  void run(uint64_t key, const Stream& stream, const std::function<void()>& pass);
  /// Forgets every graph. Called before the memory that their pointers refer to is freed.
  void drop_all();
  int64_t replays() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
#endif

}  // namespace kv
