// Blocks that a store sends for a prompt of which device or host has some blocks already. There is
// no model: every byte of a block is the block's first token. All hashes are equal, so only its
// tokens and the number of the prefix before it tell a block from others.

#include "tests/support/readable.h"  // before the checks

#include <algorithm>
#include <vector>

#include "cli/memory_store.h"
#include "lessons/05_refcount_cow/test/block_memory.h"
#include "lessons/12_file_tier/checksum_blocks.h"
#include "shared_tier.h"

namespace {

using namespace lesson13;
using Tokens = std::vector<int32_t>;

const Tokens kPrompt{1, 1, 2, 2, 3, 3, 9};  // three full blocks, and one token
const ExtraKeys kSalt{{lesson06::ExtraKey::Kind::kSalt, "tenant"}};  // of all requests

struct Machine {
  explicit Machine(BlockStore& store, int host_blocks = 16, int check_every = 0)
      : memory(device.regions.bytes_per_block(), kv::Device::kCpu, host_blocks + 1),
        tier(device.regions, memory, store, 42, stream, {.hasher = {.mask = 0}},
             {.check_every = check_every}, kv::RunJobs::kAtOnce) {}

  /// Computes blocks of a prompt. `to_host`: they are copied to the host, and put into the store.
  void compute(int64_t id, const Tokens& tokens, bool to_host) {
    if (to_host) tier.add(id, tokens, kSalt, false);
    const auto size = static_cast<int>(tokens.size());
    lesson06::BlockHashes hashes(kSalt);
    REQUIRE(manager.allocate_slots(id, size));
    const auto blocks = manager.table(id).block_ids();
    for (int i = 0; i < size / 2; ++i) {
      for (const lesson05::Region& region : device.regions.list()) {
        std::fill_n(region.block(blocks[i]), region.bytes, static_cast<std::byte>(tokens[2 * i]));
      }
    }
    tier.begin_pass();
    tier.add_chunk(id, tokens, 0, size);
    manager.cache_blocks(id, tokens, hashes, size);
    tier.end_pass();
    manager.free(id);
    tier.remove(id);
  }
  /// The device's blocks are given to another request, and hold nothing then.
  void overwrite_device() {
    REQUIRE(manager.allocate_slots(99, 2 * 8));
    manager.free(99);
  }
  /// Blocks of the prompt on the device, and after those in the host. All of the host's blocks
  /// match their checksums, and none is in use.
  std::vector<int> found(const Tokens& tokens) {
    lesson06::BlockHashes hashes(kSalt);
    const auto computed = manager.get_computed_blocks(tokens, hashes);
    const auto in_host = manager.find_in_host(tokens, hashes, computed);
    for (const int32_t id : in_host) {
      CHECK(tier.swapper().checksums()[id] == lesson12::checksum_of(memory.block(id)));
    }
    CHECK(manager.host().num_used() == 0);
    return {computed.chain.num_blocks, static_cast<int>(in_host.size())};
  }

  kv::Stream stream{kv::Device::kCpu};
  lesson05_test::BlockMemory device{1, 9, {64, 64}, stream, 2};
  HostBlocks memory;
  SharedTier tier;
  HostTierManager& manager = tier.manager();
};

/// A store that has the blocks of a prompt.
struct Stored {
  explicit Stored(const Tokens& tokens = kPrompt) { put(tokens); }
  void put(const Tokens& tokens) {
    Machine machine(store);
    machine.compute(1, tokens, true);
    machine.tier.settle();
  }
  MemoryStore store;
};

}  // namespace

TEST_CASE_FIXTURE(Stored, "blocks that come go on where those of the device or of the host end") {
  for (const bool in_host : {false, true}) {
    CAPTURE(in_host);
    Machine machine(store);
    machine.compute(1, {1, 1}, in_host);
    if (in_host) machine.overwrite_device();
    REQUIRE(machine.tier.add(2, kPrompt, kSalt, true));
    machine.tier.complete();
    CHECK(machine.tier.metrics().num_fetched == 2);
    CHECK(machine.found(kPrompt) == (in_host ? std::vector{0, 3} : std::vector{1, 2}));
  }
}

TEST_CASE_FIXTURE(Stored, "blocks that come after one that is gone meanwhile are dropped") {
  Machine machine(store);
  machine.compute(1, {1, 1}, false);
  REQUIRE(machine.tier.add(2, kPrompt, kSalt, true));
  machine.overwrite_device();
  machine.tier.complete();
  CHECK(machine.tier.metrics().num_fetched == 2);
  CHECK(machine.manager.host().num_cached() == 0);
  CHECK(machine.manager.host().num_used() == 0);
}

TEST_CASE_FIXTURE(Stored, "of the blocks that come the host gets those that it lacks") {
  for (const bool in_host : {false, true}) {  // else the device alone has computed two meanwhile
    CAPTURE(in_host);
    Machine machine(store);
    REQUIRE(machine.tier.add(2, kPrompt, kSalt, true));
    machine.compute(3, {1, 1, 2, 2}, in_host);
    machine.tier.complete();
    CHECK(machine.tier.metrics().num_fetched == 3);
    CHECK(machine.manager.host().num_cached() == 3);
    CHECK(machine.found(kPrompt) == std::vector{2, 1});
    machine.overwrite_device();
    CHECK(machine.found(kPrompt) == std::vector{0, 3});
  }
}

TEST_CASE_FIXTURE(Stored, "a host with room for two blocks gets the first two") {
  Machine machine(store, 2);
  REQUIRE(machine.tier.add(2, kPrompt, kSalt, true));
  machine.tier.complete();
  CHECK(machine.found(kPrompt) == std::vector{0, 2});
}

TEST_CASE_FIXTURE(Stored, "equal tokens after different blocks come as different blocks") {
  const Tokens a{1, 1, 5, 5, 9}, b{2, 2, 5, 5, 9};
  put(a);
  put(b);
  Machine machine(store);
  REQUIRE(machine.tier.add(1, a, kSalt, true));
  REQUIRE(machine.tier.add(2, b, kSalt, true));
  machine.tier.complete();
  CHECK(machine.manager.host().num_cached() == 4);
}

TEST_CASE_FIXTURE(Stored,
                  "the digests of blocks that come to be checked are noted by their names") {
  Machine machine(store, 16, 1);
  machine.compute(1, {1, 1}, false);
  const Tokens longer{1, 1, 2, 2, 3, 3, 4, 4, 9};
  std::vector<BlockName> names;
  extend_names(names, root_name(42, kSalt), longer, 2);
  store.put(names[3], "not the value of this block");
  REQUIRE(machine.tier.add(2, longer, kSalt, true));
  machine.tier.complete();
  CHECK(machine.manager.host().num_cached() == 0);
  machine.compute(2, longer, false);
  machine.tier.settle();
  CHECK(machine.tier.metrics().num_checked == 2);
  CHECK(machine.tier.metrics().num_poisoned == 0);
}
