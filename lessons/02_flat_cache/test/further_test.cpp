// The task at the end of lesson 02: five requests share two slabs.

#include <doctest/doctest.h>

#include <vector>

#include "common/todo.h"
#include "engine.h"
#include "lessons/01_no_cache/engine.h"
#include "tests/support/readable.h"
#include "tests/support/same_bits.h"
#include "tests/support/shipped_model.h"

namespace {

using kvtest::request_of;
using kvtest::shipped_model;

constexpr int kMaxSeqLen = 32;

/// Prompts of 4 tokens; 5, 2, 3, 1 and 4 tokens are wanted.
std::vector<kv::Request> five_requests() {
  std::vector<kv::Request> requests;
  for (const int tokens : {5, 2, 3, 1, 4}) {
    requests.push_back(request_of(4, tokens, static_cast<int>(requests.size())));
  }
  return requests;
}

/// Runs `check` on an engine with num_slabs slabs.
template <class FlatCacheEngine, class Check>
void with_slabs(int num_slabs, const Check& check) {
  if constexpr (requires(FlatCacheEngine & engine) { engine.set_num_slabs(2); }) {
    INFO(num_slabs, " slabs");
    FlatCacheEngine engine(shipped_model(), {.max_seq_len = kMaxSeqLen});
    engine.set_num_slabs(num_slabs);
    check(engine);
  } else {
    KV_TODO("give FlatCacheEngine a void set_num_slabs(int)");
  }
}

}  // namespace

TEST_CASE("further: every request has its bits, whoever had the slab before") {
  const auto requests = five_requests();
  const auto wanted = lesson01::make_engine(shipped_model(), {})->generate(requests);
  for (const int num_slabs : {1, 2, 3, 5, 0}) {
    with_slabs<lesson02::FlatCacheEngine>(num_slabs, [&](auto& engine) {
      kvtest::check_equal(engine.generate(requests), wanted);
      kvtest::check_equal(engine.generate(requests), wanted);  // in slabs that were used
    });
  }
}

TEST_CASE("further: a slab goes to the next request when its own has ended") {
  with_slabs<lesson02::FlatCacheEngine>(2, [&](auto& engine) {
    const auto result = engine.generate(five_requests());
    std::vector<int> rows;
    for (const kv::PassCost& pass : result.passes) rows.push_back(pass.rows);
    // Requests 0 and 1 begin; 2 follows 1 in pass 3, 3 follows 0 or 2 in pass 6, and so does 4.
    CHECK(rows == std::vector<int>{4 + 4, 1 + 1, 1 + 4, 1 + 1, 1 + 1, 4 + 4, 1, 1, 1});
  });
}

TEST_CASE("further: two slabs are reserved, however many requests there are") {
  const int64_t slab = kMaxSeqLen * shipped_model().config().kv_bytes_per_token(4);
  for (const int num_slabs : {2, 3}) {
    with_slabs<lesson02::FlatCacheEngine>(num_slabs, [&](auto& engine) {
      CHECK(engine.generate(five_requests()).counters.kv_bytes_reserved == num_slabs * slab);
    });
  }
  with_slabs<lesson02::FlatCacheEngine>(0, [&](auto& engine) {
    CHECK(engine.generate(five_requests()).counters.kv_bytes_reserved == 5 * slab);
  });
}
