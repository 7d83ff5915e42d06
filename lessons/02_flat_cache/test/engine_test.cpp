// Tests of lesson 02's engine: the same bits as lesson 01, each token once, and nothing half done.

#include <doctest/doctest.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/parallel.h"
#include "engine.h"
#include "lessons/01_no_cache/engine.h"
#include "tests/support/same_bits.h"
#include "tests/support/shipped_model.h"

namespace {

using kvtest::request_of;
using kvtest::shipped_model;

kv::GenerateResult run_01(const std::vector<kv::Request>& requests) {
  return lesson01::make_engine(shipped_model(), {})->generate(requests);
}
kv::GenerateResult run_02(const std::vector<kv::Request>& requests, int max_seq_len = 0) {
  return lesson02::make_engine(shipped_model(), {.max_seq_len = max_seq_len})->generate(requests);
}

}  // namespace

TEST_CASE("the engine gives lesson 01's bits, on fast and on plain kernels") {
  // Prompts and ends on both sides of a tile (64) and of a group (256).
  const std::vector<kv::Request> requests{
      request_of(1, 70, 1),  request_of(63, 3, 2),  request_of(64, 2, 3), request_of(60, 10, 4),
      request_of(250, 9, 5), request_of(257, 1, 6), request_of(5, 0, 7)};
  const std::vector<std::pair<kv::Kernel, std::vector<int>>> limits{
      {kv::Kernel::kPlain, {0}}, {kv::Kernel::kFast, {0, 258, 1000}}};
  for (const auto& [kernel, max_seq_lens] : limits) {
    shipped_model().set_kernel(kernel);
    const auto without = run_01(requests);
    for (const int max_seq_len : max_seq_lens) {
      CAPTURE(max_seq_len);
      kvtest::check_equal(run_02(requests, max_seq_len), without);
    }
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
    CHECK_THROWS_WITH_AS(run_02({request_of(prompt, fits + 1)}, 40),
                         doctest::Contains("room for 41 tokens, but --max-seq-len is 40"),
                         kv::UserError);
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
    const auto logits = model.forward(rows, with);
    attention.end_pass(rows);
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
    for (const auto& [slab, num_rows] : rows_of_slabs) {
      const int computed = cache.position(slab);
      const std::vector<int32_t> tokens(computed + num_rows);
      rows.add(slab, tokens, computed);
    }
    arrays.begin(rows);
    attention.begin_pass(rows, arrays);
    arrays.upload();
    attention.end_pass(rows);
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
