// The CUDA side of the model: weights from the mapped files to the device, and passes as graphs.

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "kernels/launch.cuh"
#include "kernels/pack_weights.h"
#include "qwen3/model_internal.h"

namespace kv {
namespace {

/// Copies one model's weights to the device, and counts the bytes.
class Uploader {
 public:
  Uploader(const ModelWeights& host, ModelWeights& device, const Stream& stream,
           const LoadProgress& progress)
      : total_(host.file_bytes), device_(device), stream_(stream), progress_(progress) {}

  Matrix matrix(std::span<const Matrix> parts, PackOrder order) {
    PackedWeights packed = pack_weights(parts, order, stream_, [this](int64_t n) { count(n); });
    device_.buffers.push_back(std::move(packed.buffer));
    return packed.matrix;
  }

  MatrixParts product(const MatrixParts& host, PackOrder order = PackOrder::kStacked) {
    MatrixParts packed;
    packed.parts[0] = matrix(host.view(), order);
    packed.count = 1;
    return packed;
  }

  const float* vector(const float* host, int size) {
    if (host == nullptr) return nullptr;
    device_.buffers.push_back(to_device(std::span(host, static_cast<size_t>(size)), stream_));
    return device_.buffers.back().as<const float>();
  }

 private:
  void count(int64_t bytes) {
    done_ += bytes;
    if (progress_) progress_(std::min(done_, total_), total_);
  }

  int64_t done_ = 0;
  int64_t total_;
  ModelWeights& device_;
  const Stream& stream_;
  const LoadProgress& progress_;
};

LayerWeights upload_layer(const LayerWeights& host, const ModelConfig& config, Uploader& upload) {
  LayerWeights layer;
  layer.input_norm = upload.vector(host.input_norm, config.hidden_size);
  layer.qkv = upload.product(host.qkv);
  layer.q_norm = upload.vector(host.q_norm, config.head_dim);
  layer.k_norm = upload.vector(host.k_norm, config.head_dim);
  layer.o = upload.product(host.o);
  layer.post_attention_norm = upload.vector(host.post_attention_norm, config.hidden_size);
  layer.gate_up = upload.product(host.gate_up, PackOrder::kInterleaved);
  layer.down = upload.product(host.down);
  return layer;
}

}  // namespace

ModelWeights upload_model_weights(const ModelWeights& host, const ModelConfig& config,
                                  const Stream& stream, const LoadProgress& progress) {
  ModelWeights device;
  device.device = Device::kCuda;
  device.file_bytes = host.file_bytes;
  Uploader upload(host, device, stream, progress);
  device.embedding = upload.matrix({&host.embedding, 1}, PackOrder::kStacked);
  const bool tied = host.lm_head.data == host.embedding.data;
  device.lm_head = tied ? device.embedding : upload.matrix({&host.lm_head, 1}, PackOrder::kStacked);
  device.final_norm = upload.vector(host.final_norm, config.hidden_size);
  device.inv_freq = upload.vector(host.inv_freq, config.head_dim / 2);
  for (const LayerWeights& layer : host.layers) {
    device.layers.push_back(upload_layer(layer, config, upload));
  }
  return device;
}

// --- graphs ---

struct PassGraphs::Impl {
  /// The graph of a key that was seen; null until it is captured.
  struct Entry {
    cudaGraphExec_t graph = nullptr;
  };
  std::map<uint64_t, Entry> entries;
  int64_t replays = 0;

  void drop_all() {
    if (entries.empty()) return;
    cudaDeviceSynchronize();  // a graph may still be running
    for (auto& [key, entry] : entries) {
      if (entry.graph != nullptr) cudaGraphExecDestroy(entry.graph);
    }
    entries.clear();
  }
};

namespace {

/// More shapes of passes than any engine needs at once. When there are this many graphs, all are
/// dropped.
constexpr size_t kMaxGraphs = 128;

cudaGraphExec_t capture(const Stream& stream, const std::function<void()>& pass) {
  cuda_backend::check(cudaStreamBeginCapture(stream.handle(), cudaStreamCaptureModeThreadLocal),
                      "capturing a pass");
  cudaGraph_t graph = nullptr;
  try {
    pass();
  } catch (...) {
    cudaStreamEndCapture(stream.handle(), &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  cuda_backend::check(cudaStreamEndCapture(stream.handle(), &graph), "capturing a pass");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  cuda_backend::check(error, "making a graph of a pass");
  return executable;
}

}  // namespace

PassGraphs::PassGraphs() : impl_(std::make_unique<Impl>()) {}
PassGraphs::~PassGraphs() { impl_->drop_all(); }

void PassGraphs::run(uint64_t key, const Stream& stream, const std::function<void()>& pass) {
  const auto found = impl_->entries.find(key);
  if (found == impl_->entries.end()) {
    // Runs uncaptured: kernels must be loaded and their attributes set before a capture.
    pass();
    if (impl_->entries.size() == kMaxGraphs) drop_all();
    impl_->entries.emplace(key, Impl::Entry{});
    return;
  }
  Impl::Entry& entry = found->second;
  if (entry.graph == nullptr) entry.graph = capture(stream, pass);
  cuda_backend::check(cudaGraphLaunch(entry.graph, stream.handle()), "replaying a pass");
  ++impl_->replays;
}

void PassGraphs::drop_all() { impl_->drop_all(); }
int64_t PassGraphs::replays() const { return impl_->replays; }

}  // namespace kv
