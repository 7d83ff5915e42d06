// Lesson 04's kernels on CUDA: lesson 01's bits, whatever the block size, the order of the blocks,
// the batch, the number of queries, the bounds of the grid and what unused slots hold.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "attend.h"
#include "common/base/error.h"
#include "engine.h"
#include "fast.h"
#include "kernels/attention/plan.h"
#include "lessons/01_no_cache/causal_attention.h"
#include "lessons/01_no_cache/test/attend.h"
#include "lessons/03_paged_blocks/write_kv.h"
#include "paged_attention.h"
#include "tests/support/attention_sequences.h"
#include "tests/support/shipped_model.h"

namespace {

using kv::BFloat16;
using kvtest::HeadShape;
using kvtest::Rows;
using kvtest::Sequence;
using Path = kv::attention::Plan::Path;

/// One sequence in a pass: its last num_rows tokens are queries.
struct Part {
  const Sequence* sequence;
  int num_rows;
};

struct PassOptions {
  int block_size = 16;
  bool separate = false;
  int filler = 0xFF;      // byte in every slot without a token
  int seq_len_bound = 0;  // 0: the longest sequence; a large one makes the plan expect much work
  int first_block = 0;    // blocks in front that nobody uses
  uint64_t seed = 1;      // of the order of the blocks
};

/// A paged cache with the parts' sequences in shuffled blocks, filled by write_kv.
class PagedPass {
 public:
  PagedPass(const HeadShape& shape, const std::vector<Part>& parts, const PassOptions& options)
      : shape_(shape), options_(options), parts_(parts) {
    const int size = options.block_size;
    int num_blocks = 0;
    for (const Part& part : parts) {
      num_blocks += (part.sequence->len + size - 1) / size;
      max_blocks_ = std::max(max_blocks_, (part.sequence->len + size - 1) / size + 1);
      longest_ = std::max(longest_, part.sequence->len);
      most_rows_ = std::max(most_rows_, part.num_rows);
      first_row_.push_back(first_row_.back() + part.num_rows);
      seq_len_.push_back(part.sequence->len);
    }
    make_cache(options.first_block + num_blocks);
    std::vector<int32_t> ids(static_cast<size_t>(num_blocks));
    std::iota(ids.begin(), ids.end(), options.first_block);
    std::mt19937_64 rng(options.seed);
    std::shuffle(ids.begin(), ids.end(), rng);
    std::vector<int64_t> slots;
    Rows k, v;
    auto id = ids.begin();
    for (const Part& part : parts) {
      const auto begin = tables_.size();
      tables_.resize(begin + static_cast<size_t>(max_blocks_), 1 << 30);  // never to be read
      for (int t = 0; t < part.sequence->len; ++t) {
        if (t % size == 0) tables_[begin + static_cast<size_t>(t / size)] = *id++;
        slots.push_back(int64_t{tables_[begin + static_cast<size_t>(t / size)]} * size + t % size);
      }
      kvtest::append_to(k, part.sequence->k);
      kvtest::append_to(v, part.sequence->v);
    }
    const auto d_k = kvtest::upload(k, stream_);
    const auto d_v = kvtest::upload(v, stream_);
    const auto d_slots = kvtest::upload(slots, stream_);
    lesson03::write_kv_cuda({.k = d_k.data(),
                             .v = d_v.data(),
                             .slot_mapping = d_slots.as<const int64_t>(),
                             .num_rows = static_cast<int>(slots.size()),
                             .cache = cache_},
                            stream_);
    stream_.synchronize();
  }

  lesson04::PagedAttentionArgs args() const {
    return {.cache = cache_,
            .max_blocks_per_seq = max_blocks_,
            .num_seqs = static_cast<int>(parts_.size()),
            .num_rows = first_row_.back(),
            .max_rows_per_seq = most_rows_,
            .max_seq_len = std::max(longest_, options_.seq_len_bound),
            .num_heads = shape_.num_heads};
  }
  Path path() const { return kv::attention::Plan(queries_of(args())).path; }

