#include "qwen3/model.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "common/error.h"
#include "kernels/embedding.h"
#include "kernels/gather_rows.h"
#include "kernels/qk_norm_rope.h"
#include "kernels/round_kv.h"
#include "qwen3/model_internal.h"

namespace kv {

struct Model::Impl {
  explicit Impl(Device device) : stream(device), arrays(stream) {}

  ModelConfig config;
  Stream stream;
  ModelWeights weights;
  Workspace workspace;
  Kernel kernel = Kernel::kFast;
  // Of the pass in progress:
  PassArrays arrays;
  int num_rows = 0;
  int num_seqs = 0;
  int num_logit_rows = 0;
  std::vector<float> host_logits;
#if KV_HAVE_CUDA
  PassGraphs graphs;
#endif

  void check(const PassRows& rows) const;
  void reserve(int rows, int logit_rows);
  void launch(const PassRows& rows, Attention& attention);
  void run_pass(Attention& attention);
  void run_layer(int layer, Attention& attention);
  void multiply(const void* x, int rows, const float* norm_weight, std::span<const Matrix> weight,
                Epilogue epilogue, void* out, int64_t out_stride);
};

/// One product of the pass: out = epilogue(norm(x) W^T), the norm only if norm_weight is given.
void Model::Impl::multiply(const void* x, int rows, const float* norm_weight,
                           std::span<const Matrix> weight, Epilogue epilogue, void* out,
                           int64_t out_stride) {
  MatmulArgs args;
  args.x = x;
  args.num_rows = rows;
  args.k = weight.front().cols;
  args.norm_weight = norm_weight;
  args.norm_eps = config.rms_norm_eps;
  args.weight = weight;
  args.epilogue = epilogue;
  args.out = out;
  args.out_stride = out_stride;
  args.scratch = workspace.scratch.data();
  matmul(args, stream);
}

/// residual += o(attention(qkv(norm(residual)))); residual += down(silu(gate) * up of
/// norm(residual))
void Model::Impl::run_layer(int layer, Attention& attention) {
  const LayerWeights& w = weights.layers[static_cast<size_t>(layer)];
  Workspace& ws = workspace;

  AttentionRows rows;
  rows.layer = layer;
  rows.window = config.window_of(layer);
  rows.num_rows = num_rows;
  rows.q = ws.q.data();
  rows.out = ws.attention.data();
  rows.num_seqs = num_seqs;
  rows.kernel = kernel;
  rows.positions = arrays.positions;
  rows.first_row = arrays.first_row;
  rows.seq_len = arrays.seq_len;
  KvSlots kv = attention.slots(rows, stream);
  if (kv.k == nullptr) {
    kv = {.k = ws.k.data(), .v = ws.v.data()};
    rows.k = kv.k;
    rows.v = kv.v;
  }

  multiply(ws.residual.data(), num_rows, w.input_norm, w.qkv.view(), Epilogue::kStore,
           ws.qkv.data(), config.qkv_width());

  QkNormRopeArgs rope;
  rope.qkv = ws.qkv.as<float>();
  rope.positions = arrays.positions;
  rope.num_rows = num_rows;
  rope.num_heads = config.num_heads;
  rope.num_kv_heads = config.num_kv_heads;
  rope.head_dim = config.head_dim;
  rope.q_norm_weight = w.q_norm;
  rope.k_norm_weight = w.k_norm;
  rope.norm_eps = config.rms_norm_eps;
  rope.inv_freq = weights.inv_freq;
  rope.q = ws.q.data();
  rope.kv = kv;
  qk_norm_rope(rope, stream);
  if (config.kv_format == KvFormat::kFp8 && !attention.rounds_kv()) {
    round_kv({kv, num_rows, config.num_kv_heads, config.head_dim}, stream);
  }
  attention.forward(rows, stream);

  multiply(ws.attention.data(), num_rows, nullptr, w.o.view(), Epilogue::kAdd, ws.residual.data(),
           config.hidden_size);
  multiply(ws.residual.data(), num_rows, w.post_attention_norm, w.gate_up.view(),
           Epilogue::kSiluMul, ws.mlp.data(), config.intermediate_size);
  multiply(ws.mlp.data(), num_rows, nullptr, w.down.view(), Epilogue::kAdd, ws.residual.data(),
           config.hidden_size);
}

/// The whole forward pass. It only queues work whose arguments depend on the arrays' sizes and
/// addresses and on the workspace, so that a CUDA graph may replay it.
void Model::Impl::run_pass(Attention& attention) {
  Workspace& ws = workspace;
  embedding({arrays.token_ids, num_rows, weights.embedding, ws.residual.as<float>()}, stream);
  for (int layer = 0; layer < config.num_layers; ++layer) run_layer(layer, attention);

  if (num_logit_rows == 0) return;
  const void* head_rows = ws.residual.data();
  if (num_logit_rows < num_rows) {
    gather_rows({ws.residual.as<float>(), arrays.logit_rows, num_logit_rows, config.hidden_size,
                 ws.head.as<float>()},
                stream);
    head_rows = ws.head.data();
  }
  multiply(head_rows, num_logit_rows, weights.final_norm, {&weights.lm_head, 1}, Epilogue::kStore,
           ws.logits.data(), config.vocab_size);
}

/// Checks the whole pass before anything is computed.
void Model::Impl::check(const PassRows& pass) const {
  const size_t rows = pass.token_ids.size();
  if (rows == 0) throw std::logic_error("forward: a pass needs at least one row");
  if (rows > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      pass.positions.size() != rows || pass.first_row.size() != pass.seq_len.size() + 1 ||
      pass.first_row.back() != pass.num_rows()) {
    throw std::logic_error(
        fmt::format("forward: {} token ids, {} positions and {} sequences do not fit together",
                    rows, pass.positions.size(), pass.seq_len.size()));
  }
  for (size_t row = 0; row < rows; ++row) {
    if (pass.token_ids[row] < 0 || pass.token_ids[row] >= config.vocab_size) {
      user_error("token id {} is not in the vocabulary: wanted 0 to {}; use this model's tokenizer",
                 pass.token_ids[row], config.vocab_size - 1);
    }
    if (pass.positions[row] < 0) {
      throw std::logic_error(
          fmt::format("forward: row {} has position {}", row, pass.positions[row]));
    }
  }
  int64_t previous = -1;
  for (const int32_t row : pass.logit_rows) {
    if (row <= previous || row >= static_cast<int64_t>(rows)) {
      throw std::logic_error(fmt::format(
          "forward: logit row {} after {}, wanted ascending rows below {}", row, previous, rows));
    }
    previous = row;
  }
}

void Model::Impl::reserve(int rows, int logit_rows) {
  Workspace& ws = workspace;
  if (rows <= ws.max_rows && logit_rows <= ws.max_logit_rows) return;
  stream.synchronize();
#if KV_HAVE_CUDA
  graphs.drop_all();
#endif
  const auto grow = [&](DeviceBuffer& buffer, int64_t elements, size_t element_bytes) {
    buffer = DeviceBuffer();  // frees the old buffer before it allocates
    buffer = DeviceBuffer(stream.device(), static_cast<size_t>(elements) * element_bytes);
  };
  const size_t activation = size_of(activation_dtype(stream.device()));
  if (rows > ws.max_rows) {
    ws.max_rows = 0;  // as long as not all buffers have grown
    const int64_t n = rows;
    grow(ws.residual, n * config.hidden_size, sizeof(float));
    grow(ws.qkv, n * config.qkv_width(), sizeof(float));
    grow(ws.q, n * config.q_width(), activation);
    grow(ws.k, n * config.kv_width(), activation);
    grow(ws.v, n * config.kv_width(), activation);
    grow(ws.attention, n * config.q_width(), activation);
    grow(ws.mlp, n * config.intermediate_size, activation);
    const int widest = std::max({config.hidden_size, config.q_width(), config.intermediate_size});
    grow(ws.scratch, 1, matmul_scratch_bytes(stream.device(), rows, widest));
    ws.max_rows = rows;
  }
  if (logit_rows > ws.max_logit_rows) {
    ws.max_logit_rows = 0;
    const int64_t n = logit_rows;
    grow(ws.head, n * config.hidden_size, sizeof(float));
    grow(ws.logits, n * config.vocab_size, sizeof(float));
    ws.max_logit_rows = logit_rows;
  }
}

void Model::Impl::launch(const PassRows& rows, Attention& attention) {
  check(rows);
  num_rows = rows.num_rows();
  num_seqs = rows.num_seqs();
  num_logit_rows = static_cast<int>(rows.logit_rows.size());
  reserve(num_rows, num_logit_rows);
  arrays.begin(rows);
  arrays.launches_depend_on(attention.id());
  arrays.launches_depend_on(static_cast<uint64_t>(kernel));
  attention.begin_pass(rows, arrays);
  arrays.upload();
#if KV_HAVE_CUDA
  const std::optional<uint64_t> key = arrays.graph_key();
  if (stream.device() == Device::kCuda && key.has_value()) {
    graphs.run(*key, stream, [&] { run_pass(attention); });
    return;
  }
#endif
  run_pass(attention);
}

Model::Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Model Model::load(const std::filesystem::path& dir, Device device, const LoadProgress& progress) {
  Model model;
  model.impl_ = std::make_unique<Impl>(device);
  model.impl_->config = load_config(dir);
  ModelWeights host = load_model_weights(dir, model.impl_->config);
#if KV_HAVE_CUDA
  if (device == Device::kCuda) {
    model.impl_->weights =
        upload_model_weights(host, model.impl_->config, model.impl_->stream, progress);
    return model;
  }
#endif
  if (progress) progress(host.file_bytes, host.file_bytes);  // mapped: pages are read as needed
  model.impl_->weights = std::move(host);
  return model;
}

const ModelConfig& Model::config() const { return impl_->config; }
Device Model::device() const { return impl_->stream.device(); }
const Stream& Model::stream() const { return impl_->stream; }
Kernel Model::kernel() const { return impl_->kernel; }
void Model::set_kernel(Kernel kernel) { impl_->kernel = kernel; }
void Model::set_windows(std::vector<int> windows) {
  const bool fits = windows.empty() || std::ssize(windows) == config().num_layers;
  if (!fits || std::ranges::any_of(windows, [](int window) { return window < 0; })) {
    throw std::invalid_argument(
        fmt::format("set_windows: {} of them, wanted {} of at least 0, or none", windows.size(),
                    config().num_layers));
  }
  impl_->config.windows = std::move(windows);
#if KV_HAVE_CUDA
  impl_->stream.synchronize();
  impl_->graphs.drop_all();  // a launch has its layer's window in it
#endif
}
void Model::set_kv_format(KvFormat format) {
  impl_->config.kv_format = format;
#if KV_HAVE_CUDA
  impl_->stream.synchronize();
  impl_->graphs.drop_all();  // a graph has the rounding in it, or not
#endif
}

int64_t Model::weight_bytes() const { return impl_->weights.file_bytes; }

void Model::for_each_weight(const WeightVisitor& visit) const {
  const ModelWeights& w = impl_->weights;
  if (w.device == Device::kCuda) {  // everything lies in buffers of its own
    std::vector<std::byte> piece;
    for (const DeviceBuffer& buffer : w.buffers) {
      for (size_t begin = 0; begin < buffer.bytes(); begin += piece.size()) {
        piece.resize(std::min(buffer.bytes() - begin, size_t{64} << 20));
        copy_to_host(piece.data(), buffer.as<std::byte>() + begin, piece.size(), stream());
        visit(activation_dtype(w.device), piece);
      }
    }
    return;
  }
  const auto matrices = [&](std::span<const Matrix> parts) {
    for (const Matrix& m : parts) {
      const size_t bytes =
          static_cast<size_t>(m.rows) * static_cast<size_t>(m.cols) * size_of(m.dtype);
      visit(m.dtype, {static_cast<const std::byte*>(m.data), bytes});
    }
  };
  matrices(std::array{w.embedding, w.lm_head});
  for (const LayerWeights& layer : w.layers) {
    for (const MatrixParts& parts : {layer.qkv, layer.o, layer.gate_up, layer.down}) {
      matrices(parts.view());
    }
  }
  for (const DeviceBuffer& buffer : w.buffers) {  // norms, as fp32
    visit(DType::kF32, {buffer.as<std::byte>(), buffer.bytes()});
  }
}

const float* Model::device_logits() const { return impl_->workspace.logits.as<float>(); }

void Model::launch(const PassRows& rows, Attention& attention) { impl_->launch(rows, attention); }

std::span<const float> Model::forward(const PassRows& rows, Attention& attention) {
  Impl& impl = *impl_;
  impl.launch(rows, attention);
  const size_t n =
      static_cast<size_t>(impl.num_logit_rows) * static_cast<size_t>(impl.config.vocab_size);
  if (device() == Device::kCpu) return {device_logits(), n};
  impl.host_logits.resize(n);
  copy_to_host(impl.host_logits.data(), device_logits(), n * sizeof(float), impl.stream);
  impl.stream.synchronize();
  return impl.host_logits;
}

int64_t Model::graph_replays() const {
#if KV_HAVE_CUDA
  return impl_->graphs.replays();
#else
  return 0;
#endif
}

}  // namespace kv
