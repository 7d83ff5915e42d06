// The manager's functions one by one, over pools whose blocks are put there by hand.

#include "floors.h"

using namespace lesson11_test;

TEST_CASE("what the device lacks is found in the nearest pool below that has it") {
  Floors f;
  f.put(f.device, text(0, 8));
  f.put(*f.host, text(0, 12));
  f.put(*f.file, text(0, 20));
  const FoundBlocks found = f.look_up(text(0, 24));
  CHECK(found.computed.block_ids == Ids{1, 2});
  CHECK(found.below == Below{{0, 3}, {1, 4}, {1, 5}});
}

TEST_CASE("the first block that nobody has ends what is found, whatever comes after it") {
  Floors f;
  f.put(*f.host, text(0, 20));
  f.put(*f.file, text(0, 12));
  f.host->evict_blocks(Ids{2, 4});
  CHECK(f.look_up(text(0, 24)).below == Below{{0, 1}, {1, 2}, {0, 3}});
  f.file->evict_blocks(Ids{1, 2, 3});
  CHECK(f.look_up(text(0, 24)).below == Below{{0, 1}});
  f.host->evict_blocks(Ids{1});
  CHECK(f.look_up(text(0, 24)).below == Below{});
}

TEST_CASE("the last token is never found below, and who skips reading finds nothing") {
  Floors f;
  f.put(*f.host, text(0, 16));
  CHECK(f.look_up(text(0, 16)).below == Below{{0, 1}, {0, 2}, {0, 3}});
  CHECK(f.look_up(text(0, 17)).below == Below{{0, 1}, {0, 2}, {0, 3}, {0, 4}});
  CHECK(f.look_up(text(0, 4)).below == Below{});
  CHECK(f.look_up(text(0, 17), true).below == Below{});
}

