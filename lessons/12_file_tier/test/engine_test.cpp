// Tests of lesson 12's engine: a start finds blocks in the file, and the bits are those of lesson
// 02.

#include <fstream>

#include "common/error.h"
#include "lessons/05_refcount_cow/test/block_memory.h"
#include "restarts.h"

using namespace lesson12_test;
using lesson08_test::texts;  // of 50 tokens: three or four full blocks
using lesson11::LoadPolicy;
using lesson12::FileTierOptions;

namespace {

struct InFolder {
  kvtest::TempDir folder;
  FileTierOptions tier(int host_blocks = 60) const {
    return {.host = {.host_blocks = host_blocks, .policy = LoadPolicy::kAlways},
            .file = folder.path() / "blocks"};
  }
  kv::Model& model = kvtest::shipped_model();
};

/// Two blocks are on their way to the host, and the device has lost them.
struct Offloaded {
  explicit Offloaded(lesson12::BlockFile* file = nullptr)
      : tiers(device.regions, memory, file, stream, {}, kv::RunJobs::kAtOnce) {
    REQUIRE(manager.allocate_slots(1, 5));
    manager.cache_blocks(1, tokens, hashes, 5);
    manager.free(1);
    tiers.offload(5, 0);
    REQUIRE(manager.metrics().num_offloaded == 2);
    REQUIRE(manager.allocate_slots(2, 10));  // takes all blocks of the device
    manager.free(2);
  }
  std::vector<int32_t> found_in_host() {
    return manager.find_in_host(tokens, hashes, manager.get_computed_blocks(tokens, hashes));
  }
  void load() {
    manager.load(3, tokens, hashes, manager.get_computed_blocks(tokens, hashes));
    REQUIRE(tiers.swapper().loads().size() == 2);
  }

  kv::Stream stream{kv::Device::kCpu};
  lesson05_test::BlockMemory device{1, 6, {64, 64}, stream, 2};
  lesson11::HostBlocks memory{device.regions.bytes_per_block(), kv::Device::kCpu, 4};
  lesson12::Tiers tiers;
  lesson11::HostTierManager& manager = tiers.manager();
  std::vector<int32_t> tokens{1, 2, 3, 4, 5};
  lesson06::BlockHashes hashes;
};

}  // namespace

TEST_CASE("starts, rounds, pools of any size, hashes that collide: the bits of a flat cache" *
          doctest::test_suite("sweep")) {
  check_starts(kvtest::shipped_model(), 16);
}

TEST_CASE_FIXTURE(InFolder, "a second start computes nothing again") {
  const auto requests = texts();
  const auto first = FileTierEngine(model, {.num_blocks = 10}, {}, tier()).generate(requests);
  FileTierEngine again(model, {.num_blocks = 10}, {}, tier());
  const auto second = again.generate(requests);
  kvtest::check_equal(second, first);
  CHECK(again.server()->metrics().num_restored >= 8 * 3);
  CHECK(second.counters.kv_rows_computed <= first.counters.kv_rows_computed - 8 * 48);
}

TEST_CASE_FIXTURE(InFolder,
                  "a host with fewer blocks than the file is refused, with both numbers") {
  FileTierEngine(model, {.num_blocks = 10}, {}, tier()).generate(texts());
  const auto size = std::filesystem::file_size(tier().file);
  FileTierEngine engine(model, {.num_blocks = 10}, {}, tier(7));
  CHECK_THROWS_WITH_AS(engine.generate(texts()), doctest::Contains("would have 7 blocks"),
                       kv::UserError);
  CHECK(std::filesystem::file_size(tier().file) == size);
}

TEST_CASE_FIXTURE(InFolder, "a larger pool makes a new server, which finds what the old one had") {
  FileTierEngine engine(model, {}, {}, tier(200));
  engine.generate(texts());
  engine.generate(texts(120));  // needs more blocks
  CHECK(engine.server()->metrics().num_restored >= 8 * 3);
}

