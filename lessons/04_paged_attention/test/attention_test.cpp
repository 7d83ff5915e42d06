// Tests of lesson 04's CPU kernel: attention as the textbook has it, and bits that depend on the
// keys alone.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "attend.h"
#include "lessons/02_flat_cache/decode_attention.h"
#include "lessons/03_paged_blocks/kv_blocks.h"
#include "paged_attention.h"
#include "paged_cache_attention.h"
#include "pass.h"
#include "tests/support/naive_attention.h"
#include "tests/support/shipped_model.h"

namespace {

using lesson04_test::kNaN;
using lesson04_test::Layout;
using lesson04_test::Pass;
using lesson04_test::Sequence;
using lesson04_test::Shape;

constexpr float kInf = std::numeric_limits<float>::infinity();
/// Error of fp32 attention over at most a few thousand keys of standard normal values: sums of
/// head_dim and seq_len products, far below this; a wrong key gives 1e-1 and more.
constexpr double kTolerance = 2e-5;

std::vector<float> run_one(const Shape& shape, const Sequence& s, int rows, const Layout& layout) {
  return Pass(shape, {&s}, {rows}, layout).run()[0];
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// The last `rows` rows of `all`.
std::vector<float> last_rows(const std::vector<float>& all, int rows, size_t width) {
  return {all.end() - rows * static_cast<std::ptrdiff_t>(width), all.end()};
}

/// Lesson 02's kernel on the same K and V, laid out one token after the other.
std::vector<float> contiguous(const Shape& shape, const Sequence& s, int rows, bool plain = false) {
  const std::vector<int32_t> first_row{0, rows}, seq_len{s.len};
  const std::vector<int64_t> slab_begin{0};
  std::vector<float> out(static_cast<size_t>(rows) * shape.q_width(), kNaN);
  lesson02::DecodeAttentionArgs args;
  args.q = s.q.data() + static_cast<size_t>(s.len - rows) * shape.q_width();
  args.k_cache = s.k.data();
  args.v_cache = s.v.data();
  args.out = out.data();
  args.first_row = first_row.data();
  args.seq_len = seq_len.data();
  args.slab_begin = slab_begin.data();
  args.num_seqs = 1;
  args.num_rows = args.max_rows_per_seq = rows;
  args.max_seq_len = s.len;
  args.num_heads = shape.num_heads;
  args.num_kv_heads = shape.num_kv_heads;
  args.head_dim = shape.head_dim;
  (plain ? lesson02::decode_attention_cpu : lesson02::fast_decode_attention_cpu)(args);
  return out;
}

/// Largest difference from attention in double precision, over the last `rows` rows.
double error_of(const Shape& shape, const Sequence& s, int rows, const std::vector<float>& got) {
  double worst = 0.0;
  for (int r = 0; r < rows; ++r) {
    const int token = s.len - rows + r;
    for (int head = 0; head < shape.num_heads; ++head) {
      const auto dim = static_cast<size_t>(shape.head_dim);
      const size_t in_row = static_cast<size_t>(head) * dim;
      const size_t kv = static_cast<size_t>(head / (shape.num_heads / shape.num_kv_heads)) * dim;
      const auto want =
          kvtest::naive_attention(&s.q[static_cast<size_t>(token) * shape.q_width() + in_row],
                                  &s.k[kv], &s.v[kv], token + 1, shape.kv_width(), shape.head_dim);
      const double error = kvtest::max_error(
          std::span(got).subspan(static_cast<size_t>(r) * shape.q_width() + in_row, dim), want);
      if (!(error <= worst)) worst = error;
    }
  }
  return worst;
}

constexpr Shape kSmall{4, 2, 40};

}  // namespace

TEST_CASE("lengths around every boundary of blocks, tiles and groups") {
  for (const int len : {1,   2,   15,  16,  17,  31,  32,  33,  63,  64,  65,
                        127, 128, 129, 255, 256, 257, 511, 512, 513, 1025}) {
    CAPTURE(len);
    const Sequence s(kSmall, len, static_cast<uint64_t>(len));
    const std::vector<float> got = run_one(kSmall, s, 1, {});
    CHECK(error_of(kSmall, s, 1, got) <= kTolerance);
    CHECK(same_bits(got, contiguous(kSmall, s, 1)));
  }
}

TEST_CASE("a context of zero tokens has no query and touches nothing") {
  const Sequence empty(kSmall, 0, 1), full(kSmall, 20, 2);
  Pass pass(kSmall, {&empty, &full, &empty}, {0, 1, 0}, {});
  const auto outs = pass.run();
  CHECK(outs[0].empty());
  CHECK(outs[2].empty());
  CHECK(same_bits(outs[1], run_one(kSmall, full, 1, {})));
}

TEST_CASE("every grouping of heads and every head_dim agree with double precision") {
  int seed = 0;
  for (const int group : {1, 2, 4, 8}) {
    for (const int head_dim : {32, 64, 80, 96, 128}) {
      CAPTURE(group);
      CAPTURE(head_dim);
      const Shape shape{3 * group, 3, head_dim};
      const Sequence s(shape, 150, static_cast<uint64_t>(++seed));
      const std::vector<float> got = run_one(shape, s, 5, {});
      CHECK(error_of(shape, s, 5, got) <= kTolerance);
      CHECK(same_bits(got, contiguous(shape, s, 5)));
    }
  }
}

TEST_CASE("random shapes agree with attention in double precision") {
  std::mt19937_64 rng(404);
  const auto below = [&](int n) { return static_cast<int>(rng() % static_cast<uint64_t>(n)); };
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    const int kv_heads = 1 + below(4);
    const Shape shape{kv_heads * (1 + below(5)), kv_heads, 1 + below(140)};
    const Sequence s(shape, 1 + below(600), rng());
    const int rows = 1 + below(std::min(s.len, 12));
    const Layout layout{.block_size = 1 << below(9), .shuffle = rng(), .guard_rows = below(2)};
    const std::vector<float> got = run_one(shape, s, rows, layout);
    CHECK(error_of(shape, s, rows, got) <= kTolerance);
    CHECK(same_bits(got, contiguous(shape, s, rows)));
  }
}