  /// The queries' rows, one sequence after the other.
  Rows attend() {
    Rows q;
    for (const Part& part : parts_) {
      kvtest::append_to(q, kvtest::last_rows(part.sequence->q, part.num_rows, shape_.q_width()));
    }
    const auto d_q = kvtest::upload(q, stream_);
    const auto out = kvtest::poisoned(q.size() * 2, stream_);
    const auto first_row = kvtest::upload(first_row_, stream_);
    const auto seq_len = kvtest::upload(seq_len_, stream_);
    const auto tables = kvtest::upload(tables_, stream_);
    lesson04::PagedAttentionArgs a = args();
    a.q = d_q.data(), a.out = out.data();
    a.first_row = first_row.as<const int32_t>(), a.seq_len = seq_len.as<const int32_t>();
    a.block_tables = tables.as<const int32_t>();
    const size_t bytes = lesson04::paged_attention_workspace_bytes(a);
    const auto workspace = kvtest::poisoned(bytes, stream_, 0);
    a.workspace = workspace.data();
    for (int run = 0; run < 2; ++run) lesson04::fast_paged_attention_cuda(a, stream_);
    return kvtest::download<BFloat16>(out.data(), q.size(), stream_);
  }

 private:
  void make_cache(int num_blocks) {
    const size_t block_bytes =
        static_cast<size_t>(options_.block_size) * shape_.kv_width() * sizeof(BFloat16);
    cache_ = {.num_blocks = num_blocks,
              .block_size = options_.block_size,
              .num_kv_heads = shape_.num_kv_heads,
              .head_dim = shape_.head_dim};
    if (!options_.separate) {
      for (void** p : {&cache_.k, &cache_.v}) {
        memory_.push_back(
            kv::DeviceBuffer(kv::Device::kCuda, static_cast<size_t>(num_blocks) * block_bytes));
        const size_t unused = static_cast<size_t>(options_.first_block) * block_bytes;
        auto* used = memory_.back().as<std::byte>() + unused;
        kv::fill_bytes(used, options_.filler, memory_.back().bytes() - unused, stream_);
        *p = memory_.back().data();
      }
      return;
    }
    for (void* const** p : {&cache_.k_block, &cache_.v_block}) {
      std::vector<void*> blocks;
      for (int i = 0; i < num_blocks; ++i) {
        memory_.push_back(kvtest::poisoned(block_bytes, stream_, options_.filler));
        blocks.push_back(memory_.back().data());
      }
      memory_.push_back(kvtest::upload(blocks, stream_));
      *p = memory_.back().as<void* const>();
    }
  }

  HeadShape shape_;
  PassOptions options_;
  std::vector<Part> parts_;
  kv::Stream stream_{kv::Device::kCuda};
  lesson03::KvBlocks cache_;
  std::vector<kv::DeviceBuffer> memory_;
  std::vector<int32_t> first_row_{0}, seq_len_, tables_;
  int max_blocks_ = 0, longest_ = 0, most_rows_ = 0;
};

/// Lesson 01's kernel over the whole sequence.
Rows attend_whole(const HeadShape& shape, const Sequence& s) {
  const kv::Stream stream(kv::Device::kCuda);
  const auto q = kvtest::upload(s.q, stream);
  const auto k = kvtest::upload(s.k, stream);
  const auto v = kvtest::upload(s.v, stream);
  const auto first_row = kvtest::upload(std::vector<int32_t>{0, s.len}, stream);
  const auto out = kvtest::poisoned(s.q.size() * 2, stream);
  lesson01::fast_causal_attention({.q = q.data(),
                                   .k = k.data(),
                                   .v = v.data(),
                                   .out = out.data(),
                                   .first_row = first_row.as<const int32_t>(),
                                   .num_seqs = 1,
                                   .num_rows = s.len,
                                   .max_seq_len = s.len,
                                   .num_heads = shape.num_heads,
                                   .num_kv_heads = shape.num_kv_heads,
                                   .head_dim = shape.head_dim},
                                  stream);
  return kvtest::download<BFloat16>(out.data(), s.q.size(), stream);
}

/// What the pass must give: the last rows of lesson 01's result, sequence after sequence.
Rows wanted(const HeadShape& shape, const std::vector<Part>& parts) {
  Rows rows;
  for (const Part& part : parts) {
    kvtest::append_to(rows, kvtest::last_rows(attend_whole(shape, *part.sequence), part.num_rows,
                                              shape.q_width()));
  }
  return rows;
}

constexpr int kMuchWork = 60'000;  // as a bound of the length: groups enough to stream

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
    const Rows want = wanted(shape, parts);
    for (const int bound : {0, kMuchWork}) {
      CAPTURE(bound);
      for (const int block_size : {1, 16, 64, 256}) {
        CAPTURE(block_size);
        PagedPass pass(shape, parts, {.block_size = block_size, .seq_len_bound = bound});
        if (bound > 0) CHECK(pass.path() == Path::kStream);
        CHECK(kvtest::same_bits(pass.attend(), want));
      }
    }
  }
}

