// Lesson 02's kernels on CUDA: right against the CPU, and with lesson 01's bits whatever the batch,
// the slab, the number of queries and the bounds of the grid.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "append_kv.h"
#include "attend.h"
#include "common/base/error.h"
#include "decode_attention.h"
#include "engine.h"
#include "kernels/attention/plan.h"
#include "lessons/01_no_cache/causal_attention.h"
#include "lessons/01_no_cache/engine.h"
#include "lessons/01_no_cache/test/attend.h"
#include "tests/support/attention_sequences.h"

namespace {

using kv::BFloat16;
using kvtest::HeadShape;
using kvtest::Rows;
using kvtest::Sequence;

/// One sequence in a pass: its last num_rows tokens are queries.
struct Part {
  const Sequence* sequence;
  int num_rows;
};

struct PassOptions {
  int slots_per_slab = 0;  // 0: as many as the longest sequence needs
  int filler = 0xFF;       // byte in every slot without a token
  int seq_len_bound = 0;   // 0: the longest sequence
  int rows_bound = 0;      // 0: the most rows of one sequence
  bool slabs_backwards = false;
  int64_t first_slot = 0;  // of all slabs
  int runs = 1;            // with the same workspace
};

/// A flat cache with a slab for every part of a pass, filled by append_kv.
class FlatPass {
 public:
  FlatPass(const HeadShape& shape, const std::vector<Part>& parts, const PassOptions& options)
      : shape_(shape), options_(options) {
    for (const Part& part : parts) {
      first_row_.push_back(first_row_.back() + part.num_rows);
      seq_len_.push_back(part.sequence->len);
      kvtest::append_to(q_, kvtest::last_rows(part.sequence->q, part.num_rows, shape.q_width()));
      kvtest::append_to(k_, part.sequence->k);
      kvtest::append_to(v_, part.sequence->v);
      most_rows_ = std::max(most_rows_, part.num_rows);
      longest_ = std::max(longest_, part.sequence->len);
    }
    const int slots = options.slots_per_slab != 0 ? options.slots_per_slab : longest_;
    const auto num = static_cast<int>(parts.size());
    for (int i = 0; i < num; ++i) {
      const int place = options.slabs_backwards ? num - 1 - i : i;
      slab_begin_.push_back(options.first_slot + int64_t{place} * slots);
    }
    const size_t bytes = static_cast<size_t>(options.first_slot + int64_t{num} * slots) *
                         shape.kv_width() * sizeof(BFloat16);
    k_cache_ = kvtest::poisoned(bytes, stream_, options.filler);
    v_cache_ = kvtest::poisoned(bytes, stream_, options.filler);
    begins_ = kvtest::upload(slab_begin_, stream_);
    fill_cache(num);
  }

  /// The queries' rows, one sequence after the other.
  Rows attend() {
    const auto q = kvtest::upload(q_, stream_);
    const auto first_row = kvtest::upload(first_row_, stream_);
    const auto seq_len = kvtest::upload(seq_len_, stream_);
    const auto out = kvtest::poisoned(q_.size() * 2, stream_);
    lesson02::DecodeAttentionArgs args{
        .q = q.data(),
        .k_cache = k_cache_.data(),
        .v_cache = v_cache_.data(),
        .out = out.data(),
        .first_row = first_row.as<const int32_t>(),
        .seq_len = seq_len.as<const int32_t>(),
        .slab_begin = begins_.as<const int64_t>(),
        .num_seqs = static_cast<int>(seq_len_.size()),
        .num_rows = first_row_.back(),
        .max_rows_per_seq = options_.rows_bound != 0 ? options_.rows_bound : most_rows_,
        .max_seq_len = options_.seq_len_bound != 0 ? options_.seq_len_bound : longest_,
        .num_heads = shape_.num_heads,
        .num_kv_heads = shape_.num_kv_heads,
        .head_dim = shape_.head_dim};
    const size_t bytes = lesson02::decode_attention_workspace_bytes(args);
    const auto workspace = kvtest::poisoned(bytes, stream_, 0);
    args.workspace = workspace.data();
    for (int i = 0; i < options_.runs; ++i) {
      kv::fill_bytes(out.data(), 0xFF, out.bytes(), stream_);
      lesson02::fast_decode_attention(args, stream_);
    }
    const auto rows = kvtest::download<BFloat16>(out.data(), q_.size(), stream_);
    if (bytes > 0) {  // as promised: ready for the next launch
      const auto counters =
          kvtest::download<uint32_t>(workspace.data(), kv::attention::kEnoughGroups, stream_);
      CHECK(counters == std::vector<uint32_t>(kv::attention::kEnoughGroups));
    }
    return rows;
  }