TEST_CASE("permuted blocks leave no trace") {
  const Sequence s(kSmall, 300, 7);
  const std::vector<float> want = contiguous(kSmall, s, 3);
  for (uint64_t shuffle = 1; shuffle <= 8; ++shuffle) {
    CHECK(same_bits(run_one(kSmall, s, 3, {.shuffle = shuffle}), want));
  }
}

TEST_CASE("what unused slots hold leaves no trace") {
  for (const int len : {1, 17, 63, 65, 257}) {
    CAPTURE(len);
    const Sequence s(kSmall, len, 11);
    const std::vector<float> want = run_one(kSmall, s, 1, {.unused = 0.0f});
    for (const float unused : {kNaN, kInf, -kInf, 3e38f, -3e38f}) {
      for (const int block_size : {16, 256}) {
        CHECK(same_bits(run_one(kSmall, s, 1, {.block_size = block_size, .unused = unused}), want));
      }
    }
  }
}

TEST_CASE("a later token's NaN does not reach an earlier query") {
  Sequence s(kSmall, 70, 12);
  const std::vector<float> want = run_one(kSmall, s, 70, {});
  std::fill(s.k.end() - static_cast<std::ptrdiff_t>(kSmall.kv_width()), s.k.end(), kNaN);
  std::fill(s.v.end() - static_cast<std::ptrdiff_t>(kSmall.kv_width()), s.v.end(), kNaN);
  const std::vector<float> got = run_one(kSmall, s, 70, {});
  const size_t before_last = 69 * kSmall.q_width();
  CHECK(std::memcmp(got.data(), want.data(), before_last * sizeof(float)) == 0);
  CHECK(std::isnan(got.back()));
}

TEST_CASE("every block size gives the same bits, with guards between the blocks, too") {
  const Sequence s(kSmall, 333, 21);
  const std::vector<float> want = contiguous(kSmall, s, 2);
  for (int block_size = 1; block_size <= 256; block_size *= 2) {
    CAPTURE(block_size);
    for (const int guard_rows : {0, 1}) {
      CHECK(same_bits(run_one(kSmall, s, 2, {.block_size = block_size, .guard_rows = guard_rows}),
                      want));
    }
  }
}

TEST_CASE("any number of queries in a pass gives the same bits") {
  const Sequence s(kSmall, 140, 22);
  const std::vector<float> all = run_one(kSmall, s, s.len, {});
  CHECK(error_of(kSmall, s, s.len, all) <= kTolerance);
  for (const int rows : {1, 2, 3, 31, 32, 33, 65, 139}) {
    CAPTURE(rows);
    CHECK(same_bits(run_one(kSmall, s, rows, {}), last_rows(all, rows, kSmall.q_width())));
  }
}

TEST_CASE("neither place nor company in the batch nor the bound of the lengths changes a bit") {
  const Sequence a(kSmall, 90, 31), b(kSmall, 1, 32), c(kSmall, 400, 33);
  const std::vector<float> alone = run_one(kSmall, a, 4, {});
  for (const auto& [order, at] : {std::pair{std::vector{&a, &b, &c}, size_t{0}},
                                  {std::vector{&b, &a, &c}, size_t{1}},
                                  {std::vector{&c, &b, &a}, size_t{2}}}) {
    std::vector<int> rows;
    std::vector<const Sequence*> sequences;
    for (const Sequence* s : order) {
      sequences.push_back(s);
      rows.push_back(s == &a ? 4 : s == &b ? 1 : 37);
    }
    for (const int slack : {0, 5000}) {
      Pass pass(kSmall, sequences, rows, {.block_size = 8, .bound_slack = slack});
      CHECK(same_bits(pass.run()[at], alone));
    }
  }
}

