// Tests of lesson 02's attention and engine: the same bits as lesson 01, whatever the cache holds.

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/parallel.h"
#include "decode_attention.h"
#include "engine.h"
#include "flat_attention.h"
#include "lessons/01_no_cache/engine.h"
#include "tests/support/naive_attention.h"
#include "tests/support/shipped_model.h"

namespace {

using kvtest::random_floats;
using kvtest::request_of;
using kvtest::shipped_model;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// A flat cache of one layer with sequences of random K and V in it, and queries for all tokens.
struct CacheCase {
  static constexpr int kHeads = 6, kKvHeads = 3, kHeadDim = 24, kMaxSeqLen = 330;

  CacheCase(std::vector<int> lens, float unused, uint64_t seed) : seq_len(lens) {
    std::mt19937_64 rng(seed);
    for (size_t i = 0; i < lens.size(); ++i) {
      const auto tokens = static_cast<size_t>(lens[i]);
      q.push_back(random_floats(rng, tokens * kHeads * kHeadDim));
      for (auto* cache : {&k, &v}) {
        const std::vector<float> rows = random_floats(rng, tokens * kKvHeads * kHeadDim);
        cache->insert(cache->end(), rows.begin(), rows.end());
        cache->resize((i + 1) * kMaxSeqLen * kKvHeads * kHeadDim, unused);
      }
    }
  }

  /// Attention of the last `rows[i]` tokens of sequence i, for the sequences named by `which`.
  std::vector<std::vector<float>> run(std::vector<size_t> which, std::vector<int> rows,
                                      int max_seq_len = kMaxSeqLen) const {
    std::vector<float> queries;
    std::vector<int32_t> first_row{0}, lens;
    std::vector<int64_t> slab_begin;
    for (size_t i = 0; i < which.size(); ++i) {
      const size_t elements = static_cast<size_t>(rows[i]) * kHeads * kHeadDim;
      queries.insert(queries.end(), q[which[i]].end() - static_cast<std::ptrdiff_t>(elements),
                     q[which[i]].end());
      first_row.push_back(first_row.back() + rows[i]);
      lens.push_back(seq_len[which[i]]);
      slab_begin.push_back(static_cast<int64_t>(which[i]) * kMaxSeqLen);
    }
    std::vector<float> out(queries.size(), kNaN);
    lesson02::DecodeAttentionArgs args;
    args.q = queries.data(), args.k_cache = k.data(), args.v_cache = v.data();
    args.out = out.data();
    args.first_row = first_row.data(), args.seq_len = lens.data();
    args.slab_begin = slab_begin.data();
    args.num_seqs = static_cast<int>(which.size()), args.num_rows = first_row.back();
    args.max_rows_per_seq = *std::max_element(rows.begin(), rows.end());
    args.max_seq_len = max_seq_len;
    args.num_heads = kHeads, args.num_kv_heads = kKvHeads, args.head_dim = kHeadDim;
    lesson02::fast_decode_attention_cpu(args);

    std::vector<std::vector<float>> per_sequence;
    for (size_t i = 0; i < which.size(); ++i) {
      const auto at = [&](size_t seq) { return out.begin() + first_row[seq] * kHeads * kHeadDim; };
      per_sequence.emplace_back(at(i), at(i + 1));
    }
    return per_sequence;
  }

  std::vector<int> seq_len;
  std::vector<std::vector<float>> q;  // per sequence: [tokens, heads, head_dim]
  std::vector<float> k, v;            // [sequences, kMaxSeqLen, KV heads, head_dim]
};

/// The last token's output.
std::vector<float> last_row(const std::vector<float>& rows) {
  return {rows.end() - CacheCase::kHeads * CacheCase::kHeadDim, rows.end()};
}

kv::GenerateResult run_01(const std::vector<kv::Request>& requests) {
  return lesson01::make_engine(shipped_model(), {})->generate(requests);
}
kv::GenerateResult run_02(const std::vector<kv::Request>& requests, int max_seq_len = 0) {
  return lesson02::make_engine(shipped_model(), {.max_seq_len = max_seq_len})->generate(requests);
}

}  // namespace

