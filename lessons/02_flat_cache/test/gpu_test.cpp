// Lesson 02 on CUDA.

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "engine.h"
#include "lessons/01_no_cache/engine.h"

constexpr auto kDevice = kv::Device::kCuda;
#include "attention_cases.h"

using kvtest::HeadShape;
using kvtest::Part;
using kvtest::Sequence;

TEST_CASE("append_kv on CUDA refuses rows that are not whole words of 16 bytes") {
  const kv::Stream stream(kDevice);
  CHECK_THROWS_WITH_AS(
      lesson02::append_kv({.num_rows = 1, .row_elements = 12}, stream),
      "copying K and V on CUDA: found 12 elements in a piece, wanted a multiple of 8",
      std::invalid_argument);
}

TEST_CASE("a full chip streams groups of keys and gives the same bits") {
  const HeadShape shape{16, 8, 128};
  const Sequence s(shape, 1300, 8);
  const std::vector<float> all = lesson01_test::attend_with(kFast, kDevice)(shape, {{&s, 1300}})[0];
  const std::vector<float> want(all.end() - 3 * std::ssize(all) / 1300, all.end());
  for (const size_t copies : {1u, 7u, 40u}) {  // 48, 336 and 1,920 CTAs
    CAPTURE(copies);
    const std::vector<Part> parts(copies, {&s, 3});
    const auto attend = attend_with(kFast, kDevice, {.runs = 2});
    for (const auto& got : attend(shape, parts)) CHECK(kvtest::same_bits(got, want));
  }
}

TEST_CASE("a slab past the first 2^31 elements is written and read where it is") {
  const HeadShape shape{4, 2, 128};
  const Sequence s(shape, 300, 9);
  const int64_t far_away = (int64_t{1} << 31) / static_cast<int64_t>(shape.kv_width()) + 1000;
  for (const int num_rows : {1, 300}) {
    const auto at = [&](int64_t first_slot) {
      return attend_with(kFast, kDevice, {.first_slot = first_slot})(shape, {{&s, num_rows}})[0];
    };
    CHECK(kvtest::same_bits(at(far_away), at(0)));
  }
}

TEST_CASE("a context of two groups without a workspace is refused") {
  const kv::Stream stream(kDevice);
  const lesson02::DecodeAttentionArgs args{.num_seqs = 1,
                                           .num_rows = 1,
                                           .max_rows_per_seq = 1,
                                           .max_seq_len = 257,
                                           .num_heads = 1,
                                           .num_kv_heads = 1,
                                           .head_dim = 128};
  CHECK_THROWS_AS(lesson02::fast_decode_attention(args, stream), std::logic_error);
}

TEST_CASE("steps replayed from a graph have the bits of a run without a cache" *
          doctest::test_suite("sweep")) {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kDevice);
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
