#include "kernels/matmul.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <string_view>

#include "common/error.h"
#include "common/parallel.h"
#include "kernels/cpu_rows.h"
#include "kernels/exp.h"
#include "kernels/matmul_cpu.h"
#include "kernels/matmul_isa.h"

namespace kv {
namespace {

// Columns of a block: its results wait in the cache for the epilogue.
constexpr int kBlockCols = 48;
// Floats of x in a block, 768 KiB: they stay in the second-level cache while the weights pass by.
constexpr int64_t kBlockFloats = int64_t{3} << 16;

/// Floats, 64-byte aligned, that grow and are never given back; one set per thread.
class Scratch {
 public:
  float* get(int64_t n) {
    if (n > size_) {
      data_.reset();
      size_ = 0;
      data_.reset(static_cast<float*>(
          ::operator new (static_cast<size_t>(n) * sizeof(float), std::align_val_t{64})));
      size_ = n;
    }
    return data_.get();
  }

 private:
  struct Free {
    void operator()(float* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  std::unique_ptr<float, Free> data_;
  int64_t size_ = 0;
};

const MatmulIsa* choose_isa() {
  const std::vector<const MatmulIsa*> all = available_matmul_isas();
  const char* wanted = std::getenv("KV_ISA");
  if (wanted == nullptr || *wanted == '\0') return all.front();
  std::string names;
  for (const MatmulIsa* isa : all) {
    if (std::string_view(wanted) == isa->name) return isa;
    names += names.empty() ? isa->name : std::string(", ") + isa->name;
  }
  user_error("KV_ISA: found '{}', this machine has: {}; correct or unset it", wanted, names);
}

const MatmulIsa* g_forced_isa = nullptr;

const MatmulIsa& current_isa() {
  static const MatmulIsa* const chosen = choose_isa();
  return g_forced_isa != nullptr ? *g_forced_isa : *chosen;
}

/// The input as the blocks want it: fp32 rows, normalised, zero-padded to a multiple of 16.
struct Input {
  const float* x;
  int64_t stride;
};

Input prepare_input(const MatmulArgs& args, Scratch& scratch) {
  const int64_t k = args.k;
  const int64_t stride = (k + 15) / 16 * 16;
  const float* x = static_cast<const float*>(args.x);
  if (args.norm_weight == nullptr && stride == k) return {x, k};
  float* rows = scratch.get(args.num_rows * stride);
  parallel_for(args.num_rows, 8, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* out = rows + row * stride;
      if (args.norm_weight != nullptr) {
        rmsnorm_row(x + row * k, args.norm_weight, args.k, args.norm_eps, out);
      } else {
        std::copy_n(x + row * k, k, out);
      }
      std::fill(out + k, out + stride, 0.0f);
    }
  });
  return {rows, stride};
}

/// The input's rows [row, row + num_rows) times W's columns [col, col + num_cols), into y.
void dot_products(const MatmulArgs& args, const Input& input, const Matrix& w, int64_t row,
                  int num_rows, int64_t col, int num_cols, float* y, int64_t y_stride,
                  float* scratch) {
  DotBlock block;
  block.x = input.x + row * input.stride;
  block.x_stride = input.stride;
  block.num_rows = num_rows;
  block.w =
      static_cast<const std::byte*>(w.data) + col * w.cols * static_cast<int64_t>(size_of(w.dtype));
  block.num_cols = num_cols;
  block.num_w_rows = static_cast<int>(w.rows - col);
  block.k = args.k;
  block.y = y;
  block.y_stride = y_stride;
  block.scratch = scratch;
  current_isa().dot_block(block, w.dtype);
}

/// out = silu(gate) * up, with silu(x) = x / (1 + exp(-x)).
void silu_mul(const float* gate, const float* up, int n, float* out) {
  float decay[kBlockCols];
  for (int c = 0; c < n; ++c) decay[c] = -gate[c];
  exp_each(decay, n);
  for (int c = 0; c < n; ++c) out[c] = gate[c] / (1.0f + decay[c]) * up[c];
}

/// One block of one part: [num_rows, num_cols] outputs, the epilogue included. `out_col` is the
/// first column of the part in `out`.
void run_block(const MatmulArgs& args, const Input& input, size_t part, int64_t out_col,
               int64_t row, int num_rows, int64_t col, int num_cols) {
  thread_local Scratch t_scratch;
  const int64_t y_size = int64_t{num_rows} * kBlockCols;
  float* y = t_scratch.get(2 * y_size + dot_block_scratch(num_rows));
  float* up = y + y_size;
  float* scratch = up + y_size;
  float* out = static_cast<float*>(args.out) + row * args.out_stride + out_col + col;

  if (args.epilogue == Epilogue::kStore) {
    dot_products(args, input, args.weight[part], row, num_rows, col, num_cols, out, args.out_stride,
                 scratch);
    return;
  }
  dot_products(args, input, args.weight[part], row, num_rows, col, num_cols, y, kBlockCols,
               scratch);
  if (args.epilogue == Epilogue::kSiluMul) {
    dot_products(args, input, args.weight[part + 1], row, num_rows, col, num_cols, up, kBlockCols,
                 scratch);
  }
  for (int r = 0; r < num_rows; ++r, y += kBlockCols, up += kBlockCols, out += args.out_stride) {
    if (args.epilogue == Epilogue::kAdd) {
      for (int c = 0; c < num_cols; ++c) out[c] += y[c];
    } else {
      silu_mul(y, up, num_cols, out);
    }
  }
}

void check(const MatmulArgs& args) {
  const bool pair = args.epilogue == Epilogue::kSiluMul;
  bool good = pair ? args.weight.size() == 2 && args.weight[0].rows == args.weight[1].rows
                   : !args.weight.empty();
  for (const Matrix& part : args.weight) good = good && part.cols == args.k;
  if (!good) throw std::logic_error("matmul: the parts of the weight do not fit x or each other");
}

}  // namespace

std::vector<const MatmulIsa*> available_matmul_isas() {
  std::vector<const MatmulIsa*> isas;
#if defined(__x86_64__)
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  // Every processor with AVX2 and FMA so far has F16C; Clang 14 knows no name to ask for it.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx512 && matmul_isa_avx512() != nullptr) isas.push_back(matmul_isa_avx512());
  if (avx2 && matmul_isa_avx2() != nullptr) isas.push_back(matmul_isa_avx2());
#endif
  isas.push_back(matmul_isa_portable());
  return isas;
}

void force_matmul_isa(const MatmulIsa* isa) { g_forced_isa = isa; }

double multiply_adds_per_second() {
  constexpr int64_t kRounds = 100'000;
  constexpr int64_t kItemsPerThread = 128;
  std::atomic<int64_t> done{0};
  const auto start = std::chrono::steady_clock::now();
  parallel_for(num_threads() * kItemsPerThread, 1, [&](int64_t begin, int64_t end) {
    float sum = 0.0f;
    for (int64_t i = begin; i < end; ++i) done += current_isa().multiply_adds(kRounds, sum);
    if (!(sum > 0.0f)) throw std::logic_error("the multiply-adds lost their sum");
  });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return static_cast<double>(done) / seconds.count();
}

void matmul_cpu(const MatmulArgs& args) {
  check(args);
  thread_local Scratch t_input;
  const Input input = prepare_input(args, t_input);
  const int64_t rows_per_block =
      std::clamp<int64_t>(kBlockFloats / input.stride / 8 * 8, 8, std::max(args.num_rows, 8));
  const int64_t row_blocks = (args.num_rows + rows_per_block - 1) / rows_per_block;
  const bool pair = args.epilogue == Epilogue::kSiluMul;
  int64_t out_col = 0;
  for (size_t part = 0; part < (pair ? 1 : args.weight.size()); ++part) {
    const int num_cols = args.weight[part].rows;
    const int64_t col_blocks = (num_cols + kBlockCols - 1) / kBlockCols;
    // Rows come first: a thread's next columns meet the rows of x that its cache holds.
    parallel_for(row_blocks * col_blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / col_blocks * rows_per_block;
        const auto rows = static_cast<int>(std::min(rows_per_block, args.num_rows - row));
        const int64_t col = i % col_blocks * kBlockCols;
        const auto cols = static_cast<int>(std::min<int64_t>(kBlockCols, num_cols - col));
        run_block(args, input, part, out_col, row, rows, col, cols);
      }
    });
    out_col += num_cols;
  }
}

}  // namespace kv
