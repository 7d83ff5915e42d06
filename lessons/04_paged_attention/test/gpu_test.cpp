// Lesson 04's kernels on CUDA: lesson 01's bits, whatever the block size, the order of the blocks,
// the batch, the number of queries, the bounds of the grid and what unused slots hold.

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "attend.h"
#include "common/base/error.h"
#include "engine.h"
#include "fast.h"
#include "kernels/attention/plan.h"
#include "lessons/01_no_cache/test/attend.h"
#include "paged_attention.h"
#include "paged_cache_attention.h"
#include "tests/support/attention_sequences.h"
#include "tests/support/shipped_model.h"

namespace {

using kvtest::HeadShape;
using kvtest::Outputs;
using kvtest::Part;
using kvtest::same_bits;
using kvtest::Sequence;
using lesson04_test::attend_with;
using lesson04_test::Blocks;

constexpr auto kFast = kv::Kernel::kFast;
constexpr auto kPlain = kv::Kernel::kPlain;
constexpr auto kCuda = kv::Device::kCuda;
constexpr int kMuchWork = 60'000;  // as a bound of the length: groups enough to stream

/// What a pass must give: of lesson 01's result each part's last rows.
Outputs wanted(const HeadShape& shape, const std::vector<Part>& parts) {
  std::vector<Part> whole;
  for (const Part& part : parts) whole.push_back({part.sequence, part.sequence->len});
  Outputs rows = lesson01_test::attend_with(kFast, kCuda)(shape, whole);
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t skipped = static_cast<size_t>(whole[i].num_rows - parts[i].num_rows);
    rows[i].erase(rows[i].begin(),
                  rows[i].begin() + static_cast<std::ptrdiff_t>(skipped * shape.q_width()));
  }
  return rows;
}

void check_bits(const HeadShape& shape, const std::vector<Part>& parts, const Blocks& blocks,
                const Outputs& want) {
  const Outputs got = attend_with(kFast, kCuda, blocks)(shape, parts);
  for (size_t i = 0; i < parts.size(); ++i) {
    CAPTURE(i);
    CHECK(same_bits(got[i], want[i]));
  }
}

}  // namespace

TEST_CASE("any context, GQA, head_dim and block size gives the bits of lesson 01") {
  for (const HeadShape shape :
       {HeadShape{8, 8, 128}, HeadShape{16, 8, 128}, HeadShape{16, 4, 64}, HeadShape{16, 2, 80},
        HeadShape{6, 2, 96}, HeadShape{8, 2, 32}, HeadShape{12, 1, 128}}) {
    CAPTURE(shape.num_heads);
    CAPTURE(shape.head_dim);
    std::vector<Sequence> sequences;
    uint64_t seed = 10;
    for (const int len : {1, 15, 16, 17, 63, 64, 65, 255, 256, 257, 700}) {
      sequences.emplace_back(shape, len, ++seed);
    }
    std::vector<Part> parts;
    for (const Sequence& s : sequences) parts.push_back({&s, 1});
    const kv::attention::Plan plan({.num_seqs = static_cast<int>(parts.size()),
                                    .max_rows_per_seq = 1,
                                    .max_seq_len = kMuchWork,
                                    .num_heads = shape.num_heads,
                                    .num_kv_heads = shape.num_kv_heads,
                                    .head_dim = shape.head_dim});
    CHECK(plan.path == kv::attention::Plan::Path::kStream);
    const Outputs want = wanted(shape, parts);
    for (const int bound : {0, kMuchWork}) {
      CAPTURE(bound);
      for (const int block_size : {1, 16, 64, 256}) {
        CAPTURE(block_size);
        check_bits(shape, parts, {.block_size = block_size, .seq_len_bound = bound}, want);
      }
    }
  }
}

TEST_CASE("any number of queries and any place in the batch give the same bits") {
  const HeadShape shape{16, 8, 128};
  const Sequence a(shape, 700, 1), b(shape, 300, 2), c(shape, 64, 3);
  for (const auto& parts :
       {std::vector<Part>{{&a, 1}}, std::vector<Part>{{&b, 4}, {&a, 1}},
        std::vector<Part>{{&c, 7}, {&a, 5}, {&b, 1}, {&c, 1}},
        std::vector<Part>{{&a, 32}, {&c, 64}}, std::vector<Part>{{&a, 700}, {&b, 1}, {&c, 33}}}) {
    CAPTURE(parts.size());
    const Outputs want = wanted(shape, parts);
    for (const int bound : {0, kMuchWork}) {
      for (const uint64_t seed : {1u, 2u}) {
        check_bits(shape, parts, {.shuffle = seed, .seq_len_bound = bound}, want);
      }
    }
  }
}

