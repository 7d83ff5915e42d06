// Every allocation of the last lesson's engine fails, each in its turn.

#include "tests/faults/faults.h"

#include "lessons/09_lookahead/test/looked_ahead.h"
#include "lessons/10_windows/engine.h"
#include "lessons/12_file_tier/engine.h"
#include "lessons/13_shared_tier/cli/memory_store.h"
#include "lessons/13_shared_tier/engine.h"
#include "lessons/14_fp8_pages/engine.h"
#include "tests/support/windowed_model.h"

TEST_CASE("each allocation fails once: no block is lost, and the next answer is right") {
  for (const bool warm : {false, true}) {
    const int64_t calls = kvtest::fail_each(kvtest::shipped_model(), false, warm);
    MESSAGE(calls << " allocations");
    CHECK(calls > 50);
  }
}

TEST_CASE("each allocation fails and so do all after it: cleaning up needs none") {
  for (const bool warm : {false, true}) {
    CHECK(kvtest::fail_each(kvtest::shipped_model(), true, warm) > 50);
  }
}

TEST_CASE("a model that has not run yet fails in its first pass") {
  kvtest::fail_in_first_passes(kv::Device::kCpu, 17);
}

TEST_CASE("each allocation fails while guesses are taken, judged and rewound") {
  using Oracle = lesson09_test::Oracle;
  kv::Model& model = kvtest::shipped_model();
  const auto requests = kvtest::few_requests();
  const auto known = lesson02::make_engine(model, {})->generate(requests);
  const auto guessing_engine = [&](kv::Model& its_model) {
    return std::make_unique<lesson09::LookaheadEngine>(
        its_model, lesson03::PagedOptions{.block_size = 8, .num_blocks = 4},
        lesson08::ServeOptions{.scheduler = {.max_tokens_per_pass = 24}},
        lesson09::LookaheadOptions{.num_guesses = 2},
        std::make_unique<Oracle>(Oracle::Kind::kMixed, requests, known));
  };
  for (const bool and_all_later : {false, true}) {
    CHECK(kvtest::fail_each(model, and_all_later, true, guessing_engine) > 50);
  }
}

TEST_CASE("each allocation fails while layers forget, and hits are looked for in all groups") {
  const kvtest::WindowedModel windowed(6);
  kv::Model model = kv::Model::load(windowed.folder(), kv::Device::kCpu);
  const auto engine_with_groups = [](kv::Model& its_model) {
    return std::make_unique<lesson10::WindowsEngine>(
        its_model, lesson03::PagedOptions{.block_size = 8, .num_blocks = 12},
        lesson08::ServeOptions{.scheduler = {.max_tokens_per_pass = 12}});
  };
  for (const bool and_all_later : {false, true}) {
    CHECK(kvtest::fail_each(model, and_all_later, true, engine_with_groups) > 50);
  }
}

TEST_CASE("each allocation fails while blocks are offloaded and loaded") {
  kv::Model& model = kvtest::shipped_model();
  const lesson03::PagedOptions paged{.block_size = 8, .num_blocks = 4};
  const lesson08::ServeOptions serve{.scheduler = {.max_tokens_per_pass = 12}};
  const lesson11::HostTierOptions host{.policy = lesson11::LoadPolicy::kAlways};
  const auto with_checksums = [&](kv::Model& its_model) {
    auto engine = std::make_unique<lesson12::FileTierEngine>(
        its_model, paged, serve, lesson12::FileTierOptions{.host = host});
    engine->generate(kvtest::few_requests());
    const kv::Request other = kvtest::request_of(24, 4, 9);  // evicts them, so the next ones load
    engine->generate({&other, 1});
    return engine;
  };
  for (const bool and_all_later : {false, true}) {
    CHECK(kvtest::fail_each(model, and_all_later, false, with_checksums) > 50);
  }
}

TEST_CASE("each allocation fails while blocks go to a store and come back") {
  kv::Model& model = kvtest::shipped_model();
  const lesson03::PagedOptions paged{.block_size = 8, .num_blocks = 4};
  const lesson08::ServeOptions serve{.scheduler = {.max_tokens_per_pass = 12}};
  const lesson13::SharedTierOptions tier{.policy = lesson11::LoadPolicy::kAlways,
                                         .run = kv::RunJobs::kAtOnce};
  lesson13::MemoryStore store;
  const auto with_store = [&](kv::Model& its_model) {
    return std::make_unique<lesson13::SharedTierEngine>(its_model, paged, store, serve, tier);
  };
  for (const bool and_all_later : {false, true}) {
    CHECK(kvtest::fail_each(model, and_all_later, true, with_store) > 50);
  }
}

TEST_CASE("each allocation fails while K and V are written in FP8") {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCpu);
  model.set_kv_format(kv::KvFormat::kFp8);
  const auto with_fp8 = [](kv::Model& its_model) {
    return std::make_unique<lesson14::Fp8Engine>(
        its_model, lesson03::PagedOptions{.block_size = 8, .num_blocks = 3},
        lesson08::ServeOptions{.scheduler = {.max_tokens_per_pass = 12}});
  };
  for (const bool and_all_later : {false, true}) {
    CHECK(kvtest::fail_each(model, and_all_later, true, with_fp8) > 50);
  }
}
