// What all pools do together: flush, restart, forget, refuse.

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "lessons/06_prefix_hashing/program/hashers.h"
#include "symbolic_tiers.h"

namespace lesson11 {

TEST_CASE("a flush brings down what finds room, the lowest pool first") {
  SUBCASE("what the host holds is not overwritten before it is in the file") {
    Tiers t({.device = 2, .host = 2, .file = 8, .options = {.sink_ahead = 0}});
    t.run(1, t.prompt(0, 8));
    t.manager().flush();
    REQUIRE(t.manager().tier_pool(1).num_cached() == 2);
    t.run(2, t.prompt(1, 8));
    t.manager().flush();
    t.run(3, t.prompt(2, 8));
    t.manager().flush();
    CHECK(t.manager().tier_pool(1).num_cached() == 6);
    CHECK(t.manager().tier_metrics(0).num_sunk == 6);  // each block once
    CHECK(t.manager().tier_metrics(1).num_sunk == 6);
  }
  SUBCASE("also if it came there by itself") {
    Tiers t({.device = 2, .host = 2, .file = 8});
    t.run(1, t.prompt(0, 8));
    t.manager().sink();  // to the host only
    t.run(2, t.prompt(1, 8));
    t.manager().flush();
    CHECK(t.manager().tier_pool(1).num_cached() == 4);
  }
  SUBCASE("where there is little room, what was used last") {
    Tiers t({.device = 4, .host = 2});
    t.run(1, t.prompt(0, 8));
    t.run(2, t.prompt(1, 8));
    t.compute(3, t.prompt(2, 3));  // holds a block, and leaves it to nobody
    t.manager().free(3);           // it is empty, and the last of the queue
    t.manager().flush();
    t.run(4, t.prompt(3, 16));
    CHECK(sizes(t.look_up(t.prompt(1, 9))) == Sizes{0, 2});
  }
  SUBCASE("but not what somebody holds") {
    Tiers t({.device = 4, .host = 4});
    t.compute(1, t.prompt(0, 8));
    t.manager().flush();
    CHECK(t.manager().tier_metrics(0).num_sunk == 0);
  }
}

TEST_CASE("a prefix keeps its number, so what comes after it is found") {
  Tiers t({.device = 2, .host = 4});
  t.run(1, t.prompt(0, 8));
  t.sink_all();
  t.run(2, t.prompt(1, 8));
  SUBCASE("the first block is loaded") { t.load(3, t.prompt(0, 5)); }
  SUBCASE("the first block is computed again") { t.compute(3, t.prompt(0, 4)); }
  CHECK(sizes(t.look_up(t.prompt(0, 9))) == Sizes{4, 1});
  t.manager().free(3);
  t.load(4, t.prompt(0, 9));
  CHECK(t.contents(4) == t.kv_of(t.prompt(0, 8)));
}

TEST_CASE("after a restart the file is found, and new prefixes have other numbers") {
  const TierSizes all_collide{
      .device = 2, .host = 2, .file = 4, .cache = {.hasher = lesson06::narrow_hasher(0)}};
  Tiers t(all_collide);
  t.run(1, t.prompt(0, 8));
  t.manager().flush();
  t.restart();
  const FoundBlocks found = t.look_up(t.prompt(0, 9));
  REQUIRE(tiers_of(found) == std::vector{1, 1});
  SUBCASE("it is loaded") {
    t.manager().fetch(found);
    t.finish_all();
    t.load(2, t.prompt(0, 9));
    CHECK(t.contents(2) == t.kv_of(t.prompt(0, 8)));
  }
  SUBCASE("nobody goes on in another prefix's tail") {
    t.damage(1, found.below[0].id);
    t.manager().fetch(found);
    t.finish_all();
    CHECK(sizes(t.look_up(t.prompt(0, 9))) == Sizes{0, 0});
    Tokens other = t.prompt(1, 4);
    t.run(3, other);
    const Tokens tail = t.prompt(0, 9);
    other.insert(other.end(), tail.begin() + 4, tail.end());
    CHECK(sizes(t.look_up(other)) == Sizes{4, 0});
  }
}

TEST_CASE("a manager that goes waits for what is on its way to the file") {
  Tiers t({.device = 2, .host = 2, .file = 4});
  t.run(1, t.prompt(0, 8));
  t.sink_all();
  t.manager().sink();
  t.restart();
  t.manager().fetch(t.look_up(t.prompt(0, 9)));
  t.finish_all();
  t.load(2, t.prompt(0, 9));
  CHECK(t.contents(2) == t.kv_of(t.prompt(0, 8)));
}

TEST_CASE("blocks with other keys are other blocks") {
  Tiers t({.device = 2, .host = 4, .cache = {.hasher = lesson06::narrow_hasher(0)}});
  t.run(1, t.prompt(0, 8), 1);
  t.sink_all();
  t.run(2, t.prompt(1, 8));
  CHECK(sizes(t.look_up(t.prompt(0, 9))) == Sizes{0, 0});
  CHECK(sizes(t.look_up(t.prompt(0, 9), 2)) == Sizes{0, 0});
  CHECK(sizes(t.look_up(t.prompt(0, 9), 1)) == Sizes{0, 2});
  t.load(3, t.prompt(0, 9), 1);
  CHECK(t.contents(3) == t.kv_of(t.prompt(0, 8), 1));
}

TEST_CASE("a reset forgets what all pools hold") {
  Tiers t({.device = 3, .host = 2, .file = 4});
  t.run(1, t.prompt(0, 8));
  t.sink_all();
  t.manager().sink();
  t.compute(2, t.prompt(0, 5));
  CHECK_FALSE(t.manager().reset_prefix_cache());
  CHECK(sizes(t.look_up(t.prompt(0, 9))) == Sizes{8, 0});
  CHECK_FALSE(t.transfers(1).has_forgotten);
  t.manager().free(2);
  CHECK(t.manager().reset_prefix_cache());  // and waits for what is on its way to the file
  CHECK(sizes(t.look_up(t.prompt(0, 9))) == Sizes{0, 0});
  CHECK(t.manager().tier_pool(0).num_cached() == 0);
  CHECK(t.manager().tier_pool(1).num_cached() == 0);
  CHECK(t.transfers(1).has_forgotten);
  t.manager().check_tiers();
}

TEST_CASE("without caching nothing sinks, and nothing is found") {
  Tiers t({.device = 2, .host = 2, .cache = {.caching = false}});
  t.run(1, t.prompt(0, 8));
  t.sink_all();
  CHECK(t.manager().tier_metrics(0).num_sunk == 0);
  CHECK(sizes(t.look_up(t.prompt(0, 9))) == Sizes{0, 0});
}

TEST_CASE("transfers that refuse a batch: no block is lost, and no request holds one") {
  Tiers t({.device = 2, .host = 2, .file = 4});
  t.run(1, t.prompt(0, 8));
  t.transfers(0).refuses = true;
  CHECK_THROWS_AS(t.manager().sink(), std::runtime_error);
  t.manager().check_tiers();
  CHECK(t.manager().tier_pool(0).num_cached() == 0);
  t.transfers(0).refuses = false;
  t.sink_all();
  t.sink_all();
  t.run(2, t.prompt(1, 8));
  t.transfers(0).refuses = true;
  CHECK_THROWS_AS(t.manager().load(3, t.look_up(t.prompt(0, 9))), std::runtime_error);
  CHECK_FALSE(t.manager().holds(3));
  t.manager().check_tiers();
  t.transfers(0).refuses = false;
  t.load(3, t.prompt(0, 9));
  CHECK(t.contents(3) == t.kv_of(t.prompt(0, 8)));
  t.manager().free(3);
  t.run(4, t.prompt(2, 8));
  t.sink_all();
  const FoundBlocks found = t.look_up(t.prompt(0, 9));
  REQUIRE(tiers_of(found) == std::vector{1, 1});
  t.transfers(1).refuses = true;
  CHECK_THROWS_AS(t.manager().fetch(found), std::runtime_error);
  t.manager().check_tiers();
  CHECK(t.look_up(t.prompt(0, 9)).below == found.below);
}

TEST_CASE("a wait for a move is a wait for the oldest copies of one tier") {
  Tiers t({.device = 4, .host = 4, .file = 4});
  t.manager().wait_for_a_move();  // there is none
  t.run(1, t.prompt(0, 8));
  t.manager().sink();
  t.run(2, t.prompt(1, 8));
  t.manager().sink();
  CHECK(t.manager().moves(0).size() == 2);
  t.manager().wait_for_a_move();
  t.manager().finish_moves();
  CHECK(t.manager().moves(0).size() == 1);
}

TEST_CASE("tiers that make no sense are refused") {
  BlockPool device(4, 4);
  CHECK_THROWS_WITH_AS(TieredManager(device, {}), doctest::Contains("no tier"),
                       std::invalid_argument);
  std::vector<Tier> tiers(1);
  tiers[0].pool = std::make_unique<BlockPool>(4, 8);
  CHECK_THROWS_WITH_AS(TieredManager(device, std::move(tiers)),
                       doctest::Contains("blocks of 4 tokens above blocks of 8"),
                       std::invalid_argument);
}

TEST_CASE("hashes that collide change no answer") {
  const auto answers = [](int bits) {
    Tiers t({.device = 4,
             .host = 5,
             .file = 7,
             .block_size = 2,
             .cache = {.hasher = lesson06::narrow_hasher(bits)}});
    kvtest::Random random(1);
    std::vector<FoundBlocks> all;
    for (int64_t id = 0; id < 400; ++id) {
      Tokens tokens(static_cast<size_t>(1 + random.below(8)));
      for (int32_t& token : tokens) token = random.below(2);
      all.push_back(t.look_up(tokens));
      t.manager().fetch(all.back());
      t.run(id, tokens);
      t.manager().sink();
      t.copies(0).step(random.below(4));
      t.copies(1).step(random.below(3));
      t.manager().finish_moves();
      t.manager().check_tiers();
    }
    std::vector<std::pair<Tokens, std::vector<TierBlock>>> told;
    for (const FoundBlocks& found : all) told.emplace_back(found.computed.block_ids, found.below);
    return told;
  };
  const auto with_64 = answers(64);
  CHECK(with_64 == answers(3));
  CHECK(std::ranges::count_if(with_64, [](const auto& found) { return !found.second.empty(); }) >
        20);
}

}  // namespace lesson11