TEST_CASE("what unused slots hold leaves no trace") {
  const HeadShape shape{16, 8, 128};
  const Sequence a(shape, 259, 1), b(shape, 33, 2);
  const std::vector<Part> parts{{&a, 1}, {&b, 1}};
  const Outputs want = wanted(shape, parts);
  for (const int bound : {0, kMuchWork}) {
    for (const int unused : {0xFFFF, 0x7F7F, 0x0000}) {  // NaN, huge, zero
      for (const int block_size : {16, 256}) {
        check_bits(shape, parts,
                   {.block_size = block_size,
                    .unused = kv::BFloat16{static_cast<uint16_t>(unused)},
                    .seq_len_bound = bound},
                   want);
      }
    }
  }
}

TEST_CASE("blocks past 2^31 elements are read where they are") {
  const HeadShape shape{16, 8, 128};
  const Sequence a(shape, 300, 1);
  constexpr int kFirst = 134'500;  // of 16 tokens: 2.2e9 elements in front, which nobody reads
  for (const int rows : {1, 40}) {
    const std::vector<Part> parts{{&a, rows}};
    const Outputs want = wanted(shape, parts);
    for (const int bound : {0, kMuchWork}) {
      check_bits(shape, parts, {.first_block = kFirst, .seq_len_bound = bound}, want);
    }
  }
}

TEST_CASE("wrong block sizes and a missing workspace are refused by name") {
  const kv::Stream stream(kv::Device::kCuda);
  lesson04::PagedAttentionArgs args{.cache = {.num_blocks = 9,
                                              .block_size = 16,
                                              .block_stride = 16,
                                              .num_kv_heads = 8,
                                              .head_dim = 128},
                                    .num_seqs = 1,
                                    .num_rows = 1,
                                    .max_rows_per_seq = 1,
                                    .max_seq_len = 700,
                                    .num_heads = 16};
  CHECK_THROWS_AS(lesson04::fast_paged_attention_cuda(args, stream), std::logic_error);
  for (const int size : {0, 3, 512}) {
    args.cache.block_size = size;
    CHECK_THROWS_AS(lesson04::fast_paged_attention_cuda(args, stream), std::invalid_argument);
  }
  args.cache.block_size = 16;
  args.cache.head_dim = 72;
  args.max_seq_len = 100;
  CHECK_THROWS_AS(lesson04::fast_paged_attention_cuda(args, stream), kv::UserError);
}

TEST_CASE("the engine gives lesson 03's bits on CUDA in chunks") {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  const std::vector<kv::Request> requests{kvtest::request_of(4, 20), kvtest::request_of(300, 3),
                                          kvtest::request_of(1, 30)};
  const auto gathered = lesson03::make_engine(model, {})->generate(requests);
  for (const int chunk : {0, 1, 48}) {
    CAPTURE(chunk);
    const auto paged = lesson04::PagedEngine(model, {}, chunk).generate(requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      CHECK(paged.completions[i].tokens == gathered.completions[i].tokens);
      CHECK(paged.completions[i].logits_xxh64 == gathered.completions[i].logits_xxh64);
    }
  }
}

TEST_CASE("in a debug pool the guards tell a kernel that is off by one row") {
  lesson04_test::check_attention_in_debug_pool(kFast, kCuda, 0);
  lesson04_test::check_attention_in_debug_pool(kFast, kCuda, kMuchWork);
  lesson04_test::check_attention_in_debug_pool(kPlain, kCuda, 0);
}

TEST_CASE("a model in a debug pool: the same logits, and no guard is touched") {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  lesson03_test::check_model_in_debug_pool<lesson04::PagedCacheAttention>(model);
}

TEST_CASE(
    "plain attention over blocks on CUDA is close to double precision and to the fast kernel") {
  kvtest::check_plain_attention(attend_with(kPlain, kCuda), attend_with(kv::Kernel::kFast, kCuda),
                                kCuda, 3);
}

TEST_CASE("the bits of plain attention over blocks on CUDA depend on a query's keys alone") {
  kvtest::check_bits_of_a_query(attend_with(kPlain, kCuda), /*chunks=*/true);
}

TEST_CASE("plain attention over blocks on CUDA has lesson 01's bits") {
  kvtest::check_equal_bits(
      lesson01_test::attend_with(kPlain, kCuda),
      {attend_with(kPlain, kCuda), attend_with(kPlain, kCuda, {.block_size = 1}),
       attend_with(kPlain, kCuda, {.block_size = 256}),
       attend_with(kPlain, kCuda, {.block_size = 64, .shuffle = 7}),
       attend_with(kPlain, kCuda, {.shuffle = 2}),
       attend_with(kPlain, kCuda, {.unused = kv::BFloat16{0}})});
}
