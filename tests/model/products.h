#pragma once

// All matrix products of a model, ours and cuBLAS's, for the benchmark.

#include <algorithm>
#include <vector>

#include "common/dtype.h"
#include "kernels/matmul.h"
#include "kernels/pack_weights.h"
#include "kernels/rmsnorm.h"
#include "qwen3/config.h"
#include "tests/model/cublas.h"

/// All products of a model of this shape, with weights of their own in every layer.
class Products {
 public:
  Products(const kv::ModelConfig& config, int max_rows, int max_head_rows, const kv::Stream& stream)
      : config_(config), stream_(stream) {
    const int hidden = config.hidden_size;
    const int widest = std::max({hidden, config.q_width(), config.intermediate_size});
    source_.resize(static_cast<size_t>(widest) * static_cast<size_t>(config.qkv_width()));
    for (size_t i = 0; i < source_.size(); ++i) {  // anything but zeros, which run faster
      const uint32_t bits = static_cast<uint32_t>(i) * 2654435761u;
      source_[i] = kv::to_bfloat16((static_cast<float>(bits >> 16) - 32768.0f) * 0x1p-20f);
    }
    for (int layer = 0; layer < config.num_layers; ++layer) {
      add(config.qkv_width(), hidden, kv::Epilogue::kStore);
      add(hidden, config.q_width(), kv::Epilogue::kAdd);
      add(config.intermediate_size, hidden, kv::Epilogue::kSiluMul);
      add(hidden, config.intermediate_size, kv::Epilogue::kAdd);
    }
    const auto rows = static_cast<size_t>(max_rows);
    const auto wide = static_cast<size_t>(std::max(widest, config.qkv_width()));
    source_.resize(rows * wide * 2, source_[12345]);
    x_ = kv::to_device(std::span<const kv::BFloat16>(source_), stream);  // also read as fp32
    residual_ = kv::DeviceBuffer(kv::Device::kCuda, rows * static_cast<size_t>(hidden) * 4);
    kv::fill_bytes(residual_.data(), 0, residual_.bytes(), stream);
    out_ = kv::DeviceBuffer(kv::Device::kCuda, rows * wide * 4);
    scratch_ = kv::DeviceBuffer(kv::Device::kCuda,
                                kv::matmul_scratch_bytes(kv::Device::kCuda, max_rows, widest));
    norm_ = kv::to_device(
        std::span<const float>(std::vector<float>(static_cast<size_t>(hidden), 1.0f)), stream);
    // The head is a product of its own: as wide as the vocabulary.
    const auto vocab = static_cast<size_t>(config.vocab_size);
    logits_ = kv::DeviceBuffer(kv::Device::kCuda, static_cast<size_t>(max_head_rows) * vocab * 4);
    source_.resize(vocab * static_cast<size_t>(hidden), source_[12345]);
    add(config.vocab_size, hidden, kv::Epilogue::kStore);
  }

  /// Product number `i`: 4 per layer, then the head. Up to 8 rows its norm is part of it; beyond
  /// that a kernel of its own, norm().
  void run(size_t i, int rows) const {
    const Product& p = products_[i];
    const bool head = i == static_cast<size_t>(4 * config_.num_layers);
    const bool adds = p.epilogue == kv::Epilogue::kAdd;
    kv::MatmulArgs args;
    args.x = x_.data();
    args.num_rows = rows;
    args.k = p.packed.matrix.cols;
    args.norm_weight = adds || rows > 8 ? nullptr : norm_.as<float>();
    args.norm_eps = config_.rms_norm_eps;
    args.weight = {&p.packed.matrix, 1};
    args.epilogue = p.epilogue;
    args.out = head ? logits_.data() : adds ? residual_.data() : out_.data();
    args.out_stride = p.outputs;
    args.scratch = scratch_.data();
    kv::matmul_cuda(args, stream_);
  }

  /// The norm before qkv, gate and up and the head.
  void norm(int rows) const {
    kv::rmsnorm({.x = x_.as<float>(),
                 .weight = norm_.as<float>(),
                 .num_rows = rows,
                 .k = config_.hidden_size,
                 .eps = config_.rms_norm_eps,
                 .out = scratch_.data()},
                stream_);
  }

  /// The same with cuBLAS, which norms and gates nothing; it writes fp32 and adds where ours does.
  /// The order of the packed weights is not its own, which costs no time.
  void run(size_t i, int rows, const Cublas& cublas) const {
    const Product& p = products_[i];
    const kv::Matrix& m = p.packed.matrix;
    const bool adds = p.epilogue == kv::Epilogue::kAdd, pair = p.epilogue == kv::Epilogue::kSiluMul;
    const kv::DeviceBuffer& out = i + 1 == products_.size() ? logits_ : adds ? residual_ : out_;
    cublas.multiply(x_.data(), rows, m.cols, m.data, m.rows, out.data(),
                    pair ? kv::DType::kBF16 : kv::DType::kF32, adds);
  }

  double flops(size_t i, int rows) const {
    const kv::Matrix& m = products_[i].packed.matrix;
    return 2.0 * m.rows * m.cols * rows;
  }
  size_t size() const { return products_.size(); }

 private:
  struct Product {
    kv::PackedWeights packed;
    kv::Epilogue epilogue;
    int outputs;
  };

  void add(int outputs, int inputs, kv::Epilogue epilogue) {
    const kv::Matrix part{source_.data(), kv::DType::kBF16, outputs, inputs};
    const bool pair = epilogue == kv::Epilogue::kSiluMul;
    const std::vector<kv::Matrix> parts(pair ? 2 : 1, part);
    const auto order = pair ? kv::PackOrder::kInterleaved : kv::PackOrder::kStacked;
    products_.push_back({kv::pack_weights(parts, order, stream_), epilogue, outputs});
  }

  const kv::ModelConfig& config_;
  const kv::Stream& stream_;
  std::vector<kv::BFloat16> source_;
  std::vector<Product> products_;
  kv::DeviceBuffer x_, residual_, out_, scratch_, norm_, logits_;
};