TEST_CASE("attention over the cache is the textbook's") {
  constexpr double kTolerance = 2e-6;  // as in lesson 01's test
  const CacheCase cache({1, 64, 65, 257, 330}, kNaN, 1);
  constexpr size_t kDim = CacheCase::kHeadDim, kStride = CacheCase::kKvHeads * kDim;
  for (size_t seq = 0; seq < cache.seq_len.size(); ++seq) {
    const std::vector<float> out = last_row(cache.run({seq}, {1})[0]);
    const std::vector<float> q = last_row(cache.q[seq]);
    for (size_t head = 0; head < CacheCase::kHeads; ++head) {
      const size_t at = seq * CacheCase::kMaxSeqLen * kStride + head / 2 * kDim;
      const auto wanted = kvtest::naive_attention(&q[head * kDim], &cache.k[at], &cache.v[at],
                                                  cache.seq_len[seq], kStride, CacheCase::kHeadDim);
      CHECK(kvtest::max_error({&out[head * kDim], kDim}, wanted) <= kTolerance);
    }
  }
}

TEST_CASE("any batch and any number of query rows give the same bits") {
  const CacheCase cache({1, 2, 63, 64, 65, 255, 256, 257, 330}, 0.0f, 2);
  std::map<size_t, std::vector<float>> alone;
  for (size_t i = 0; i < cache.seq_len.size(); ++i) alone[i] = cache.run({i}, {1})[0];
  std::mt19937 rng(3);
  std::vector<size_t> order{0, 1, 2, 3, 4, 5, 6, 7, 8};
  for (int round = 0; round < 12; ++round) {
    std::shuffle(order.begin(), order.end(), rng);
    const std::vector<size_t> which(order.begin(), order.begin() + 1 + round % 9);
    std::vector<int> rows;
    for (const size_t i : which) {
      rows.push_back(1 + static_cast<int>(rng() % static_cast<uint32_t>(cache.seq_len[i])));
    }
    const auto together = cache.run(which, rows, CacheCase::kMaxSeqLen + round * 100);
    for (size_t i = 0; i < which.size(); ++i) CHECK(last_row(together[i]) == alone[which[i]]);
  }
}

TEST_CASE("what unused slots hold changes no bit") {
  const std::vector<int> lens{1, 64, 100, 257, 329};
  const std::vector<size_t> which{0, 1, 2, 3, 4};
  const std::vector<int> rows{1, 5, 1, 30, 1};
  const auto zeros = CacheCase(lens, 0.0f, 4).run(which, rows);
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float unused : {kNaN, infinity, -infinity, 3e38f}) {
    CHECK(CacheCase(lens, unused, 4).run(which, rows) == zeros);
  }
}

TEST_CASE("the engine gives lesson 01's bits") {
  // Prompts and ends on both sides of a tile (64) and of a group (256).
  const std::vector<kv::Request> requests{
      request_of(1, 70, 1),  request_of(63, 3, 2),  request_of(64, 2, 3), request_of(60, 10, 4),
      request_of(250, 9, 5), request_of(257, 1, 6), request_of(5, 0, 7)};
  const auto without = run_01(requests);
  for (const int max_seq_len : {0, 258, 1000}) {
    CAPTURE(max_seq_len);
    const auto with = run_02(requests, max_seq_len);
    for (size_t i = 0; i < requests.size(); ++i) {
      CAPTURE(i);
      CHECK(with.completions[i].logits_xxh64 == without.completions[i].logits_xxh64);
      CHECK(with.completions[i].tokens == without.completions[i].tokens);
    }
    CHECK(kv::combined_digest(with.completions) == kv::combined_digest(without.completions));
  }
}

TEST_CASE("the bits are the same alone, with any number of threads, and in a used cache") {
  const std::vector<kv::Request> requests{request_of(9, 6, 1), request_of(130, 4, 2)};
  const auto together = run_02(requests);
  const auto engine = lesson02::make_engine(shipped_model(), {.max_seq_len = 200});
  const int before = kv::num_threads();
  for (const int threads : {1, 3}) {
    kv::set_num_threads(threads);
    for (size_t i = 0; i < requests.size(); ++i) {
      const auto alone = engine->generate({&requests[i], 1});  // slab 0 again and again
      CHECK(alone.completions[0].logits_xxh64 == together.completions[i].logits_xxh64);
    }
  }
  kv::set_num_threads(before);
}

TEST_CASE("each token is computed once") {
  const auto result = run_02({request_of(7, 10), request_of(30, 4), request_of(2, 0)});
  CHECK(result.counters.kv_rows_computed == (7 + 10 - 1) + (30 + 4 - 1));
  CHECK(result.counters.passes == 10);
  std::vector<int> rows;
  for (const kv::PassCost& pass : result.passes) rows.push_back(pass.rows);
  CHECK(rows == std::vector<int>{37, 2, 2, 2, 1, 1, 1, 1, 1, 1});
}