TEST_CASE("any number of queries and any place in the batch give the same bits") {
  const HeadShape shape{16, 8, 128};
  const Sequence a(shape, 700, 1), b(shape, 300, 2), c(shape, 64, 3);
  for (const int bound : {0, kMuchWork}) {
    for (const auto& parts :
         {std::vector<Part>{{&a, 1}}, std::vector<Part>{{&b, 4}, {&a, 1}},
          std::vector<Part>{{&c, 7}, {&a, 5}, {&b, 1}, {&c, 1}},
          std::vector<Part>{{&a, 32}, {&c, 64}}, std::vector<Part>{{&a, 700}, {&b, 1}, {&c, 33}}}) {
      CAPTURE(parts.size());
      const Rows want = wanted(shape, parts);
      for (const uint64_t seed : {1u, 2u}) {
        CHECK(kvtest::same_bits(
            PagedPass(shape, parts, {.seq_len_bound = bound, .seed = seed}).attend(), want));
      }
    }
  }
}

TEST_CASE("what unused slots hold leaves no trace") {
  const HeadShape shape{16, 8, 128};
  const Sequence a(shape, 259, 1), b(shape, 33, 2);
  const std::vector<Part> parts{{&a, 1}, {&b, 1}};
  const Rows want = wanted(shape, parts);
  for (const int bound : {0, kMuchWork}) {
    for (const int filler : {0xFF, 0x7F, 0x00}) {  // NaN, huge, zero
      for (const int block_size : {16, 256}) {
        PagedPass pass(shape, parts,
                       {.block_size = block_size, .filler = filler, .seq_len_bound = bound});
        CHECK(kvtest::same_bits(pass.attend(), want));
      }
    }
  }
}

TEST_CASE("every block an allocation of its own: the same bits") {
  const HeadShape shape{16, 8, 128};
  const Sequence a(shape, 300, 1), b(shape, 41, 2);
  for (const int rows : {1, 3, 40}) {
    const std::vector<Part> parts{{&a, rows}, {&b, rows}};
    const Rows want = wanted(shape, parts);
    for (const int bound : {0, kMuchWork}) {
      for (const int block_size : {4, 16, 256}) {
        PagedPass pass(shape, parts,
                       {.block_size = block_size, .separate = true, .seq_len_bound = bound});
        CHECK(kvtest::same_bits(pass.attend(), want));
      }
    }
  }
}

TEST_CASE("blocks past 2^31 elements are read where they are") {
  const HeadShape shape{16, 8, 128};
  const Sequence a(shape, 300, 1);
  constexpr int kFirst = 134'500;  // of 16 tokens: 2.2e9 elements in front, 4.4 GB each of K and V
  for (const int rows : {1, 40}) {
    const std::vector<Part> parts{{&a, rows}};
    const Rows want = wanted(shape, parts);
    for (const int bound : {0, kMuchWork}) {
      PagedPass pass(shape, parts, {.seq_len_bound = bound, .first_block = kFirst});
      CHECK(kvtest::same_bits(pass.attend(), want));
    }
  }
}

TEST_CASE("wrong block sizes and a missing workspace are refused by name") {
  const kv::Stream stream(kv::Device::kCuda);
  lesson04::PagedAttentionArgs args{
      .cache = {.num_blocks = 9, .block_size = 16, .num_kv_heads = 8, .head_dim = 128},
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

TEST_CASE("the engine gives lesson 03's bits on CUDA in chunks and in separate blocks") {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  const std::vector<kv::Request> requests{kvtest::request_of(4, 20), kvtest::request_of(300, 3),
                                          kvtest::request_of(1, 30)};
  const auto gathered = lesson03::make_engine(model, {})->generate(requests);
  for (const int chunk : {0, 1, 48}) {
    for (const bool separate : {false, true}) {
      CAPTURE(chunk);
      CAPTURE(separate);
      const auto paged = lesson04::make_paged_engine(model, {.separate_blocks = separate}, chunk)
                             ->generate(requests);
      for (size_t i = 0; i < requests.size(); ++i) {
        CHECK(paged.completions[i].tokens == gathered.completions[i].tokens);
        CHECK(paged.completions[i].logits_xxh64 == gathered.completions[i].logits_xxh64);
      }
    }
  }
}

namespace {

using lesson04_test::attend_with;
constexpr auto kPlain = kv::Kernel::kPlain;
constexpr auto kCuda = kv::Device::kCuda;

}  // namespace

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