 private:
  void fill_cache(int num_slabs) {
    std::vector<int32_t> row_slab, row_position;
    for (int slab = 0; slab < num_slabs; ++slab) {
      for (int i = 0; i < seq_len_[static_cast<size_t>(slab)]; ++i) {
        row_slab.push_back(slab);
        row_position.push_back(i);
      }
    }
    const auto k = kvtest::upload(k_, stream_);
    const auto v = kvtest::upload(v_, stream_);
    const auto slabs = kvtest::upload(row_slab, stream_);
    const auto positions = kvtest::upload(row_position, stream_);
    lesson02::append_kv({.k = k.data(),
                         .v = v.data(),
                         .row_slab = slabs.as<const int32_t>(),
                         .row_position = positions.as<const int32_t>(),
                         .num_rows = static_cast<int>(row_slab.size()),
                         .row_elements = static_cast<int>(shape_.kv_width()),
                         .slab_begin = begins_.as<const int64_t>(),
                         .k_cache = k_cache_.data(),
                         .v_cache = v_cache_.data()},
                        stream_);
    stream_.synchronize();
  }

  HeadShape shape_;
  PassOptions options_;
  kv::Stream stream_{kv::Device::kCuda};
  std::vector<int32_t> first_row_{0};
  std::vector<int32_t> seq_len_;
  std::vector<int64_t> slab_begin_;
  Rows q_, k_, v_;
  kv::DeviceBuffer k_cache_, v_cache_, begins_;
  int most_rows_ = 0;
  int longest_ = 0;
};

Rows attend_flat(const HeadShape& shape, const std::vector<Part>& parts,
                 const PassOptions& options = {}) {
  return FlatPass(shape, parts, options).attend();
}

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

/// The CPU twin for one part. With `magnitude`, over |V|.
std::vector<float> attend_on_cpu(const HeadShape& shape, const Part& part, bool magnitude) {
  const Sequence& s = *part.sequence;
  const std::vector<float> q =
      kvtest::floats_of(kvtest::last_rows(s.q, part.num_rows, shape.q_width()));
  const std::vector<float> k = kvtest::floats_of(s.k);
  std::vector<float> v = kvtest::floats_of(s.v);
  if (magnitude) {
    for (float& x : v) x = std::abs(x);
  }
  std::vector<float> out(q.size());
  const int32_t first_row[] = {0, part.num_rows};
  const int32_t seq_len[] = {s.len};
  const int64_t slab_begin[] = {0};
  lesson02::fast_decode_attention_cpu({.q = q.data(),
                                       .k_cache = k.data(),
                                       .v_cache = v.data(),
                                       .out = out.data(),
                                       .first_row = first_row,
                                       .seq_len = seq_len,
                                       .slab_begin = slab_begin,
                                       .num_seqs = 1,
                                       .num_rows = part.num_rows,
                                       .max_rows_per_seq = part.num_rows,
                                       .max_seq_len = s.len,
                                       .num_heads = shape.num_heads,
                                       .num_kv_heads = shape.num_kv_heads,
                                       .head_dim = shape.head_dim});
  return out;
}

}  // namespace

