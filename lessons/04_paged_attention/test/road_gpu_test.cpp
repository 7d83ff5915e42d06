// Every step of the road against the plain CPU kernel in fp32 over the same bf16 values.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "lessons/03_paged_blocks/block_table.h"
#include "lessons/04_paged_attention/road/road.h"
#include "tests/support/attention_sequences.h"

namespace {

using kv::BFloat16;
using kvtest::HeadShape;
using lesson04::PagedAttentionArgs;
using lesson04::road::kSteps;
using lesson04::road::Step;

struct Options {
  int block_size = 16;
  int bound = 0;  // of the lengths; 0: the longest one
};

/// A decode step of sequences in shuffled blocks, on the device, and on the host in fp32.
class DecodeStep {
 public:
  DecodeStep(const HeadShape& shape, const std::vector<int>& lens, const Options& options)
      : shape_(shape), seq_len_(lens.begin(), lens.end()) {
    args_ = {.cache = {.block_size = options.block_size,
                       .block_stride = options.block_size + 1,
                       .num_kv_heads = shape.num_kv_heads,
                       .head_dim = shape.head_dim},
             .num_seqs = static_cast<int>(lens.size()),
             .num_rows = static_cast<int>(lens.size()),
             .max_rows_per_seq = 1,
             .max_seq_len = std::max(options.bound, *std::max_element(lens.begin(), lens.end())),
             .num_heads = shape.num_heads};
    make_tables();
    fill_cache();
    first_row_.resize(lens.size() + 1);
    std::iota(first_row_.begin(), first_row_.end(), 0);
    q_ = kvtest::random_bf16(static_cast<int64_t>(lens.size() * shape.q_width()), 5,
                             std::sqrt(2.0f));
  }

  /// The step's result must be near the one in fp32, also the second time in the same workspace.
  void check(const Step& step) const {
    PagedAttentionArgs a = args_;
    const auto q = kvtest::upload(q_, stream_), k = kvtest::upload(k_, stream_);
    const auto v = kvtest::upload(v_, stream_), tables = kvtest::upload(tables_, stream_);
    const auto first_row = kvtest::upload(first_row_, stream_);
    const auto seq_len = kvtest::upload(seq_len_, stream_);
    a.q = q.data(), a.cache.k = k.data(), a.cache.v = v.data();
    a.first_row = first_row.as<const int32_t>(), a.seq_len = seq_len.as<const int32_t>();
    a.block_tables = tables.as<const int32_t>();
    const size_t bytes = step.workspace_bytes == nullptr ? 0 : step.workspace_bytes(a);
    const auto workspace = kvtest::poisoned(bytes, stream_, 0);
    a.workspace = workspace.data();
    for (int run = 0; run < 2; ++run) {
      const auto out = kvtest::poisoned(q_.size() * sizeof(BFloat16), stream_);
      a.out = out.data();
      step.attend(a, stream_);
      kvtest::check_attention(kvtest::download<BFloat16>(out.data(), q_.size(), stream_), want_,
                              magnitude_);
    }
  }

  /// What check() compares with: attention over V, and over |V|.
  void compute() {
    const std::vector<float> q = kvtest::floats_of(q_), k = kvtest::floats_of(k_);
    std::vector<float> v = kvtest::floats_of(v_);
    PagedAttentionArgs a = args_;
    a.q = q.data(), a.first_row = first_row_.data(), a.seq_len = seq_len_.data();
    a.block_tables = tables_.data();
    a.cache.k = const_cast<float*>(k.data()), a.cache.v = v.data();
    for (std::vector<float>* out : {&want_, &magnitude_}) {
      out->resize(q.size());
      a.out = out->data();
      lesson04::paged_attention_cpu(a);
      for (float& x : v) x = std::abs(x);
    }
  }

  PagedAttentionArgs args() const { return args_; }

