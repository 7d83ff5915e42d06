// The text's further task, once it is begun: TierOptions::eager (tiered_manager.h).

#include "common/base/todo.h"
#include "floors.h"

using namespace lesson11_test;

namespace {

template <class Options>
Options eager(int sink_ahead = 64) {
  if constexpr (requires(Options options) { options.eager = true; }) {
    Options options{.sink_ahead = sink_ahead};
    options.eager = true;
    return options;
  } else {
    KV_TODO("give TierOptions a member eager");
  }
}

/// Request `id` has computed these tokens, and holds them.
void compute(const Floors& f, int64_t id, const Tokens& tokens) {
  const auto num_tokens = static_cast<int>(tokens.size());
  BlockHashes hashes;
  REQUIRE(f.manager->allocate_slots(id, num_tokens));
  f.manager->cache_blocks(id, tokens, hashes, num_tokens);
}

}  // namespace

TEST_CASE("eager: full blocks sink while their request holds them, and once") {
  Floors f({.options = eager<TierOptions>()});
  compute(f, 1, text(0, 18));
  f.manager->sink();
  CHECK(f.moves(0, Way::kDown) == Moves{{4, 1}, {3, 2}, {2, 3}, {1, 4}});
  f.finish(*f.to_host);
  f.manager->check_tiers();
  f.manager->sink();
  CHECK(f.manager->moves(0).empty());
  CHECK(f.manager->tier_metrics(0).num_sunk == 4);
}

TEST_CASE("eager: a tail is still overwritten before its head") {
  Floors f({.options = eager<TierOptions>()});
  compute(f, 1, text(0, 16));
  f.manager->sink();
  f.finish(*f.to_host);
  CHECK(f.queue(*f.host) == Ids{5, 6, 7, 8, 1, 2, 3, 4});  // 4 holds the first tokens
}

TEST_CASE("eager: what the host has already is not copied again") {
  Floors f({.options = eager<TierOptions>()});
  f.put(*f.host, text(0, 8));
  compute(f, 1, text(0, 16));
  f.manager->sink();
  CHECK(f.moves(0, Way::kDown) == Moves{{4, 3}, {3, 4}});
}

TEST_CASE(
    "eager: a block that was full and holds something else now does not sink as what it was") {
  Floors f({.device = 2, .options = eager<TierOptions>(0)});
  compute(f, 1, text(0, 8));
  f.manager->free(1);
  REQUIRE(f.manager->allocate_slots(2, 8));  // takes both, and has computed nothing yet
  f.manager->sink();
  CHECK(f.manager->moves(0).empty());
  CHECK(f.host->num_cached() == 0);
}