TEST_CASE("append_kv on CUDA writes its slots and no other byte of the cache") {
  for (const int row_elements : {256, 1024, 40, 8}) {
    CAPTURE(row_elements);
    const kv::Stream stream(kv::Device::kCuda);
    const auto width = static_cast<size_t>(row_elements);
    const std::vector<int64_t> slab_begin{40, 3, 70};
    const std::vector<int32_t> row_slab{1, 0, 2, 0, 1, 2, 0};
    const std::vector<int32_t> row_position{0, 5, 9, 6, 36, 0, 0};
    constexpr size_t kSlots = 80;
    const auto rows = static_cast<int64_t>(row_slab.size());
    const Rows k = kvtest::random_bf16(rows * row_elements, 1);
    const Rows v = kvtest::random_bf16(rows * row_elements, 2);
    Rows want_k(kSlots * width, BFloat16{0xFFFF}), want_v = want_k;
    for (size_t row = 0; row < row_slab.size(); ++row) {
      const auto slot =
          static_cast<size_t>(slab_begin[static_cast<size_t>(row_slab[row])] + row_position[row]);
      std::copy_n(k.begin() + static_cast<std::ptrdiff_t>(row * width), width,
                  want_k.begin() + static_cast<std::ptrdiff_t>(slot * width));
      std::copy_n(v.begin() + static_cast<std::ptrdiff_t>(row * width), width,
                  want_v.begin() + static_cast<std::ptrdiff_t>(slot * width));
    }
    const auto device_k = kvtest::upload(k, stream);
    const auto device_v = kvtest::upload(v, stream);
    const auto slabs = kvtest::upload(row_slab, stream);
    const auto positions = kvtest::upload(row_position, stream);
    const auto begins = kvtest::upload(slab_begin, stream);
    const auto k_cache = kvtest::poisoned(want_k.size() * 2, stream);
    const auto v_cache = kvtest::poisoned(want_v.size() * 2, stream);
    lesson02::append_kv({.k = device_k.data(),
                         .v = device_v.data(),
                         .row_slab = slabs.as<const int32_t>(),
                         .row_position = positions.as<const int32_t>(),
                         .num_rows = static_cast<int>(rows),
                         .row_elements = row_elements,
                         .slab_begin = begins.as<const int64_t>(),
                         .k_cache = k_cache.data(),
                         .v_cache = v_cache.data()},
                        stream);
    CHECK(kvtest::same_bits(kvtest::download<BFloat16>(k_cache.data(), want_k.size(), stream),
                            want_k));
    CHECK(kvtest::same_bits(kvtest::download<BFloat16>(v_cache.data(), want_v.size(), stream),
                            want_v));
  }
}

TEST_CASE("append_kv on CUDA refuses rows that are not whole words of 16 bytes") {
  const kv::Stream stream(kv::Device::kCuda);
  CHECK_THROWS_WITH_AS(
      lesson02::append_kv({.num_rows = 1, .row_elements = 12}, stream),
      "copying K and V on CUDA: found 12 elements in a piece, wanted a multiple of 8",
      std::invalid_argument);
}

TEST_CASE("decode attention on CUDA agrees with the CPU and has lesson 01's bits") {
  for (const int head_dim : {32, 64, 80, 96, 128}) {
    for (const int heads_per_kv : {1, 2, 4, 8, 20}) {
      const HeadShape shape{2 * heads_per_kv, 2, head_dim};
      CAPTURE(head_dim);
      CAPTURE(heads_per_kv);
      for (const int len : {1, 63, 64, 65, 255, 256, 257, 700}) {
        CAPTURE(len);
        const Sequence s(shape, len, static_cast<uint64_t>(len));
        const Part part{&s, 1};
        const Rows got = attend_flat(shape, {part});
        kvtest::check_attention(got, attend_on_cpu(shape, part, false),
                                attend_on_cpu(shape, part, true));
        CHECK(
            kvtest::same_bits(got, kvtest::last_rows(attend_whole(shape, s), 1, shape.q_width())));
      }
    }
  }
}

