#pragma once

// Makes one call fail while an engine serves, or every call from then on. After any such fault the
// bookkeeping is sound, every block is free, and the next call gives the right bits.

#include <doctest/doctest.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "lessons/02_flat_cache/engine.h"
#include "lessons/08_scheduler/engine.h"
#include "programs/allocations.h"
#include "tests/support/shipped_model.h"
#include "tests/support/shortened.h"

namespace kvtest {

/// Two requests that share a prefix, and a pool in which one has to wait for the other or give way.
inline std::vector<kv::Request> few_requests() {
  std::vector<kv::Request> requests{request_of(17, 4), request_of(17, 3)};
  requests[1].prompt.push_back(300);
  return requests;
}

inline std::unique_ptr<lesson08::ServingEngine> small_engine(kv::Model& model) {
  return std::make_unique<lesson08::ServingEngine>(
      model, lesson03::PagedOptions{.block_size = 8, .num_blocks = 4},
      lesson08::ServeOptions{.scheduler = {.max_tokens_per_pass = 12}});
}

/// The n-th failing call, for all n, or for each KV_FAULT_STEP-th. `warm`: the engine has served
/// before. Returns how many calls there were.
template <class MakeEngine = decltype(&small_engine)>
int64_t fail_each(kv::Model& model, bool and_all_later, bool warm,
                  const MakeEngine& make_engine = &small_engine) {
  const auto requests = few_requests();
  const uint64_t wanted =
      kv::combined_digest(lesson02::make_engine(model, {})->generate(requests).completions);
#if defined(KV_SANITIZED)
  constexpr int64_t kStep = 23;  // everything takes twenty times as long
#else
  constexpr int64_t kStep = 1;
#endif
  const int64_t step = number_from("KV_FAULT_STEP", kStep);
  for (int64_t n = 1;; n += step) {
    CAPTURE(n);
    CAPTURE(and_all_later);
    CAPTURE(warm);
    const auto engine = make_engine(model);
    if (warm) engine->generate(requests);
    std::string error;
    bool done = false;
    kv::fail_allocation(n, and_all_later);
    try {
      done = kv::combined_digest(engine->generate(requests).completions) == wanted;
    } catch (const std::exception& e) {
      kv::fail_allocation(0);
      error = e.what();
    }
    const bool failed = kv::allocation_failed() || !error.empty();
    kv::fail_allocation(0);
    REQUIRE((done || !error.empty()));  // an answer is right, or there is none
    if (const auto* manager = engine->manager()) {
      manager->check();
      REQUIRE(manager->pool().num_used() == 0);
    }
    if (!failed) return n - 1;
    const auto again = engine->generate(requests);
    REQUIRE(kv::combined_digest(again.completions) == wanted);
  }
}

/// The same with a model that has never run, for every step-th call: its buffers are made in the
/// first pass, and on CUDA its kernels are launched one by one, captured, and replayed.
inline void fail_in_first_passes(kv::Device device, int64_t step) {
  const auto requests = few_requests();
  const auto load = [device] { return kv::Model::load(KV_SOURCE_DIR "/models/tiny", device); };
  kv::Model right = load();
  const uint64_t wanted =
      kv::combined_digest(lesson02::make_engine(right, {})->generate(requests).completions);
  int64_t n = 1;
  for (bool failed = true; failed; n += step) {
    CAPTURE(n);
    kv::Model model = load();
    const auto engine = small_engine(model);
    kv::fail_allocation(n);
    try {
      engine->generate(requests);
    } catch (const std::exception&) {  // it may also find another way, as a stable sort does
    }
    failed = kv::allocation_failed();
    kv::fail_allocation(0);
    REQUIRE(kv::combined_digest(engine->generate(requests).completions) == wanted);
    REQUIRE(kv::combined_digest(engine->generate(requests).completions) == wanted);
  }
  MESSAGE(n << " calls in the first passes");
  CHECK(n > 300);
}

}  // namespace kvtest