TEST_CASE("a finished sequence keeps its slab to the end of the batch") {
  const int64_t per_token = shipped_model().config().kv_bytes_per_token(4);
  const auto result = run_02({request_of(7, 10), request_of(30, 4)}, 64);
  CHECK(result.counters.kv_bytes_reserved == 2 * 64 * per_token);
  CHECK(result.counters.kv_bytes_used == (16 + 33) * per_token);
}

TEST_CASE("a request longer than max_seq_len is refused with both numbers") {
  for (const int prompt : {1, 9, 40}) {
    const int fits = 40 - prompt + 1;  // the last generated token needs no slot
    CHECK(run_02({request_of(prompt, fits)}, 40).completions[0].tokens.size() ==
          static_cast<size_t>(fits));
    std::string text;
    try {
      run_02({request_of(prompt, fits + 1)}, 40);
    } catch (const kv::UserError& error) {
      text = error.what();
    }
    CHECK(text.find("room for 41 tokens") != std::string::npos);
    CHECK(text.find("max_seq_len is 40") != std::string::npos);
  }
}

TEST_CASE("a pass that stops midway changes nothing that can be seen") {
  struct Stops : kv::Attention {
    explicit Stops(lesson02::FlatAttention& flat) : flat_(&flat) {}
    void begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) override {
      flat_->begin_pass(rows, arrays);
    }
    void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override {
      if (rows.layer == 3) throw std::runtime_error("stopped");
      flat_->forward(rows, stream);
    }
    lesson02::FlatAttention* flat_;
  };
  kv::Model& model = shipped_model();
  lesson02::FlatKvCache cache(model.config(), kv::Device::kCpu, 1, 32);
  lesson02::FlatAttention attention(model.config(), cache);
  const std::vector<int32_t> tokens = request_of(8, 1).prompt;
  const auto pass = [&](int begin, size_t end, kv::Attention& with) {
    kv::PassRows rows;
    rows.add(0, std::span(tokens).first(end), begin);
    attention.set_slabs({0});
    const auto logits = model.forward(rows, with);
    attention.end_pass();
    return std::vector<float>(logits.begin(), logits.end());
  };
  pass(0, 5, attention);
  const std::vector<float> clean = pass(5, 8, attention);

  cache.clear(0);
  pass(0, 5, attention);
  Stops stops(attention);
  CHECK_THROWS_AS(pass(5, 8, stops), std::runtime_error);
  CHECK(cache.position(0) == 5);
  CHECK(pass(5, 8, attention) == clean);
  CHECK(cache.position(0) == 8);
}

TEST_CASE("graphs are replayed for decode steps of one shape only") {
  kv::Model& model = shipped_model();
  lesson02::FlatKvCache cache(model.config(), kv::Device::kCpu, 3, 600);
  lesson02::FlatAttention attention(model.config(), cache);
  kv::PassArrays arrays(model.stream());
  const auto key_of = [&](const std::vector<std::pair<int, int>>& rows_of_slabs) {
    kv::PassRows rows;
    std::vector<int32_t> slabs;
    for (const auto& [slab, num_rows] : rows_of_slabs) {
      const int computed = cache.position(slab);
      rows.add(0, std::vector<int32_t>(static_cast<size_t>(computed + num_rows)), computed);
      slabs.push_back(slab);
    }
    attention.set_slabs(slabs);
    arrays.begin(rows);
    attention.begin_pass(rows, arrays);
    arrays.upload();
    attention.end_pass();
    return arrays.graph_key();
  };
  CHECK_FALSE(key_of({{0, 5}, {1, 1}, {2, 200}}).has_value());
  const auto key = key_of({{0, 1}, {1, 1}, {2, 1}});
  CHECK(key.has_value());
  CHECK(key_of({{0, 1}, {1, 1}, {2, 1}}) == key);  // lengths have changed, the key has not
  CHECK(key_of({{0, 1}, {1, 1}}) != key);          // a sequence has left
  CHECK_FALSE(key_of({{2, 40}}).has_value());
  CHECK(key_of({{0, 1}, {1, 1}, {2, 1}}) == key);  // and has come again
  CHECK_FALSE(key_of({{2, 20}}).has_value());
  CHECK(key_of({{0, 1}, {1, 1}, {2, 1}}) != key);  // a second group of keys: another grid
}

TEST_CASE("a head_dim that no kernel serves is refused by name") {
  kv::ModelConfig config = shipped_model().config();
  config.head_dim = 264;
  lesson02::FlatKvCache cache(config, kv::Device::kCpu, 1, 4);
  std::string text;
  try {
    lesson02::FlatAttention attention(config, cache);
  } catch (const kv::UserError& error) {
    text = error.what();
  }
  CHECK(text.find("head_dim 264") != std::string::npos);
}