TEST_CASE("any number of queries gives the same bits") {
  const HeadShape shapes[] = {{16, 8, 128}, {8, 1, 64}, {3, 3, 80}};
  for (const HeadShape& shape : shapes) {
    CAPTURE(shape.head_dim);
    const Sequence s(shape, 531, 7);
    const Rows whole = attend_whole(shape, s);
    for (const int num_rows : {1, 2, 3, 8, 9, 32, 33, 100, 531}) {
      CAPTURE(num_rows);
      CHECK(kvtest::same_bits(attend_flat(shape, {{&s, num_rows}}),
                              kvtest::last_rows(whole, num_rows, shape.q_width())));
    }
  }
}

TEST_CASE("other places in the batch, slabs and bounds give the same bits") {
  const HeadShape shape{8, 2, 32};
  const Sequence a(shape, 300, 1), b(shape, 1, 2), c(shape, 1025, 3), d(shape, 64, 4);
  const Rows rows[] = {attend_whole(shape, a), attend_whole(shape, b), attend_whole(shape, c),
                       attend_whole(shape, d)};
  const auto expect = [&](const std::vector<int>& num_rows) {
    Rows all;
    for (size_t i = 0; i < 4; ++i) {
      kvtest::append_to(all, kvtest::last_rows(rows[i], num_rows[i], shape.q_width()));
    }
    return all;
  };
  const auto pass = [&](const std::vector<int>& n, const PassOptions& options) {
    return attend_flat(shape, {{&a, n[0]}, {&b, n[1]}, {&c, n[2]}, {&d, n[3]}}, options);
  };
  for (const std::vector<int>& n :
       {std::vector<int>{1, 1, 1, 1}, {2, 1, 4, 3}, {1, 0, 1, 0}, {300, 1, 20, 64}}) {
    const Rows want = expect(n);
    CHECK(kvtest::same_bits(pass(n, {}), want));
    CHECK(kvtest::same_bits(pass(n, {.slots_per_slab = 2000, .slabs_backwards = true}), want));
    CHECK(kvtest::same_bits(pass(n, {.seq_len_bound = 40960, .runs = 3}), want));
    CHECK(kvtest::same_bits(pass(n, {.rows_bound = 700}), want));
  }
}

TEST_CASE("a full chip takes two tiles of a group at a time and gives the same bits") {
  const HeadShape shape{16, 8, 128};
  const Sequence s(shape, 1300, 8);
  const Rows want = kvtest::last_rows(attend_whole(shape, s), 3, shape.q_width());
  for (const int copies : {1, 7, 40}) {  // 48, 336 and 1,920 CTAs
    CAPTURE(copies);
    const std::vector<Part> parts(static_cast<size_t>(copies), {&s, 3});
    const Rows got = attend_flat(shape, parts, {.runs = 2});
    for (int i = 0; i < copies; ++i) {
      const auto begin =
          got.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(i) * want.size());
      CHECK(kvtest::same_bits(Rows(begin, begin + static_cast<std::ptrdiff_t>(want.size())), want));
    }
  }
}

TEST_CASE("what unused slots hold changes no bit") {
  for (const HeadShape shape : {HeadShape{4, 2, 128}, HeadShape{8, 4, 80}}) {
    const Sequence a(shape, 70, 1), b(shape, 300, 2);
    for (const int num_rows : {1, 40}) {
      const std::vector<Part> parts{{&a, num_rows}, {&b, num_rows}};
      const Rows want = attend_flat(shape, parts, {.slots_per_slab = 512, .filler = 0});
      // As bf16: NaN; infinity to within a bit (0x7F7F, 3.4e38); -5.8e-19; 2.3e21.
      for (const int filler : {0xFF, 0x7F, 0xA1, 0x63}) {
        CAPTURE(filler);
        CHECK(kvtest::same_bits(
            attend_flat(shape, parts, {.slots_per_slab = 512, .filler = filler}), want));
      }
    }
  }
}

