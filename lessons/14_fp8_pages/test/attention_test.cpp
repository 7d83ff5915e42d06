// Attention over FP8 pages on the CPU.

#include <algorithm>

#include "e4m3.h"
#include "kernels/attention/attend.h"
#include "pages.h"

TEST_CASE("attention over FP8 pages has the bits of lesson 04's over rounded rows" *
          doctest::test_suite("sweep")) {
  lesson14_test::check_all_pages(kv::Device::kCpu);
}

namespace {

/// Rows of one KV head: every code but the NaNs in turn, and every scale.
struct Rows {
  Rows(int n, int dim) : head_dim(dim) {
    uint8_t code = 0;
    int exponent = lesson14::kMinExponent;
    for (int i = 0; i < 2 * n; ++i) {  // K and V in turns
      scales.push_back(exponent);
      for (int d = 0; d < dim; ++d) {
        while ((code & 0x7F) == 0x7F) ++code;
        codes.push_back(code);
        values.push_back(lesson14::decode(code, exponent));
        code = static_cast<uint8_t>(code + 1 + d % 3);
      }
      // Mostly near 2^-8, where a head's largest number is 1 or so.
      exponent = i % 5 == 0 ? lesson14::kMinExponent + i % 125 : -10 + i % 4;
    }
  }
  size_t at(int token, bool is_k) const { return 2 * token + !is_k; }

  size_t head_dim;
  std::vector<uint8_t> codes;
  std::vector<float> values;
  std::vector<int> scales;
};

}  // namespace

TEST_CASE("FP8 rows give the bits of their elements in fp32") {
  for (const int head_dim : {1, 15, 16, 17, 32, 63, 64, 80, 128, 144, 256}) {
    CAPTURE(head_dim);
    const Rows rows(321, head_dim);
    const auto widening = [&](int token, bool is_k) {
      return lesson14::power_of_two(120 + rows.scales[rows.at(token, is_k)]);
    };
    const kv::attention::FindFp8Rows find_codes = [&](int first, int n, auto& tile) {
      for (int i = 0; i < n; ++i) {
        tile.k[i] = rows.codes.data() + rows.at(first + i, true) * rows.head_dim;
        tile.v[i] = rows.codes.data() + rows.at(first + i, false) * rows.head_dim;
        tile.widen_k[i] = widening(first + i, true);
        tile.widen_v[i] = widening(first + i, false);
      }
    };
    const kv::attention::FindRows find_values = [&](int first, int n, auto& tile) {
      for (int i = 0; i < n; ++i) {
        tile.k[i] = rows.values.data() + rows.at(first + i, true) * rows.head_dim;
        tile.v[i] = rows.values.data() + rows.at(first + i, false) * rows.head_dim;
      }
    };
    std::vector<float> q(6 * rows.head_dim);
    for (size_t i = 0; i < q.size(); ++i) q[i] = static_cast<float>(i * 37 % 41) / 64 - 0.3f;
    for (const int num_keys : {1, 2, 63, 64, 65, 128, 129, 256, 257, 321}) {
      CAPTURE(num_keys);
      for (const int window : {0, 1, 65, 200}) {
        for (int num_queries = 1; num_queries <= 6; ++num_queries) {
          // The last query sees all keys, the others one less each.
          std::vector<float> wanted(q.size(), -1), found(q.size(), -2), alone(rows.head_dim);
          const auto queries = [&](std::vector<float>& out) {
            std::vector<kv::attention::Query> all;
            for (int i = 0; i < num_queries; ++i) {
              const int sees = std::max(num_keys - (num_queries - 1 - i), 0);
              const size_t at = static_cast<size_t>(i) * rows.head_dim;
              all.push_back({.q = q.data() + at,
                             .out = out.data() + at,
                             .num_keys = sees,
                             .first_key = kv::attention::first_key(std::max(sees - 1, 0), window)});
            }
            return all;
          };
          kv::attention::attend(queries(wanted), find_values, head_dim, 0.25f);
          kv::attention::attend(queries(found), find_codes, head_dim, 0.25f);
          const auto end = static_cast<std::ptrdiff_t>(num_queries) * head_dim;
          CHECK(std::equal(wanted.begin(), wanted.begin() + end, found.begin()));
          // A query gives the same bits by itself as beside others.
          auto last = queries(found).back();
          last.out = alone.data();
          kv::attention::attend({&last, 1}, find_codes, head_dim, 0.25f);
          CHECK(std::equal(alone.begin(), alone.end(), wanted.begin() + end - head_dim));
        }
      }
    }
  }
}

TEST_CASE("an FP8 cache holds what its kernels are told") {
  const kv::Stream stream(kv::Device::kCpu);
  const kv::ModelConfig config = kvtest::shape(3, 2, 64);
  const lesson14::Fp8KvCache cache(config, stream, 5, 16);
  CHECK(cache.bytes_per_token() == 3 * 2 * (2 * 64 + 2));
  CHECK(cache.bytes_per_block() == 16 * cache.bytes_per_token());
  CHECK(cache.bytes_reserved() == 5 * cache.bytes_per_block());
  const auto first = cache.layer(0), second = cache.layer(1);
  CHECK(static_cast<uint8_t*>(second.k) - static_cast<uint8_t*>(first.k) == 5 * 16 * 2 * 64);
  CHECK(second.scales - first.scales == 5 * 16 * 2 * 2);
  // A block of one slot has fewer bytes of scales than a word.
  CHECK(lesson14::Fp8KvCache(config, stream, 2, 1).bytes_per_block() == 3 * (2 * 2 * 64 + 16));
}