TEST_CASE_FIXTURE(InFolder, "a flipped bit in the file costs blocks, and changes nothing") {
  const auto requests = texts();
  const auto first = FileTierEngine(model, {.num_blocks = 10}, {}, tier()).generate(requests);
  const auto size = std::filesystem::file_size(tier().file);
  int64_t damaged = 0;
  for (int flip = 1; flip < 12; ++flip) {
    CAPTURE(flip);
    const auto at = static_cast<std::streamoff>(4096 + size * static_cast<size_t>(flip) / 13);
    std::fstream bytes(tier().file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekg(at);
    const char was = static_cast<char>(bytes.get());
    bytes.seekp(at);
    bytes.put(static_cast<char>(was ^ 0x10));
    bytes.close();
    FileTierEngine engine(model, {.num_blocks = 10}, {}, tier());
    kvtest::check_equal(engine.generate(requests), first);
    damaged += engine.server()->metrics().num_damaged_in_file;
  }
  CHECK(damaged > 0);
}

TEST_CASE_FIXTURE(InFolder, "a flipped bit in the host's memory is found, and changes nothing") {
  const auto requests = texts();
  FileTierEngine engine(model, {.num_blocks = 10}, {}, tier());
  const auto first = engine.generate(requests);
  for (int32_t id = 1; id <= 60; id += 2) {
    engine.server()->host_memory().block(id)[1000] ^= std::byte{1};
  }
  kvtest::check_equal(engine.generate(requests), first);
  CHECK(engine.server()->metrics().num_damaged_in_host > 0);
  CHECK(engine.server()->metrics().num_damaged_to_device == 0);
}

TEST_CASE("a block that was damaged is counted at its place, and found nowhere") {
  int num_moved = 0;  // blocks with another id on the device than in the host
  for (const auto& direction : {std::pair{false, 1}, {true, 1}, {false, 2}, {true, 2}}) {
    const bool in_host =
        direction.first;  // no structured binding: CAPTURE refers to it in a lambda
    const int num_held = direction.second, num_damaged = num_held;  // of the two that are loaded
    CAPTURE(in_host);
    CAPTURE(num_held);
    Offloaded at;
    at.tiers.settle();
    REQUIRE(at.manager.allocate_slots(4, 2 * num_held));  // moves the ids that the next ones get
    const auto ids = at.found_in_host();
    REQUIRE(ids.size() == 2);
    for (size_t i = 0; in_host && i < static_cast<size_t>(num_damaged); ++i) {
      at.memory.block(ids[i])[0] ^= std::byte{1};
    }
    at.load();
    const auto loads = at.tiers.swapper().loads();
    num_moved += loads[0].move.device != loads[0].move.host;
    for (size_t i = 0; !in_host && i < static_cast<size_t>(num_damaged); ++i) {
      *at.device.regions.list()[1].block(loads[i].move.device) ^= std::byte{1};
    }
    at.tiers.settle();
    CHECK(at.tiers.metrics().num_damaged_to_device == (in_host ? 0 : num_damaged));
    CHECK(at.tiers.metrics().num_damaged_in_host == (in_host ? num_damaged : 0));
    CHECK(at.manager.get_computed_blocks(at.tokens, at.hashes).num_tokens == 0);
    CHECK(at.found_in_host().empty());
  }
  CHECK(num_moved > 0);
}

TEST_CASE("of two damaged blocks each is counted at its own place") {
  Offloaded at;
  at.tiers.settle();
  at.memory.block(at.found_in_host()[0])[0] ^= std::byte{1};
  at.load();
  *at.device.regions.list()[1].block(at.tiers.swapper().loads()[1].move.device) ^= std::byte{1};
  at.tiers.settle();
  CHECK(at.tiers.metrics().num_damaged_in_host == 1);
  CHECK(at.tiers.metrics().num_damaged_to_device == 1);
}

TEST_CASE_FIXTURE(InFolder,
                  "a block that is damaged in the host while its save waits is not saved") {
  lesson12::BlockFile file(tier().file, {.block_size = 2, .bytes_per_block = 128});
  Offloaded at(&file);
  for (const int32_t id : at.found_in_host()) at.memory.block(id)[0] ^= std::byte{1};
  at.load();
  CHECK(at.tiers.num_unsaved() == 2);
  at.tiers.settle();  // first the loads are checked, then the blocks are saved
  CHECK(at.tiers.metrics().num_damaged_in_host == 2);
  CHECK(at.tiers.metrics().num_saved == 0);
}

TEST_CASE_FIXTURE(InFolder,
                  "what is forgotten after a change of the weights is forgotten everywhere") {
  const auto requests = texts();
  kv::GenerateResult first;
  {
    FileTierEngine engine(model, {.num_blocks = 10}, {}, tier());
    first = engine.generate(requests);
    engine.reset_prefix_cache();
    CHECK(engine.generate(requests).counters.kv_rows_computed == first.counters.kv_rows_computed);
    engine.reset_prefix_cache();
    const kv::Request one = kvtest::request_of(3, 1, 9);
    engine.generate({&one, 1});
  }
  FileTierEngine again(model, {.num_blocks = 10}, {}, tier());
  CHECK(again.generate(requests).counters.kv_rows_computed == first.counters.kv_rows_computed);
}

TEST_CASE("without a file, too, nothing is found after a reset, although a load was on its way") {
  const auto requests = texts();
  lesson12::Server server(kvtest::shipped_model(), {.num_blocks = 10}, {},
                          {.host = {.host_blocks = 60, .policy = LoadPolicy::kAlways}});
  const auto serve = [&](int64_t id, const kv::Request& request) {
    for (server.submit(id, request); !server.idle();) server.step();
  };
  for (size_t i = 0; i < requests.size(); ++i) serve(static_cast<int64_t>(i), requests[i]);
  server.submit(100, requests[0]);
  server.step();
  REQUIRE(server.manager().metrics().num_loaded > 0);
  server.abort(100);
  server.reset_prefix_cache();
  const int64_t found = server.manager().metrics().num_hits_in_host;
  for (size_t i = 0; i < requests.size(); ++i) serve(200 + static_cast<int64_t>(i), requests[i]);
  CHECK(server.manager().metrics().num_hits_in_host == found);
}

TEST_CASE("padded passes and tokens that the device chooses change nothing") {
  lesson08_test::check_padded<FileTierEngine>(kvtest::shipped_model(), 30);
}
