// Tests of lesson 07's engine: what is found, revived, evicted and computed again changes no bit.

#include "engine.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "lessons/02_flat_cache/engine.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "lessons/04_paged_attention/paged_cache_attention.h"
#include "lessons/06_prefix_hashing/cli/hashers.h"
#include "poison.h"
#include "poisoned_pool.h"
#include "tests/support/same_bits.h"
#include "tests/support/shipped_model.h"

namespace {

using kvtest::check_equal;
using kvtest::shipped_model;
using kvtest::with_system_prompt;

kv::GenerateResult flat(std::vector<kv::Request> requests) {
  return lesson02::make_engine(shipped_model(), {})->generate(requests);
}

}  // namespace

TEST_CASE(
    "found, revived, evicted, computed again: the bits of lesson 02, and no row of NaN is read") {
  for (const int hash_bits : {64, 3, 0}) {
    for (const int num_blocks : {8, 12, 64}) {
      CAPTURE(hash_bits);
      CAPTURE(num_blocks);
      lesson07_test::PoisoningEngine engine(shipped_model(),
                                            {.block_size = 8, .num_blocks = num_blocks},
                                            lesson06::narrow_hasher(hash_bits));
      for (int i = 0; i < 12; ++i) {
        CAPTURE(i);
        const kv::Request request = with_system_prompt(24, 5 + i % 3, i % 4);
        check_equal(engine.generate(request), flat({request}));
        engine.manager().check();
      }
      CHECK(engine.manager().pool().num_used() == 0);
    }
  }
}

TEST_CASE("poison fills K and V of the named blocks in all layers, and nothing else") {
  lesson07_test::check_poison({30, 30}, kv::Stream(kv::Device::kCpu));
}

TEST_CASE("poison fills regions of different sizes") {
  lesson07_test::check_poison({30, 30, 16}, kv::Stream(kv::Device::kCpu));
}

TEST_CASE("poison refuses a block that the cache does not have, before anything is written") {
  lesson07_test::check_poison_refuses(kv::Stream(kv::Device::kCpu));
}

TEST_CASE("poison makes a stale read visible") {
  // A poisoned block is read: its rows are NaN, and so are the logits.
  kv::Model& model = shipped_model();
  lesson03::PagedKvCache cache(model.config(), model.stream(), 4, 16);
  lesson03::fill_blocks(cache, 0, model.stream());
  lesson04::PagedCacheAttention attention(model.config(), cache);
  lesson03::BlockTable table(16);
  std::ranges::copy(std::vector<int32_t>{2, 1}, table.extend(20).begin());
  const std::vector<int32_t> stale{2};
  const lesson05::BlockRegions regions = lesson05::regions_of(cache, model.stream());
  lesson07::poison_blocks({.regions = &regions, .block_ids = stale}, model.stream());
  std::vector<int32_t> tokens(20);
  for (int32_t i = 0; i < 20; ++i) tokens[i] = 284 + i;
  attention.set_tables({&table});
  kv::PassRows rows;
  rows.add(0, tokens, 16);  // tokens 0 to 15 count as computed
  const auto logits = model.forward(rows, attention);
  CHECK(std::isnan(logits[0]));
}