TEST_CASE("a slab past the first 2^31 elements is written and read where it is") {
  const HeadShape shape{4, 2, 128};
  const Sequence s(shape, 300, 9);
  PassOptions far_away;
  far_away.first_slot = (int64_t{1} << 31) / static_cast<int64_t>(shape.kv_width()) + 1000;
  CHECK(kvtest::same_bits(attend_flat(shape, {{&s, 1}}, far_away),
                          kvtest::last_rows(attend_whole(shape, s), 1, shape.q_width())));
  CHECK(kvtest::same_bits(attend_flat(shape, {{&s, 300}}, far_away), attend_whole(shape, s)));
}

TEST_CASE("a head_dim without a kernel is refused by name") {
  const kv::Stream stream(kv::Device::kCuda);
  const lesson02::DecodeAttentionArgs args{.num_seqs = 1,
                                           .num_rows = 1,
                                           .max_rows_per_seq = 1,
                                           .max_seq_len = 1,
                                           .num_heads = 1,
                                           .num_kv_heads = 1,
                                           .head_dim = 72};
  CHECK_THROWS_WITH_AS(lesson02::fast_decode_attention(args, stream),
                       "attention on CUDA: head_dim is 72, it must be 32, 64, 80, 96 or 128; use "
                       "--device cpu",
                       kv::UserError);
}

TEST_CASE("a context of two groups without a workspace is refused") {
  const kv::Stream stream(kv::Device::kCuda);
  const lesson02::DecodeAttentionArgs args{.num_seqs = 1,
                                           .num_rows = 1,
                                           .max_rows_per_seq = 1,
                                           .max_seq_len = 257,
                                           .num_heads = 1,
                                           .num_kv_heads = 1,
                                           .head_dim = 128};
  CHECK_THROWS_AS(lesson02::fast_decode_attention(args, stream), std::logic_error);
}

TEST_CASE("steps replayed from a graph have the bits of a run without a cache") {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  std::vector<kv::Request> requests(2);
  requests[0].prompt = {5, 300, 77, 12, 9};
  requests[0].max_tokens = 270;
  requests[1].prompt = {40, 2};
  requests[1].max_tokens = 300;
  const auto flat = lesson02::make_engine(model, {})->generate(requests);
  CHECK(model.graph_replays() >= 280);  // of 300 passes, over both groups of keys
  const auto recomputed = lesson01::make_engine(model, {})->generate(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    CHECK(flat.completions[i].tokens == recomputed.completions[i].tokens);
    CHECK(flat.completions[i].logits_xxh64 == recomputed.completions[i].logits_xxh64);
  }
}

namespace {

using lesson02_test::attend_with;
constexpr auto kPlain = kv::Kernel::kPlain;
constexpr auto kCuda = kv::Device::kCuda;

}  // namespace

TEST_CASE(
    "plain attention over slabs on CUDA is close to double precision and to the fast kernel") {
  kvtest::check_plain_attention(attend_with(kPlain, kCuda), attend_with(kv::Kernel::kFast, kCuda),
                                kCuda, 3);
}

TEST_CASE("the bits of plain attention over slabs on CUDA depend on a query's keys alone") {
  kvtest::check_bits_of_a_query(attend_with(kPlain, kCuda), /*chunks=*/true);
}

TEST_CASE("plain attention over slabs on CUDA has lesson 01's bits") {
  kvtest::check_equal_bits(
      lesson01_test::attend_with(kPlain, kCuda),
      {attend_with(kPlain, kCuda),
       attend_with(kPlain, kCuda, {.spare_slots = 100, .last_slab_first = true}),
       attend_with(kPlain, kCuda, {.unused = kv::BFloat16{0}})});
}
