// Every allocation of the last lesson's engine fails, each in its turn.

#include "tests/faults/faults.h"

#include "lessons/09_lookahead/test/looked_ahead.h"
#include "lessons/10_windows/engine.h"
#include "lessons/12_file_tier/engine.h"
#include "lessons/13_shared_tier/cli/memory_store.h"
#include "lessons/13_shared_tier/engine.h"
#include "lessons/14_fp8_pages/engine.h"
#include "tests/support/windowed_model.h"

namespace {

const lesson03::PagedOptions kPaged{.block_size = 8, .num_blocks = 4};
const lesson08::ServeOptions kServe{.scheduler = {.max_tokens_per_pass = 12}};

/// Each allocation fails, alone, and then with all after it: cleaning up needs none.
template <class MakeEngine>
void fail_each_both_ways(kv::Model& model, bool warm, const MakeEngine& make_engine) {
  for (const bool and_all_later : {false, true}) {
    const int64_t calls = kvtest::fail_each(model, and_all_later, warm, make_engine);
    MESSAGE(calls << " allocations");
    CHECK(calls > 50);
  }
}

}  // namespace

TEST_CASE("each allocation fails: no block is lost, and the next answer is right") {
  for (const bool warm : {false, true}) {
    fail_each_both_ways(kvtest::shipped_model(), warm, kvtest::small_engine);
  }
}

TEST_CASE("a model that has not run yet fails in its first pass") {
  kvtest::fail_in_first_passes(kv::Device::kCpu, 17);
}

TEST_CASE("each allocation fails while guesses are taken, judged and rewound") {
  using Oracle = lesson09_test::Oracle;
  const auto requests = kvtest::few_requests();
  const auto known = lesson02::make_engine(kvtest::shipped_model(), {})->generate(requests);
  fail_each_both_ways(kvtest::shipped_model(), true, [&](kv::Model& model) {
    return std::make_unique<lesson09::LookaheadEngine>(
        model, kPaged, lesson08::ServeOptions{.scheduler = {.max_tokens_per_pass = 24}},
        lesson09::LookaheadOptions{.num_guesses = 2},
        std::make_unique<Oracle>(Oracle::Kind::kMixed, requests, known));
  });
}

TEST_CASE("each allocation fails while layers forget, and hits are looked for in all groups") {
  const kvtest::WindowedModel windowed(6);
  kv::Model windowed_model = kv::Model::load(windowed.folder(), kv::Device::kCpu);
  fail_each_both_ways(windowed_model, true, [](kv::Model& model) {
    return std::make_unique<lesson10::WindowsEngine>(
        model, lesson03::PagedOptions{.block_size = 8, .num_blocks = 12}, kServe);
  });
}

TEST_CASE("each allocation fails while blocks are offloaded and loaded") {
  const lesson12::FileTierOptions tier{.host = {.policy = lesson11::LoadPolicy::kAlways}};
  fail_each_both_ways(kvtest::shipped_model(), false, [&](kv::Model& model) {
    auto engine = std::make_unique<lesson12::FileTierEngine>(model, kPaged, kServe, tier);
    engine->generate(kvtest::few_requests());
    const kv::Request other = kvtest::request_of(24, 4, 9);  // evicts them, so the next ones load
    engine->generate({&other, 1});
    return engine;
  });
}

TEST_CASE("each allocation fails while blocks go to a store and come back") {
  const lesson13::SharedTierOptions tier{.policy = lesson11::LoadPolicy::kAlways,
                                         .run = kv::RunJobs::kAtOnce};
  lesson13::MemoryStore store;
  fail_each_both_ways(kvtest::shipped_model(), true, [&](kv::Model& model) {
    return std::make_unique<lesson13::SharedTierEngine>(model, kPaged, store, kServe, tier);
  });
}

TEST_CASE("each allocation fails while K and V are written in FP8") {
  kv::Model fp8_model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCpu);
  fp8_model.set_kv_format(kv::KvFormat::kFp8);
  fail_each_both_ways(fp8_model, true, [](kv::Model& model) {
    return std::make_unique<lesson14::Fp8Engine>(
        model, lesson03::PagedOptions{.block_size = 8, .num_blocks = 3}, kServe);
  });
}