 private:
  void make_tables() {
    const int size = args_.cache.block_size;
    for (const int len : seq_len_) {
      args_.cache.num_blocks += lesson03::blocks_for(len, size);
      args_.max_blocks_per_seq =
          std::max(args_.max_blocks_per_seq, lesson03::blocks_for(len, size) + 1);
    }
    std::vector<int32_t> ids(static_cast<size_t>(args_.cache.num_blocks));
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), std::mt19937_64(1));
    auto id = ids.begin();
    for (const int len : seq_len_) {
      const auto begin = tables_.size();
      tables_.resize(begin + static_cast<size_t>(args_.max_blocks_per_seq), 1 << 30);  // not read
      const int blocks = lesson03::blocks_for(len, size);
      std::copy_n(id, blocks, tables_.begin() + static_cast<std::ptrdiff_t>(begin));
      id += blocks;
    }
  }

  /// Random rows for the tokens; NaN in slots without one, and in a row after each block.
  void fill_cache() {
    const int size = args_.cache.block_size;
    const size_t width = shape_.kv_width();
    const auto rows = static_cast<size_t>(args_.cache.num_blocks * args_.cache.block_stride);
    k_.assign(rows * width, kv::to_bfloat16(std::numeric_limits<float>::quiet_NaN()));
    v_ = k_;
    const int tokens = std::accumulate(seq_len_.begin(), seq_len_.end(), 0);
    const auto elements = static_cast<int64_t>(width) * tokens;
    // Scores with a standard deviation of 2: some keys matter much more than others.
    const auto k = kvtest::random_bf16(elements, 3, std::sqrt(2.0f));
    const auto v = kvtest::random_bf16(elements, 4);
    std::ptrdiff_t from = 0;
    for (size_t i = 0; i < seq_len_.size(); ++i) {
      const int32_t* table = &tables_[i * static_cast<size_t>(args_.max_blocks_per_seq)];
      for (int t = 0; t < seq_len_[i]; ++t, from += static_cast<std::ptrdiff_t>(width)) {
        const auto row = table[t / size] * args_.cache.block_stride + t % size;
        const auto to = static_cast<std::ptrdiff_t>(width) * row;
        std::copy_n(k.begin() + from, width, k_.begin() + to);
        std::copy_n(v.begin() + from, width, v_.begin() + to);
      }
    }
  }

  HeadShape shape_;
  kv::Stream stream_{kv::Device::kCuda};
  PagedAttentionArgs args_;
  std::vector<int32_t> seq_len_, first_row_, tables_;
  std::vector<BFloat16> q_, k_, v_;
  std::vector<float> want_, magnitude_;
};

void check_steps(const HeadShape& shape, const std::vector<int>& lens, const Options& options,
                 size_t first_step = 0) {
  DecodeStep pass(shape, lens, options);
  pass.compute();
  for (size_t i = first_step; i < kSteps.size(); ++i) {
    CAPTURE(shape.num_heads);
    CAPTURE(options.block_size);
    CAPTURE(kSteps[i].idea);
    pass.check(kSteps[i]);
  }
}

}  // namespace

TEST_CASE(
    "every step is right for an uneven batch and for any number of heads that share K and V") {
  for (const int group : {1, 2, 4, 8}) {
    check_steps({2 * group, 2, 128}, {1, 15, 16, 17, 255, 256, 257, 4096}, {});
  }
}

TEST_CASE("every step is right for one sequence and for any block size") {
  for (const int block_size : {1, 8, 32, 256}) {
    check_steps({4, 2, 128}, {700}, {.block_size = block_size});
    check_steps({4, 2, 128}, {33, 1, 300}, {.block_size = block_size});
  }
}

TEST_CASE("every step from the partitions on is right when few long ones are enough") {
  // By the bound of the lengths there are 1,024 CTAs with partitions of 1,024 tokens.
  check_steps({4, 4, 128}, {1, 1023, 1024, 1025, 2500, 40, 64, 600}, {.bound = 32 * 1024}, 2);
  check_steps({32, 4, 128}, {2100, 1030, 30}, {.bound = 96 * 1024}, 2);
}

TEST_CASE("what a step does not do is refused") {
  const kv::Stream stream(kv::Device::kCuda);
  PagedAttentionArgs args = DecodeStep({4, 2, 128}, {40}, {.bound = 9000}).args();
  CHECK_THROWS_AS(lesson04::road::shared_scores(args, stream), std::invalid_argument);
  args.num_heads = 6;
  CHECK_THROWS_AS(lesson04::road::grouped_heads(args, stream), std::invalid_argument);
  for (size_t i = 1; i < 6; ++i) {
    PagedAttentionArgs other = args;
    other.cache.head_dim = 64;
    CHECK_THROWS_AS(kSteps[i].attend(other, stream), std::invalid_argument);
    other = args, other.max_rows_per_seq = 2;
    CHECK_THROWS_AS(kSteps[i].attend(other, stream), std::invalid_argument);
    other = args, other.num_heads = 18;
    CHECK_THROWS_AS(kSteps[i].attend(other, stream), std::invalid_argument);
  }
}