TEST_CASE("two sequences may read one block") {
  // The table is all that says whose block it is: a shared prefix needs nothing from the kernel.
  // The second has the same queries and other K and V, until its table names the first one's
  // blocks.
  const Sequence s(kSmall, 48, 41);
  Sequence other(kSmall, 48, 42);
  other.q = s.q;
  const std::vector<float> alone = run_one(kSmall, s, 1, {});
  Pass pass(kSmall, {&s, &other}, {1, 1}, {});
  CHECK_FALSE(same_bits(pass.run()[1], alone));
  auto* tables = const_cast<int32_t*>(pass.args.block_tables);
  std::copy_n(tables, 3, tables + pass.args.max_blocks_per_seq);
  const auto outs = pass.run();
  CHECK(same_bits(outs[0], alone));
  CHECK(same_bits(outs[1], alone));
}

TEST_CASE("a slot past 2^31 elements has its own address") {
  // Qwen3-0.6B's shape: with 8 heads of 128, block 131,072 of 16 begins at element 2^31. No memory
  // is at these addresses; nothing is read.
  lesson03::KvBlocks cache;
  cache.num_blocks = 1 << 20;
  cache.block_size = cache.block_stride = 16;
  cache.num_kv_heads = 8;
  cache.head_dim = 128;
  const int64_t width = 8 * 128;
  const auto base = uintptr_t{1} << 40;
  cache.k = reinterpret_cast<void*>(base);
  cache.v = reinterpret_cast<void*>(base * 2);
  for (const int64_t block : {int64_t{131071}, int64_t{131072}, int64_t{(1 << 20) - 1}}) {
    for (const int offset : {0, 15}) {
      const auto element = static_cast<uintptr_t>((block * 16 + offset) * width);
      const auto* k = lesson03::k_row<float>(cache, block, offset);
      const auto* v = lesson03::v_row<float>(cache, block, offset);
      CHECK(reinterpret_cast<uintptr_t>(k) == base + element * sizeof(float));
      CHECK(reinterpret_cast<uintptr_t>(v) == base * 2 + element * sizeof(float));
    }
  }
}

TEST_CASE("a pool past 2^31 elements is read at the right place") {
  // The table names a block far beyond what 32 bits of elements reach, and only that block exists.
  const Sequence s(kSmall, 16, 51);
  constexpr int32_t kFar = 30'000'000;  // times 16 x 80 elements: 3.8e10
  lesson04::PagedAttentionArgs args;
  std::vector<float> out(kSmall.q_width(), kNaN);
  const std::vector<int32_t> table{kFar}, first_row{0, 1}, seq_len{16};
  const int64_t elements_before = int64_t{kFar} * 16 * static_cast<int64_t>(kSmall.kv_width());
  const auto far_base = [&](const std::vector<float>& rows) {
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(rows.data()) -
                                   static_cast<uintptr_t>(elements_before) * sizeof(float));
  };
  args.cache = {.k = far_base(s.k),
                .v = far_base(s.v),
                .num_blocks = kFar + 1,
                .block_size = 16,
                .block_stride = 16,
                .num_kv_heads = kSmall.num_kv_heads,
                .head_dim = kSmall.head_dim};
  args.q = s.q.data() + 15 * kSmall.q_width();
  args.out = out.data();
  args.first_row = first_row.data();
  args.seq_len = seq_len.data();
  args.block_tables = table.data();
  args.max_blocks_per_seq = args.num_seqs = args.num_rows = args.max_rows_per_seq = 1;
  args.max_seq_len = 16;
  args.num_heads = kSmall.num_heads;
  lesson04::fast_paged_attention_cpu(args);
  CHECK(same_bits(out, contiguous(kSmall, s, 1)));
  lesson04::paged_attention_cpu(args);
  CHECK(same_bits(out, contiguous(kSmall, s, 1, /*plain=*/true)));
}

TEST_CASE("a block size that is no power of two up to 256 is refused by name") {
  const Sequence s(kSmall, 3, 61);
  for (const int size : {0, -1, 3, 12, 257, 512, std::numeric_limits<int>::min()}) {
    Pass pass(kSmall, {&s}, {1}, {});
    pass.args.cache.block_size = size;
    const std::string found = "block size " + std::to_string(size);
    CHECK_THROWS_WITH_AS(pass.run(), doctest::Contains(found.c_str()), std::invalid_argument);
    CHECK_THROWS_WITH_AS(lesson04::paged_attention_cpu(pass.args), doctest::Contains(found.c_str()),
                         std::invalid_argument);
  }
}

TEST_CASE("in a debug pool the guards tell a kernel that is off by one row") {
  for (const kv::Kernel kernel : {kv::Kernel::kFast, kv::Kernel::kPlain}) {
    lesson04_test::check_attention_in_debug_pool(kernel, kv::Device::kCpu, 0);
  }
}

TEST_CASE("a model in a debug pool: the same logits, and no guard is touched") {
  lesson03_test::check_model_in_debug_pool<lesson04::PagedCacheAttention>(kvtest::shipped_model());
}
