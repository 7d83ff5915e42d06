// The kernels that work row by row, on CUDA against their CPU twins.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "common/error.h"
#include "kernels/argmax.h"
#include "kernels/embedding.h"
#include "kernels/pack_weights.h"
#include "kernels/qk_norm_rope.h"
#include "kernels/rmsnorm.h"
#include "tests/kernels/random_floats.h"
#include "tests/kernels/rope_rows.h"
#include "tests/support/device_arrays.h"

using kv::BFloat16;
using kvtest::random_floats;
using kvtest::RopeRows;
using kvtest::StoredMatrix;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

/// One rounding to bf16 (2^-8 of the value), and 2^-12 for fp32: sums in another order, the square
/// root's and the sine's last bits. `magnitude` is what cancels in the value.
void check_rounded(const std::vector<BFloat16>& got, const std::vector<float>& want,
                   const std::vector<float>& magnitude) {
  REQUIRE(got.size() == want.size());
  float worst = 0.0f;
  bool all_numbers = true;
  for (size_t i = 0; i < got.size(); ++i) {
    const float error = std::abs(kv::to_float(got[i]) - want[i]);
    const float bound = 0x1p-8f * std::abs(want[i]) + 0x1p-12f * std::abs(magnitude[i]) + 1e-30f;
    all_numbers = all_numbers && !std::isnan(error);
    worst = std::max(worst, error / bound);
  }
  CHECK(all_numbers);
  CHECK(worst <= 1.0f);
}

}  // namespace

TEST_CASE("rmsnorm on CUDA agrees with the CPU for awkward sizes" *
          doctest::test_suite("any_order")) {
  const kv::Stream stream(kv::Device::kCuda);
  for (const int k : {1, 5, 31, 128, 129, 1000, 1024, 1027, 5120}) {
    for (const int rows : {1, 7, 33}) {
      CAPTURE(k);
      CAPTURE(rows);
      const std::vector<float> x = random_floats(int64_t{rows} * k, 1, 3.0f);
      const std::vector<float> weight = random_floats(k, 2);
      std::vector<float> want(x.size());
      kv::rmsnorm_cpu({x.data(), weight.data(), rows, k, 1e-6f, want.data()});
      const auto device_x = kvtest::upload(x, stream);
      const auto device_weight = kvtest::upload(weight, stream);
      const auto out = kvtest::poisoned(x.size() * 2, stream);
      kv::rmsnorm({device_x.as<float>(), device_weight.as<float>(), rows, k, 1e-6f, out.data()},
                  stream);
      check_rounded(kvtest::download<BFloat16>(out.data(), x.size(), stream), want, want);
    }
  }
}

TEST_CASE("embedding on CUDA gathers rows of the packed table exactly" *
          doctest::test_suite("any_order")) {
  const kv::Stream stream(kv::Device::kCuda);
  for (const int hidden : {1, 8, 31, 100, 128, 1024, 1030}) {
    CAPTURE(hidden);
    const int vocab = 203;
    const StoredMatrix table("BF16", vocab, hidden, 3);
    const kv::Matrix view = table.view();
    const auto packed = kv::pack_weights({&view, 1}, kv::PackOrder::kStacked, stream);
    const std::vector<int32_t> ids{0, 202, 7, 8, 15, 7, 101};
    const auto device_ids = kvtest::upload(ids, stream);
    const size_t n = ids.size() * static_cast<size_t>(hidden);
    const auto out = kvtest::poisoned(n * sizeof(float), stream);
    kv::embedding(
        {device_ids.as<int32_t>(), static_cast<int>(ids.size()), packed.matrix, out.as<float>()},
        stream);
    std::vector<float> want(n);
    kv::embedding_cpu({ids.data(), static_cast<int>(ids.size()), view, want.data()});
    CHECK(kvtest::download<float>(out.data(), n, stream) == want);
  }
}

