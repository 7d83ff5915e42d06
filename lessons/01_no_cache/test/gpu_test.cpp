// causal_attention on CUDA: right against its CPU twin, and with the same bits in any company.

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "attend.h"
#include "causal_attention.h"
#include "common/base/error.h"
#include "tests/support/attention_sequences.h"

namespace {

using kvtest::HeadShape;
using kvtest::Rows;
using kvtest::Sequence;

/// Runs whole sequences in one pass; returns the rows of each.
std::vector<Rows> attend_on_gpu(const HeadShape& shape, const std::vector<Sequence>& sequences) {
  const kv::Stream stream(kv::Device::kCuda);
  Rows q, k, v;
  std::vector<int32_t> first_row{0};
  int longest = 0;
  for (const Sequence& s : sequences) {
    kvtest::append_to(q, s.q);
    kvtest::append_to(k, s.k);
    kvtest::append_to(v, s.v);
    first_row.push_back(first_row.back() + s.len);
    longest = std::max(longest, s.len);
  }
  const auto device_q = kvtest::upload(q, stream);
  const auto device_k = kvtest::upload(k, stream);
  const auto device_v = kvtest::upload(v, stream);
  const auto device_first = kvtest::upload(first_row, stream);
  const auto out = kvtest::poisoned(q.size() * 2, stream);
  lesson01::fast_causal_attention({.q = device_q.data(),
                                   .k = device_k.data(),
                                   .v = device_v.data(),
                                   .out = out.data(),
                                   .first_row = device_first.as<const int32_t>(),
                                   .num_seqs = static_cast<int>(sequences.size()),
                                   .num_rows = first_row.back(),
                                   .max_seq_len = longest,
                                   .num_heads = shape.num_heads,
                                   .num_kv_heads = shape.num_kv_heads,
                                   .head_dim = shape.head_dim},
                                  stream);
  const auto all = kvtest::download<kv::BFloat16>(out.data(), q.size(), stream);
  std::vector<Rows> rows;
  auto at = all.begin();
  for (const Sequence& s : sequences) {
    rows.emplace_back(at, at + static_cast<std::ptrdiff_t>(s.q.size()));
    at += static_cast<std::ptrdiff_t>(s.q.size());
  }
  return rows;
}

/// The CPU twin on the same values. With `magnitude`, over |V|.
std::vector<float> attend_on_cpu(const HeadShape& shape, const Sequence& s, bool magnitude) {
  const std::vector<float> q = kvtest::floats_of(s.q);
  const std::vector<float> k = kvtest::floats_of(s.k);
  std::vector<float> v = kvtest::floats_of(s.v);
  if (magnitude) {
    for (float& x : v) x = std::abs(x);
  }
  std::vector<float> out(q.size());
  const int32_t first_row[] = {0, s.len};
  lesson01::fast_causal_attention_cpu({.q = q.data(),
                                       .k = k.data(),
                                       .v = v.data(),
                                       .out = out.data(),
                                       .first_row = first_row,
                                       .num_seqs = 1,
                                       .num_rows = s.len,
                                       .max_seq_len = s.len,
                                       .num_heads = shape.num_heads,
                                       .num_kv_heads = shape.num_kv_heads,
                                       .head_dim = shape.head_dim});
  return out;
}

void check_against_cpu(const HeadShape& shape, const std::vector<int>& lengths) {
  CAPTURE(shape.num_heads);
  CAPTURE(shape.num_kv_heads);
  CAPTURE(shape.head_dim);
  std::vector<Sequence> sequences;
  for (size_t i = 0; i < lengths.size(); ++i) sequences.emplace_back(shape, lengths[i], 10 + i);
  const std::vector<Rows> got = attend_on_gpu(shape, sequences);
  for (size_t i = 0; i < lengths.size(); ++i) {
    CAPTURE(lengths[i]);
    kvtest::check_attention(got[i], attend_on_cpu(shape, sequences[i], false),
                            attend_on_cpu(shape, sequences[i], true));
  }
}

}  // namespace

