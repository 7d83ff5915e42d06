#pragma once

// One pass of attention over random sequences, on either device, and checks of its result that hold
// for every lesson's kernel. A lesson lays the sequences out in its own way (Attend), which the
// checks do not know.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <vector>

#include "tests/support/attention_sequences.h"
#include "tests/support/naive_attention.h"

namespace kvtest {

/// One sequence in a pass: its last num_rows tokens are queries.
struct Part {
  const Sequence* sequence;
  int num_rows;
};

/// The last `rows` tokens of each sequence, or as many as it has.
inline std::vector<Part> last_tokens_of(const std::vector<Sequence>& sequences, int rows) {
  std::vector<Part> parts;
  for (const Sequence& s : sequences) parts.push_back({&s, std::min(s.len, rows)});
  return parts;
}

/// The outputs of each part, [num_rows, num_heads, head_dim].
using Outputs = std::vector<std::vector<float>>;
using Attend = std::function<Outputs(const HeadShape&, const std::vector<Part>&)>;

/// Rows in the activation dtype of the stream's device: fp32 on the CPU, bf16 on CUDA.
inline kv::DeviceBuffer upload_rows(const Rows& rows, const kv::Stream& stream) {
  if (stream.device() == kv::Device::kCuda) return upload(rows, stream);
  return upload(floats_of(rows), stream);
}

inline size_t row_bytes(const kv::Stream& stream) {
  return stream.device() == kv::Device::kCuda ? sizeof(kv::BFloat16) : sizeof(float);
}

inline Rows queries_of(const HeadShape& shape, const std::vector<Part>& parts) {
  Rows q;
  for (const Part& p : parts) append_to(q, last_rows(p.sequence->q, p.num_rows, shape.q_width()));
  return q;
}

/// What is in a buffer of such rows.
inline std::vector<float> download_rows(const kv::DeviceBuffer& rows, const kv::Stream& stream) {
  const size_t n = rows.bytes() / row_bytes(stream);
  if (stream.device() == kv::Device::kCpu) return download<float>(rows.data(), n, stream);
  return floats_of(download<kv::BFloat16>(rows.data(), n, stream));
}

/// The output of a kernel, part by part.
inline Outputs download_outputs(const kv::DeviceBuffer& out, const HeadShape& shape,
                                const std::vector<Part>& parts, const kv::Stream& stream) {
  const std::vector<float> all = download_rows(out, stream);
  Outputs outputs;
  auto at = all.begin();
  for (const Part& p : parts) {
    const auto end =
        at + static_cast<std::ptrdiff_t>(static_cast<size_t>(p.num_rows) * shape.q_width());
    outputs.emplace_back(at, end);
    at = end;
  }
  CHECK(at == all.end());
  return outputs;
}

/// The last `num_rows` rows of an output.
inline std::vector<float> last_of(const std::vector<float>& all, const HeadShape& shape,
                                  int num_rows) {
  return {all.end() - static_cast<std::ptrdiff_t>(shape.q_width()) * num_rows, all.end()};
}

/// Attention in double precision of the part's rows, over V or over |V|. window: how many keys a
/// query sees, its own included; 0 means all of them.
inline std::vector<double> in_double(const HeadShape& shape, const Part& part, bool magnitude,
                                     int window = 0) {
  const Sequence& s = *part.sequence;
  const std::vector<float> q = floats_of(last_rows(s.q, part.num_rows, shape.q_width()));
  const std::vector<float> k = floats_of(s.k);
  std::vector<float> v = floats_of(s.v);
  for (float& x : v) x = magnitude ? std::abs(x) : x;
  const auto dim = static_cast<size_t>(shape.head_dim);
  const int group = shape.num_heads / shape.num_kv_heads;
  std::vector<double> all;
  for (int row = 0; row < part.num_rows; ++row) {
    const int num_keys = s.len - part.num_rows + row + 1;
    const int hidden = window > 0 ? std::max(num_keys - window, 0) : 0;
    for (int head = 0; head < shape.num_heads; ++head) {
      const size_t kv_at =
          static_cast<size_t>(head / group) * dim + static_cast<size_t>(hidden) * shape.kv_width();
      const auto out = naive_attention(&q[all.size()], &k[kv_at], &v[kv_at], num_keys - hidden,
                                       shape.kv_width(), shape.head_dim);
      all.insert(all.end(), out.begin(), out.end());
    }
  }
  return all;
}

/// How far a result may be from attention in double precision: `of_want` of the element itself and
/// `of_magnitude` of the attention over |V|.
///
/// fp32 sums over a few hundred keys: a rounding is 2^-24 of the magnitude, and some hundred of
/// them, of either sign, come to about 20: 1e-6. A key too many or too few weighs its p, about
/// 1e-3. On CUDA the output is rounded to bf16, by at most 2^-8 of itself.
struct Tolerance {
  double of_want;
  double of_magnitude;
};
inline Tolerance plain_tolerance(kv::Device device) {
  return {device == kv::Device::kCuda ? 1.01 * 0x1p-8 : 0.0, 2e-5};
}
/// Two kernels, each that far from the truth. The fast one on CUDA also rounds every p to bf16.
inline Tolerance plain_to_fast_tolerance(kv::Device device) {
  const bool cuda = device == kv::Device::kCuda;
  return {cuda ? 2.02 * 0x1p-8 : 0.0, cuda ? 1.01 * 0x1p-8 : 4e-5};
}

/// A NaN is close to nothing.
template <class Float>
void check_close(const std::vector<float>& got, const std::vector<Float>& want,
                 const std::vector<double>& magnitude, const Tolerance& tolerance) {
  REQUIRE(got.size() == want.size());
  double worst = 0.0;  // largest error in units of its bound
  size_t at = 0;       // where it is
  for (size_t i = 0; i < got.size() && worst <= 1.0; ++i) {
    const double wanted = want[i];
    const double bound =
        tolerance.of_want * std::abs(wanted) + tolerance.of_magnitude * magnitude[i];
    const double error = std::abs(double{got[i]} - wanted) / bound;
    if (!(error <= worst)) worst = error, at = i;
  }
  INFO("element ", at, ": found ", got[at], ", wanted ", want[at]);
  CHECK(worst <= 1.0);
}

/// The plain kernel against double precision and against the fast one: every head size and
/// grouping (on the CPU also sizes that no CUDA kernel has), and lengths on both sides of a tile, a
/// block and a group of tiles. `max_rows` of each sequence are queries.
inline void check_plain_attention(const Attend& plain, const Attend& fast, kv::Device device,
                                  int max_rows) {
  const auto check = [&](const HeadShape& shape, const std::vector<int>& lengths) {
    CAPTURE(shape.num_heads);
    CAPTURE(shape.num_kv_heads);
    CAPTURE(shape.head_dim);
    const std::vector<Sequence> sequences = sequences_of(shape, lengths);
    const std::vector<Part> parts = last_tokens_of(sequences, max_rows);
    const Outputs got = plain(shape, parts), other = fast(shape, parts);
    for (size_t i = 0; i < parts.size(); ++i) {
      CAPTURE(lengths[i]);
      const std::vector<double> magnitude = in_double(shape, parts[i], true);
      check_close(got[i], in_double(shape, parts[i], false), magnitude, plain_tolerance(device));
      check_close(got[i], other[i], magnitude, plain_to_fast_tolerance(device));
    }
  };
  for (const int head_dim : {32, 64, 80, 96, 128}) {
    for (const int group : {1, 2, 4, 8}) check({2 * group, 2, head_dim}, {1, 63, 64, 65, 130});
  }
  check({20, 1, 32}, {65, 257});
  for (const int head_dim : {7, 20, 256}) {
    if (device == kv::Device::kCpu) check({4, 2, head_dim}, {1, 64, 130});
  }
  check({3, 1, 64}, {2, 15, 16, 17, 31, 32, 33, 127, 128, 129, 255, 256, 257, 513});
}

/// The first `len` tokens of a sequence.
inline Sequence beginning_of(const HeadShape& shape, Sequence s, int len) {
  s.len = len;
  s.q.resize(static_cast<size_t>(len) * shape.q_width());
  s.k.resize(static_cast<size_t>(len) * shape.kv_width());
  s.v.resize(static_cast<size_t>(len) * shape.kv_width());
  return s;
}

/// A query's result depends on its keys alone: not on its company in the pass, not on what comes
/// after it, not on how many queries come with it (`chunks`: a pass may leave earlier ones out).
/// `after`: what K and V are from token 131 on. The fast kernels on CUDA weigh the rest of a tile
/// with 0, and 0 * NaN is NaN: there it must be a number, as it is in a model that has no NaN.
inline void check_bits_of_a_query(const Attend& attend, bool chunks,
                                  kv::BFloat16 after = kv::BFloat16{0xFFFF}) {
  for (const HeadShape shape : {HeadShape{6, 2, 64}, HeadShape{5, 1, 80}}) {
    CAPTURE(shape.head_dim);
    const Sequence whole(shape, 300, 5), a(shape, 77, 2), b(shape, 333, 3), c(shape, 1, 4);
    const std::vector<float> all = attend(shape, {{&whole, whole.len}})[0];
    const Part part{&whole, whole.len}, of_a{&a, 77}, of_b{&b, 333}, of_c{&c, 1};
    CHECK(same_bits(attend(shape, {part, of_a, of_b})[0], all));
    CHECK(same_bits(attend(shape, {of_a, part, of_c})[1], all));
    CHECK(same_bits(attend(shape, {of_c, of_b, part})[2], all));

    const auto rows_of_all = [&](int begin, int end) {
      const auto at = [&](int row) {
        return all.begin() +
               static_cast<std::ptrdiff_t>(static_cast<size_t>(row) * shape.q_width());
      };
      return std::vector<float>(at(begin), at(end));
    };
    for (const int len : {1, 2, 17, 63, 64, 65, 128, 256, 257, 300}) {
      CAPTURE(len);
      const Sequence start = beginning_of(shape, whole, len);
      for (const int num_rows : {len, 1, 2, 3, 8, 9, 16, 32, 33, 65, 100}) {
        if (num_rows > len || (num_rows < len && !chunks)) continue;
        CAPTURE(num_rows);
        CHECK(same_bits(attend(shape, {{&start, num_rows}})[0], rows_of_all(len - num_rows, len)));
      }
    }
    Sequence other_tail = whole;
    for (Rows* rows : {&other_tail.k, &other_tail.v}) {
      std::fill(rows->begin() + static_cast<std::ptrdiff_t>(131 * shape.kv_width()), rows->end(),
                after);
    }
    std::vector<float> before = attend(shape, {{&other_tail, 300}})[0];
    before.resize(131 * shape.q_width());
    CHECK(same_bits(before, rows_of_all(0, 131)));
  }
}

/// Scores of thousands, of either sign: nothing overflows, and no key but the largest counts.
inline void check_extreme_scores(const Attend& attend) {
  const HeadShape shape{2, 1, 64};
  Sequence s(shape, 40, 9);
  for (kv::BFloat16& x : s.q) x = kv::to_bfloat16(1.0f);
  for (size_t i = 0; i < s.k.size(); ++i) {  // scores of -8e3, -8e3 + 8, ... and +8e3 at token 30
    const auto token = static_cast<float>(i / shape.kv_width());
    s.k[i] = kv::to_bfloat16(token == 30.0f ? 1024.0f : 8.0f * token - 1024.0f);
  }
  const std::vector<float> out = attend(shape, {{&s, s.len}})[0];
  bool right = true;
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t wins = std::min<size_t>(i / shape.q_width(), 30);
    const kv::BFloat16 v = s.v[wins * shape.kv_width() + i % shape.kv_width()];
    right = right && out[i] == kv::to_float(v);
  }
  CHECK(right);
}

/// Checks that each of `others` gives the same bits as `first`, for whole sequences and for the
/// last rows of each, whose numbers `chunks` gives.
inline void check_equal_bits(const Attend& first, const std::vector<Attend>& others,
                             const std::vector<std::vector<int>>& chunks = {}) {
  for (const HeadShape shape : {HeadShape{4, 2, 128}, HeadShape{5, 1, 80}}) {
    const Sequence a(shape, 70, 1), b(shape, 259, 2), c(shape, 16, 3);
    std::vector<Part> parts{{&a, a.len}, {&b, b.len}, {&c, c.len}};
    const Outputs want = first(shape, parts);
    for (size_t pass = 0; pass <= chunks.size(); ++pass) {
      CAPTURE(pass);
      for (size_t i = 0; pass > 0 && i < 3; ++i) parts[i].num_rows = chunks[pass - 1][i];
      for (size_t other = 0; other < others.size(); ++other) {
        CAPTURE(other);
        const Outputs got = others[other](shape, parts);
        for (size_t i = 0; i < parts.size(); ++i) {
          CHECK(same_bits(got[i], {want[i].end() - std::ssize(got[i]), want[i].end()}));
        }
      }
    }
  }
}

}  // namespace kvtest