TEST_CASE("the same tokens after another prefix are another block, on every floor") {
  Floors f({.hasher = {.mask = 0}});  // all hashes are equal
  const Tokens head = text(0, 4), other = text(1, 4), tail = text(2, 4);
  const auto joined = [](Tokens a, const Tokens& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  f.put(*f.host, joined(head, tail));
  BlockHashes hashes;
  REQUIRE(f.manager->allocate_slots(1, 4));
  f.manager->cache_blocks(1, other, hashes, 4);
  const FoundBlocks found = f.look_up(joined(joined(other, tail), {7}));
  CHECK(found.computed.num_tokens == 4);
  CHECK(found.below == Below{});
  CHECK(f.look_up(joined(joined(head, tail), {7})).below == Below{{0, 1}, {0, 2}});
}

TEST_CASE("a block that is being copied is found on its way") {
  Floors f;
  f.put(*f.host, text(0, 8));
  f.host->touch(Ids{2});
  CHECK(f.look_up(text(0, 9)).below == Below{{0, 1}, {0, 2, true}});
  f.host->free_blocks(Ids{2});
  CHECK(f.look_up(text(0, 9)).below == Below{{0, 1}, {0, 2}});
}

TEST_CASE("blocks that would be taken next sink, and stay what they are") {
  Floors f;
  f.put(f.device, text(0, 16));
  REQUIRE(f.queue(f.device) == Ids{5, 6, 4, 3, 2, 1});
  f.manager->sink();
  CHECK(f.moves(0, Way::kDown) == Moves{{4, 1}, {3, 2}, {2, 3}, {1, 4}});
  CHECK(f.queue(f.device) == Ids{5, 6, 4, 3, 2, 1});
  CHECK(f.device.num_cached() == 4);
  CHECK(f.host->num_cached() == 4);
  CHECK(f.host->num_used() == 4);
  f.manager->check_tiers();
}

TEST_CASE("so many of them as are asked for") {
  Floors f({.options = {.sink_ahead = 3}});
  f.put(f.device, text(0, 16));
  f.manager->sink();
  CHECK(f.moves(0, Way::kDown) == Moves{{4, 1}});  // 5 and 6 hold nothing
}

TEST_CASE("what has a copy below does not sink again") {
  Floors f;
  f.put(f.device, text(0, 16));
  f.put(*f.host, text(0, 8));
  f.manager->sink();
  CHECK(f.moves(0, Way::kDown) == Moves{{4, 3}, {3, 4}});
  f.manager->sink();
  CHECK(f.manager->moves(0).size() == 1);
  CHECK(f.host->num_cached() == 4);
}

TEST_CASE("copies that are there are overwritten last, the tail before the head") {
  Floors f;
  f.put(f.device, text(0, 8));
  f.put(*f.host, text(0, 8));
  f.put(*f.host, text(1, 8));
  REQUIRE(f.queue(*f.host) == Ids{5, 6, 7, 8, 2, 1, 4, 3});
  f.manager->sink();
  CHECK(f.queue(*f.host) == Ids{5, 6, 7, 8, 4, 3, 2, 1});
  CHECK(f.manager->moves(0).empty());
}

TEST_CASE("two blocks that hold the same sink once") {
  Floors f;
  f.put(f.device, text(0, 4));
  f.put(f.device, text(0, 4));
  REQUIRE(f.device.num_cached() == 2);
  f.manager->sink();
  CHECK(f.moves(0, Way::kDown) == Moves{{1, 1}});
  CHECK(f.host->num_used() == 1);
}

TEST_CASE("of the device only what has been found so often sinks, of the host everything") {
  Floors f({.options = {.min_hits_to_sink = 1}});
  f.put(f.device, text(0, 16));
  f.put(*f.host, text(1, 8));
  f.device.touch(Ids{1, 2});
  f.device.free_blocks(Ids{1, 2});
  f.manager->sink();
  CHECK(f.moves(0, Way::kDown) == Moves{{2, 3}, {1, 4}});
  CHECK(f.moves(1, Way::kDown) == Moves{{2, 1}, {1, 2}});
}

TEST_CASE("too little room below: who would be taken first sinks, as far as there is room") {
  Floors f({.host = 2});
  f.put(f.device, text(0, 16));
  f.manager->sink();
  CHECK(f.moves(0, Way::kDown) == Moves{{4, 1}, {3, 2}});
  f.manager->sink();  // both are in use, as long as they are copied
  CHECK(f.manager->moves(0).size() == 1);
  f.manager->check_tiers();
}

TEST_CASE("the block of the host that makes room was used longest ago, and is found further down") {
  Floors f({.device = 2, .host = 3, .options = {.sink_ahead = 1}});
  f.put(*f.host, text(1, 12));
  f.put(*f.file, text(1, 12));
  REQUIRE(f.queue(*f.host) == Ids{3, 2, 1});
  f.put(f.device, text(0, 8));
  f.manager->sink();
  CHECK(f.moves(0, Way::kDown) == Moves{{2, 3}});
  CHECK(f.look_up(text(1, 13)).below == Below{{0, 1}, {0, 2}, {1, 3}});
}

TEST_CASE("a block of the host is not overwritten while it is copied to the file") {
  Floors f({.host = 2});
  f.put(*f.host, text(1, 8));
  f.manager->sink();
  REQUIRE(f.moves(1, Way::kDown) == Moves{{2, 1}, {1, 2}});
  f.put(f.device, text(0, 8));
  f.manager->sink();
  CHECK(f.manager->moves(0).empty());
  CHECK(f.queue(*f.host) == Ids{2, 1});
  CHECK(f.host->num_cached() == 2);
}

TEST_CASE("copies that cannot be started leave no block of the tier in use") {
  Floors f({.transfers = false});
  f.put(f.device, text(0, 8));
  CHECK_THROWS_WITH(f.manager->sink(), "no bus");
  CHECK(f.host->num_used() == 0);
  CHECK(f.host->num_cached() == 0);
  CHECK(f.manager->moves(0).empty());
}

TEST_CASE("what cannot rise leaves no request, and no block in use") {
  Floors f({.transfers = false});
  f.put(*f.host, text(0, 8));
  f.put(*f.file, text(1, 8));
  CHECK_THROWS_WITH(f.manager->load(7, f.look_up(text(0, 9))), "no bus");
  CHECK_FALSE(f.manager->holds(7));
  CHECK(f.device.num_used() == 0);
  CHECK_THROWS_WITH(f.manager->fetch(f.look_up(text(1, 9))), "no bus");
  CHECK(f.host->num_used() == 0);
  CHECK(f.manager->moves(1).empty());
}

TEST_CASE("a request begins with blocks of the host, copied into blocks of its own") {
  Floors f;
  f.put(f.device, text(0, 8));
  f.put(*f.host, text(0, 16));
  const auto ticket = f.manager->load(7, f.look_up(text(0, 17)));
  REQUIRE(ticket);
  CHECK_FALSE(f.manager->loaded(*ticket));
  CHECK(f.ids(f.manager->table(7).block_ids()) == Ids{1, 2, 3, 4});
  CHECK(f.manager->table(7).num_tokens() == 16);
  CHECK(f.moves(0, Way::kUp) == Moves{{3, 3}, {4, 4}});
  CHECK(f.host->ref_cnt(3) == 1);
  CHECK(f.host->ref_cnt(2) == 0);
  f.manager->check_tiers();
}

TEST_CASE("too little room on the device: a request loads nothing, and nothing has changed") {
  Floors f({.device = 5});
  f.put(*f.host, text(0, 16));
  const FoundBlocks found = f.look_up(text(0, 30));
  const Ids before = f.queue(f.device);
  CHECK_FALSE(f.manager->load(7, found, 5));
  CHECK_FALSE(f.manager->holds(7));
  CHECK(f.queue(f.device) == before);
  CHECK(f.manager->moves(0).empty());
  CHECK(f.host->num_used() == 0);
  REQUIRE(f.manager->load(7, found, 4));
  CHECK(f.manager->table(7).num_blocks() == 4);
}

TEST_CASE("a request loads at least one block, and from the host alone") {
  Floors f;
  f.put(*f.file, text(0, 8));
  CHECK_THROWS_AS(f.manager->load(7, f.look_up(text(1, 9))), std::invalid_argument);
  CHECK_THROWS_AS(f.manager->load(7, f.look_up(text(0, 9))), std::invalid_argument);
  CHECK_FALSE(f.manager->holds(7));
  CHECK(f.manager->moves(0).empty());
}

TEST_CASE("blocks of the file rise to the host") {
  Floors f;
  f.put(*f.file, text(0, 12));
  CHECK(f.manager->fetch(f.look_up(text(0, 13))) == 3);
  CHECK(f.moves(1, Way::kUp) == Moves{{1, 1}, {2, 2}, {3, 3}});
  CHECK(f.look_up(text(0, 13)).below == Below{{1, 1, true}, {1, 2, true}, {1, 3, true}});
  CHECK(f.host->num_used() == 3);
  f.manager->check_tiers();
  CHECK(f.manager->fetch(f.look_up(text(1, 13))) == 0);
  CHECK(f.manager->moves(1).size() == 1);
}

TEST_CASE("what rises overwrites nothing that was found, and stops where there is no room") {
  Floors f({.host = 4});
  f.put(*f.host, text(0, 8));
  f.put(*f.file, text(0, 24));
  REQUIRE(f.manager->fetch(f.look_up(text(0, 25))) == 2);
  CHECK(f.moves(1, Way::kUp) == Moves{{3, 3}, {4, 4}});
  CHECK(f.look_up(text(0, 9)).below == Below{{0, 1}, {0, 2}});
  CHECK(f.host->num_used() == 2);
}

TEST_CASE("what has sunk can be overwritten: the tail before the head") {
  Floors f;
  f.put(f.device, text(0, 16));
  f.manager->sink();
  f.finish(*f.to_host, 3);
  CHECK(f.manager->moves(0).size() == 1);
  CHECK(f.host->num_used() == 4);
  f.finish(*f.to_host, 1);
  CHECK(f.manager->moves(0).empty());
  CHECK(f.host->num_used() == 0);
  CHECK(f.queue(*f.host) == Ids{5, 6, 7, 8, 1, 2, 3, 4});  // 1 holds the last tokens, 4 the first
  CHECK(f.manager->tier_metrics(0).num_sunk == 4);
  CHECK(f.manager->tier_metrics(0).num_risen == 0);
  f.manager->check_tiers();
}

TEST_CASE("when its blocks are there, a load is done, and the host may use its own again") {
  Floors f;
  f.put(*f.host, text(0, 16));
  const auto ticket = f.manager->load(7, f.look_up(text(0, 17)));
  REQUIRE(ticket);
  f.finish(*f.to_host);
  CHECK(f.manager->loaded(*ticket));
  CHECK(f.host->num_used() == 0);
  CHECK(f.queue(*f.host) == Ids{5, 6, 7, 8, 4, 3, 2, 1});
  CHECK(f.device.num_used() == 4);  // they are the request's
  CHECK(f.device.num_cached() == 0);
  CHECK(f.manager->tier_metrics(0).num_risen == 4);
}

TEST_CASE("what has risen from the file is found in the host, and the file still has it") {
  Floors f;
  f.put(*f.file, text(0, 12));
  f.manager->fetch(f.look_up(text(0, 13)));
  f.finish(*f.to_file);
  CHECK(f.look_up(text(0, 13)).below == Below{{0, 1}, {0, 2}, {0, 3}});
  CHECK(f.host->num_used() == 0);
  CHECK(f.file->num_used() == 0);
  CHECK(f.file->num_cached() == 3);
  CHECK(f.manager->tier_metrics(1).num_risen == 3);
  f.manager->check_tiers();
}

TEST_CASE("a record that could not be read is found no more, nor what was read of it") {
  Floors f;
  f.put(*f.file, text(0, 16));
  f.damaged.insert({1, 3});
  f.manager->fetch(f.look_up(text(0, 17)));
  f.finish(*f.to_file);
  CHECK(f.look_up(text(0, 17)).below == Below{{0, 1}, {0, 2}});
  CHECK(f.manager->tier_metrics(1).num_damaged == 1);
  CHECK(f.host->num_cached() == 3);
  CHECK(f.host->num_used() == 0);
  f.manager->check_tiers();
}

TEST_CASE("batches land as far as they are done, on every floor") {
  Floors f;
  f.put(*f.file, text(0, 8));
  f.put(*f.host, text(1, 8));
  f.manager->fetch(f.look_up(text(0, 5)));
  f.manager->fetch(f.look_up(text(0, 9)));
  f.manager->load(7, f.look_up(text(1, 9)));
  REQUIRE(f.manager->moves(1).size() == 2);
  f.finish(*f.to_file, 1);
  CHECK(f.manager->moves(1).size() == 1);
  CHECK(f.manager->moves(0).size() == 1);
  f.finish(*f.to_host);
  CHECK(f.manager->moves(1).size() == 1);
  CHECK(f.manager->moves(0).empty());
  f.finish(*f.to_file);
  CHECK(f.manager->moves(1).empty());
  f.manager->check_tiers();
}
