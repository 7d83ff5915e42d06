// Lesson 04's kernels on CUDA: what attention_test.cpp says of the CPU's.

#include "common/base/device.h"

constexpr auto kDevice = kv::Device::kCuda;
#include "attention_cases.h"
#include "engine.h"
#include "fast.h"
#include "kernels/attention/plan.h"
#include "tests/support/same_bits.h"

TEST_CASE("a bound of much work makes the plan stream, a small one spread") {
  const HeadShape shape{16, 2, 80};
  const Sequence s(shape, 300, 1);
  for (const int bound : {0, kMuchWork}) {
    const Pass pass(shape, {{&s, 1}}, {.seq_len_bound = bound}, kDevice);
    const kv::attention::Plan plan(kv::attention::queries_of(pass.args));
    using Path = kv::attention::Plan::Path;
    CHECK(plan.path == (bound == 0 ? Path::kSpread : Path::kStream));
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
    const Outputs want = wanted(kFast, shape, parts);
    for (const Run& run : {kFast, Run{kv::Kernel::kFast, kDevice, kMuchWork}}) {
      for (const uint64_t seed : {1u, 2u}) {
        check_bits(run.attend({.shuffle = seed})(shape, parts), want);
      }
    }
  }
  kvtest::check_bits_of_a_query(kPlain.attend(), /*chunks=*/true);
}

TEST_CASE("what the kernels do not serve is refused by name") {
  const HeadShape shape{16, 8, 128};
  const Sequence s(shape, 700, 1);
  Pass pass(shape, {{&s, 1}}, {}, kDevice);
  const kv::Stream stream(kDevice);
  CHECK_THROWS_AS(lesson04::fast_paged_attention_cuda(pass.args, stream), std::logic_error);
  pass.args.cache.head_dim = 72;
  pass.args.max_seq_len = 100;  // one group: no workspace
  CHECK_THROWS_AS(lesson04::fast_paged_attention_cuda(pass.args, stream), kv::UserError);
}

TEST_CASE("the engine gives lesson 03's bits on CUDA in chunks") {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kDevice);
  const std::vector<kv::Request> requests{kvtest::request_of(4, 20), kvtest::request_of(300, 3),
                                          kvtest::request_of(1, 30)};
  const auto gathered = lesson03::make_engine(model, {})->generate(requests);
  for (const int chunk : {0, 1, 48}) {
    CAPTURE(chunk);
    kvtest::check_equal(lesson04::PagedEngine(model, {}, chunk).generate(requests), gathered);
  }
}