TEST_CASE("causal attention on CUDA agrees with the CPU for every head_dim and GQA") {
  for (const int head_dim : {32, 64, 80, 96, 128}) {
    for (const int heads_per_kv : {1, 2, 4, 8}) {
      check_against_cpu({2 * heads_per_kv, 2, head_dim}, {1, 63, 64, 65, 130});
    }
  }
}

TEST_CASE("causal attention on CUDA agrees with the CPU around tiles and groups") {
  check_against_cpu({4, 2, 128}, {255, 256, 257, 2, 511, 513});
  check_against_cpu({3, 1, 80}, {319, 320, 321});
  check_against_cpu({1, 1, 32}, {1100});
}

TEST_CASE("a sequence has the same bits alone and at every place of a batch") {
  const HeadShape shape{6, 2, 64};
  const Sequence mine(shape, 300, 1);
  const Rows alone = attend_on_gpu(shape, {mine})[0];
  const Sequence a(shape, 77, 2), b(shape, 400, 3), c(shape, 1, 4);
  CHECK(kvtest::same_bits(attend_on_gpu(shape, {mine, a, b})[0], alone));
  CHECK(kvtest::same_bits(attend_on_gpu(shape, {a, mine, c})[1], alone));
  CHECK(kvtest::same_bits(attend_on_gpu(shape, {c, b, mine})[2], alone));
}

TEST_CASE("the rows of a sequence have the same bits when it ends right after them") {
  for (const HeadShape shape : {HeadShape{8, 2, 128}, HeadShape{5, 1, 80}}) {
    const Sequence whole(shape, 333, 5);
    const Rows rows = attend_on_gpu(shape, {whole})[0];
    for (const int len : {1, 2, 17, 64, 65, 128, 256, 257, 332}) {
      CAPTURE(len);
      Sequence start = whole;
      start.len = len;
      start.q.resize(static_cast<size_t>(len) * shape.q_width());
      start.k.resize(static_cast<size_t>(len) * shape.kv_width());
      start.v.resize(static_cast<size_t>(len) * shape.kv_width());
      const Rows want(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(start.q.size()));
      CHECK(kvtest::same_bits(attend_on_gpu(shape, {start})[0], want));
    }
  }
}

TEST_CASE("a head_dim without a kernel is refused by name") {
  const kv::Stream stream(kv::Device::kCuda);
  for (const int head_dim : {16, 48, 112, 256}) {
    const lesson01::CausalAttentionArgs args{.num_seqs = 1,
                                             .num_rows = 1,
                                             .max_seq_len = 1,
                                             .num_heads = 1,
                                             .num_kv_heads = 1,
                                             .head_dim = head_dim};
    const std::string wanted = "attention on CUDA: head_dim is " + std::to_string(head_dim) +
                               ", it must be 32, 64, 80, 96 or 128; use --device cpu";
    CHECK_THROWS_WITH_AS(lesson01::fast_causal_attention(args, stream), wanted.c_str(),
                         kv::UserError);
  }
}

TEST_CASE("a pass without rows launches nothing") {
  const kv::Stream stream(kv::Device::kCuda);
  lesson01::fast_causal_attention({.head_dim = 128}, stream);
  stream.synchronize();
}

TEST_CASE("plain attention on CUDA is close to double precision and to the fast kernel") {
  constexpr auto kCuda = kv::Device::kCuda;
  kvtest::check_plain_attention(lesson01_test::attend_with(kv::Kernel::kPlain, kCuda),
                                lesson01_test::attend_with(kv::Kernel::kFast, kCuda), kCuda, 1000);
}

TEST_CASE("the bits of plain attention on CUDA depend on a query's keys alone") {
  kvtest::check_bits_of_a_query(lesson01_test::attend_with(kv::Kernel::kPlain, kv::Device::kCuda),
                                /*chunks=*/false);
}