namespace {

/// Returns the Q heads that CUDA made.
std::vector<BFloat16> check_qk_norm_rope(RopeRows rope) {
  CAPTURE(rope.rows);
  CAPTURE(rope.dim);
  CAPTURE(rope.norm);
  rope.run();
  const kv::Stream stream(kv::Device::kCuda);
  const auto qkv = kvtest::upload(rope.qkv, stream);
  const auto positions = kvtest::upload(rope.positions, stream);
  const auto q_weight = kvtest::upload(rope.q_weight, stream);
  const auto k_weight = kvtest::upload(rope.k_weight, stream);
  const auto inv_freq = kvtest::upload(rope.inv_freq, stream);
  const auto q = kvtest::poisoned(rope.q.size() * 2, stream);
  const auto k = kvtest::poisoned(rope.k.size() * 2, stream);
  const auto v = kvtest::poisoned(rope.v.size() * 2, stream);
  kv::QkNormRopeArgs args = rope.args();
  args.qkv = qkv.as<float>();
  args.positions = positions.as<int32_t>();
  args.q_norm_weight = rope.norm ? q_weight.as<float>() : nullptr;
  args.k_norm_weight = rope.norm ? k_weight.as<float>() : nullptr;
  args.inv_freq = inv_freq.as<float>();
  args.q = q.data();
  args.kv = {k.data(), v.data()};
  kv::qk_norm_rope(args, stream);

  // a cos - b sin may cancel: the size of the pair is what its error is measured by.
  const auto magnitude = [&](const std::vector<float>& x) {
    std::vector<float> m(x.size());
    const auto dim = static_cast<size_t>(rope.dim);
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t partner = i % dim < dim / 2 ? i + dim / 2 : i - dim / 2;
      m[i] = std::hypot(x[i], x[partner]);
    }
    return m;
  };
  const auto heads_of = [&](const kv::DeviceBuffer& heads) {
    return kvtest::download<BFloat16>(heads.data(), heads.bytes() / 2, stream);
  };
  check_rounded(heads_of(q), rope.q, magnitude(rope.q));
  check_rounded(heads_of(k), rope.k, magnitude(rope.k));
  check_rounded(heads_of(v), rope.v, rope.v);
  return heads_of(q);
}

}  // namespace

TEST_CASE("qk_norm_rope on CUDA agrees with the CPU" * doctest::test_suite("any_order")) {
  for (const int head_dim : {2, 16, 32, 64, 80, 96, 128, 256}) {
    for (const bool norm : {true, false}) {
      check_qk_norm_rope({1, 4, 2, head_dim, norm});
      check_qk_norm_rope({37, 3, 1, head_dim, norm});
    }
  }
}

TEST_CASE("qk_norm_rope on CUDA: a row has the same bits among few and among many" *
          doctest::test_suite("any_order")) {
  for (const int head_dim : {64, 80, 128}) {
    const auto few = check_qk_norm_rope({3, 11, 2, head_dim, true});
    auto many = check_qk_norm_rope({300, 11, 2, head_dim, true});
    many.resize(few.size());
    CHECK(std::ranges::equal(few, many, {}, &BFloat16::bits, &BFloat16::bits));
  }
}

TEST_CASE("qk_norm_rope on CUDA refuses a head_dim it has no room for" *
          doctest::test_suite("any_order")) {
  const kv::Stream stream(kv::Device::kCuda);
  for (const int head_dim : {33, 258}) {
    const kv::QkNormRopeArgs args{
        .num_rows = 1, .num_heads = 1, .num_kv_heads = 1, .head_dim = head_dim};
    const std::string wanted = "RoPE on CUDA: head_dim is " + std::to_string(head_dim) +
                               ", it must be even and at most 256; use --device cpu";
    CHECK_THROWS_WITH_AS(kv::qk_norm_rope(args, stream), wanted.c_str(), kv::UserError);
  }
}

TEST_CASE("argmax on CUDA finds what the CPU finds, with ties, NaN and infinities" *
          doctest::test_suite("any_order")) {
  const kv::Stream stream(kv::Device::kCuda);
  for (const int vocab : {1, 2, 31, 1000, 1024, 8192, 8193, 151936}) {
    CAPTURE(vocab);
    const int rows = 9;
    std::vector<float> logits = random_floats(int64_t{rows} * vocab, 11);
    const auto row = [&](int r) { return logits.begin() + static_cast<std::ptrdiff_t>(r) * vocab; };
    std::fill(row(1), row(2), 1.5f);   // all equal
    std::fill(row(2), row(3), kNaN);   // nothing to find
    std::fill(row(3), row(4), -kInf);  // minus infinity is better than NaN
    row(3)[0] = kNaN;
    row(4)[vocab / 2] = kNaN;
    row(5)[vocab - 1] = kInf;
    std::fill(row(6), row(7), -0.0f);  // zeros of both signs are equal
    row(6)[vocab - 1] = 0.0f;
    row(7)[vocab - 1] = row(7)[vocab / 3] = 50.0f;
    std::fill(row(8), row(9), -3.0f);
    row(8)[vocab - 1] = -2.0f;

    std::vector<int32_t> want(rows);
    kv::argmax_cpu({logits.data(), rows, vocab, want.data()});
    const auto device_logits = kvtest::upload(logits, stream);
    const auto out = kvtest::poisoned(rows * sizeof(int32_t), stream);
    kv::argmax({device_logits.as<float>(), rows, vocab, out.as<int32_t>()}, stream);
    CHECK(kvtest::download<int32_t>(out.data(), rows, stream) == want);
  }
}
