// The task at the end of lesson 01: in the last layer, the last row of each sequence is enough.

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "common/todo.h"
#include "engine.h"
#include "tests/support/naive_attention.h"
#include "tests/support/readable.h"
#include "tests/support/shipped_model.h"

namespace {

using kvtest::shipped_model;
using lesson01::CausalAttentionArgs;

constexpr const char* kTask = "give CausalAttentionArgs a bool last_row_only";
constexpr float kUntouched = 12345.0f;

template <class Args>
concept HasFlag = requires(Args args) {
  args.last_row_only = true;
};

/// Attention of three sequences of random rows: 3, 1 and 4 of them. 2 heads of 8 elements.
template <class Args>
std::vector<float> attention(bool last_row_only) {
  constexpr int kRows = 8, kHeads = 2, kDim = 8;
  std::mt19937_64 rng(3);
  const std::vector<float> q = kvtest::random_floats(rng, kRows * kHeads * kDim);
  const std::vector<float> k = kvtest::random_floats(rng, kRows * kDim);
  const std::vector<float> v = kvtest::random_floats(rng, kRows * kDim);
  const std::vector<int32_t> first_row{0, 3, 4, kRows};
  std::vector<float> out(q.size(), kUntouched);
  Args args{.q = q.data(),
            .k = k.data(),
            .v = v.data(),
            .out = out.data(),
            .first_row = first_row.data(),
            .num_seqs = 3,
            .num_rows = kRows,
            .max_seq_len = 4,
            .num_heads = kHeads,
            .num_kv_heads = 1,
            .head_dim = kDim};
  args.last_row_only = last_row_only;
  lesson01::causal_attention_cpu(args);
  return out;
}

template <class Args>
void check_kernel() {
  if constexpr (HasFlag<Args>) {
    const std::vector<float> all = attention<Args>(false), last = attention<Args>(true);
    for (size_t i = 0; i < all.size(); ++i) {
      const size_t row = i / 16;
      CAPTURE(row);
      REQUIRE(all[i] != kUntouched);
      if (row == 2 || row == 3 || row == 7) {
        REQUIRE(last[i] == all[i]);
      } else {
        REQUIRE(last[i] == kUntouched);
      }
    }
  } else {
    KV_TODO(kTask);
  }
}

/// CausalAttention that records which rows it writes in each layer.
class Watched : public kv::Attention {
 public:
  Watched() : causal_(shipped_model().config()) {}
  void begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) override {
    causal_.begin_pass(rows, arrays);
  }
  void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override {
    const size_t width = shipped_model().config().q_width();
    auto* out = static_cast<float*>(rows.out);
    for (int r = 0; r < rows.num_rows; ++r) out[static_cast<size_t>(r) * width] = kUntouched;
    causal_.forward(rows, stream);
    written.emplace_back();
    for (int r = 0; r < rows.num_rows; ++r) {
      if (out[static_cast<size_t>(r) * width] != kUntouched) written.back().push_back(r);
    }
  }
  std::vector<std::vector<int>> written;  // rows, for each layer

 private:
  lesson01::CausalAttention causal_;
};

/// The lesson's attention before the task: all rows in all layers.
class Whole : public kv::Attention {
 public:
  void begin_pass(const kv::PassRows& rows, kv::PassArrays&) override {
    longest_ = rows.max_rows_per_seq();
  }
  void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override {
    const kv::ModelConfig& config = shipped_model().config();
    lesson01::causal_attention({.q = rows.q,
                                .k = rows.k,
                                .v = rows.v,
                                .out = rows.out,
                                .first_row = rows.first_row,
                                .num_seqs = rows.num_seqs,
                                .num_rows = rows.num_rows,
                                .max_seq_len = longest_,
                                .num_heads = config.num_heads,
                                .num_kv_heads = config.num_kv_heads,
                                .head_dim = config.head_dim},
                               stream);
  }

 private:
  int longest_ = 0;
};

/// The logits of a pass of two sequences, 4 and 3 tokens, on plain kernels.
[[maybe_unused]] std::vector<float> logits(kv::Attention& attention) {
  kv::PassRows rows;
  rows.add(0, kvtest::request_of(4, 1, 1).prompt, 0);
  rows.add(1, kvtest::request_of(3, 1, 2).prompt, 0);
  shipped_model().set_kernel(kv::Kernel::kPlain);
  const auto logits = shipped_model().forward(rows, attention);
  shipped_model().set_kernel(kv::Kernel::kFast);
  return {logits.begin(), logits.end()};
}

template <class Args>
void check_layers() {
  if constexpr (HasFlag<Args>) {
    Watched watched;
    Whole whole;
    const bool same_logits = logits(watched) == logits(whole);
    CHECK(same_logits);
    const std::vector<int> all{0, 1, 2, 3, 4, 5, 6}, last{3, 6};
    for (size_t layer = 0; layer + 1 < watched.written.size(); ++layer) {
      CAPTURE(layer);
      CHECK(watched.written[layer] == all);
    }
    INFO("the rows that attention writes in the last layer");
    CHECK(watched.written.back() == last);
  } else {
    KV_TODO(kTask);
  }
}

}  // namespace

TEST_CASE("further: attention of last rows only writes these, with the same bits") {
  check_kernel<CausalAttentionArgs>();
}

TEST_CASE("further: the last layer asks for last rows only, and the logits keep their bits") {
  check_layers<CausalAttentionArgs>();
}
