// Lesson 11 on a GPU: blocks are copied to where the CPU twin puts them, and copies beside passes
// keep the order that both need.

#include "common/error.h"
#include "swaps.h"
#include "two_tiers.h"

namespace {

using namespace lesson11_test;

const kv::Stream& stream() {
  static const kv::Stream kStream(kv::Device::kCuda);
  return kStream;
}

/// Milliseconds of copies, against the microseconds that the host or another stream needs to spoil
/// them.
struct LargeBatch {
  static constexpr int kBlocks = 64;
  Pools pools{{.num_layers = 28,
               .kv_heads = 8,
               .head_dim = 128,
               .block_size = 16,
               .num_device = kBlocks,
               .num_host = kBlocks},
              stream()};
  BlockSwapper swapper{pools.device.regions, pools.host, stream()};
  Moves moves = [] {
    Moves all;
    for (int32_t id = 0; id < kBlocks; ++id) all.push_back({id, id});
    return all;
  }();

  void* last_piece() { return pools.device.regions.list().back().block(kBlocks - 1); }
  size_t piece_bytes() const { return pools.host.bytes_per_block() / 56; }
};

}  // namespace

TEST_CASE("swap_blocks: a block of letters is offloaded, another one is loaded" *
          doctest::test_suite("kernel")) {
  check_swap_of_letters(stream());
}

TEST_CASE("swap_blocks: regions of more words than a CTA has in flight, and of fewer" *
          doctest::test_suite("kernel")) {
  check_swaps_of(4, 64, 83, stream());  // 2,656 words
  check_swaps_of(1, 8, 1, stream());    // 1 word
}

TEST_CASE("swap_blocks moves all layers of K and V, both ways, and touches nothing else") {
  check_swaps_of(8, 128, 16, stream());
  check_swaps_of(2, 64, 256, stream());
  check_swaps_of(3, 80, 1, stream());
}

TEST_CASE("swap_blocks moves regions of different sizes" * doctest::test_suite("kernel")) {
  check_swaps_of(4, 64, 83, stream(), true);  // 1,328 words, and 42
  check_swaps_of(1, 16, 1, stream(), true);   // 1 word, and 1
  check_round_trip(stream(), true);
}

TEST_CASE("swap_blocks takes more moves than one launch carries" * doctest::test_suite("kernel")) {
  constexpr int kMoves = 600;
  Pools pools({.num_layers = 1, .block_size = 1, .num_device = 2 * kMoves, .num_host = kMoves},
              stream());
  Moves moves;
  for (int i = 0; i < kMoves; ++i) moves.push_back({2 * i + 1, kMoves - 1 - i});
  pools.swap(Direction::kOffload, moves);
  CHECK(pools.difference() == "");
  for (BlockMove& move : moves) --move.device;
  pools.swap(Direction::kLoad, moves);
  CHECK(pools.difference() == "");
}

TEST_CASE("the CPU twin and the CUDA twin write the same bytes, however many CTAs copy") {
  const kv::Stream cpu(kv::Device::kCpu);
  const auto sizes = [](int head_dim) {
    return Pools::Sizes{.num_layers = 5,
                        .kv_heads = 2,
                        .head_dim = head_dim,
                        .block_size = 7,
                        .num_device = 40,
                        .num_host = 30};
  };
  Pools twin(sizes(32), cpu), pools(sizes(64), stream());  // fp32 and bf16, equal bytes
  std::mt19937_64 rng(3);
  for (int round = 0; round < 24; ++round) {
    const Direction direction = rng() % 2 == 0 ? Direction::kOffload : Direction::kLoad;
    Moves moves;
    for (int32_t id = 0; id < 30; ++id) {
      const auto other = static_cast<int32_t>(rng() % 30);
      if (rng() % 2 == 0)
        moves.push_back(direction == Direction::kOffload ? BlockMove{other, id}
                                                         : BlockMove{id, other});
    }
    twin.swap(direction, moves);
    lesson11::swap_blocks({.regions = &pools.device.regions,
                           .host = &pools.host,
                           .direction = direction,
                           .moves = moves,
                           .max_ctas = 1 + 3 * round},
                          stream());
    stream().synchronize();
    for (int32_t id = 0; id < 40; ++id) REQUIRE(pools.read_device(id) == twin.read_device(id));
    for (int32_t id = 0; id < 30; ++id) REQUIRE(pools.read_host(id) == twin.read_host(id));
  }
}

TEST_CASE("blocks past 2^31 bytes are moved to where they belong" * doctest::test_suite("sweep")) {
  check_swaps_past_2_to_the_31(stream());
}

TEST_CASE("what was offloaded and overwritten is loaded with its old bits" *
          doctest::test_suite("kernel")) {
  check_round_trip(stream());
}

TEST_CASE("swap_blocks refuses what it cannot do before it writes") {
  check_refusals(stream());
  Pools odd({.kv_heads = 3, .head_dim = 5, .block_size = 1}, stream());
  CHECK_THROWS_AS(lesson11::swap_blocks({.regions = &odd.device.regions,
                                         .host = &odd.host,
                                         .direction = Direction::kOffload,
                                         .moves = Moves{{0, 0}}},
                                        stream()),
                  std::invalid_argument);
}

TEST_CASE("batches are numbered, and done in their order") {
  for (const bool scales : {false, true}) check_batches(stream(), scales);
}

TEST_CASE("what a block takes is measured on the way up") { check_measured(stream()); }

TEST_CASE("a swapper that goes waits for what is under way") {
  LargeBatch batch;
  {
    BlockSwapper swapper(batch.pools.device.regions, batch.pools.host, stream());
    batch.pools.expect(Direction::kLoad, batch.moves);
    swapper.start(Direction::kLoad, batch.moves);
  }
  // On another stream, which orders nothing.
  const kv::Stream other(kv::Device::kCuda);
  uint8_t found = 0;
  kv::copy_to_host(&found, static_cast<uint8_t*>(batch.last_piece()) + batch.piece_bytes() - 1, 1,
                   other);
  CHECK(found == batch.pools.on_device.back().back());
}

TEST_CASE("copies run beside a pass, however often it is tried" * doctest::test_suite("sweep")) {
  LargeBatch batch;
  const kv::DeviceBuffer work(kv::Device::kCuda, 1024);
  for (int i = 1; i <= 20; ++i) {
    const Job job = batch.swapper.start(Direction::kOffload, batch.moves);
    kv::fill_bytes(work.data(), i, work.bytes(), stream());  // the pass
    stream().synchronize();
    CHECK(batch.swapper.completed() == job - 1);  // the pass is done, the copies are not
    batch.swapper.wait(job);
    CHECK(batch.swapper.completed() == job);
  }
}

TEST_CASE("what a pass writes before a job begins is offloaded, however often it is tried" *
          doctest::test_suite("sweep")) {
  LargeBatch batch;
  const kv::DeviceBuffer work(kv::Device::kCuda, size_t{256} << 20);
  for (int i = 1; i <= 20; ++i) {
    // A long pass that writes the block at its end.
    for (int k = 0; k < 20; ++k) kv::fill_bytes(work.data(), k, work.bytes(), stream());
    kv::fill_bytes(batch.last_piece(), i, batch.piece_bytes(), stream());
    batch.swapper.wait(
        batch.swapper.start(Direction::kOffload, Moves{{LargeBatch::kBlocks - 1, 0}}));
    CHECK(batch.pools.read_host(0).back() == i);
  }
}

TEST_CASE("a pass that waits reads what is loaded, however often it is tried" *
          doctest::test_suite("sweep")) {
  LargeBatch batch;
  for (int i = 1; i <= 20; ++i) {
    batch.pools.set_host(LargeBatch::kBlocks - 1,
                         Bytes(batch.pools.host.bytes_per_block(), static_cast<uint8_t>(i)));
    const Job job = batch.swapper.start(Direction::kLoad, batch.moves);
    batch.swapper.let_passes_wait(job);
    Bytes found(batch.piece_bytes());
    kv::copy_to_host(found.data(), batch.last_piece(), found.size(), stream());  // the pass
    CHECK(found == Bytes(found.size(), static_cast<uint8_t>(i)));
  }
}

TEST_CASE("a pass that waits overwrites what was offloaded, however often it is tried" *
          doctest::test_suite("sweep")) {
  LargeBatch batch;
  for (int i = 1; i <= 20; ++i) {
    kv::fill_bytes(batch.last_piece(), i, batch.piece_bytes(), stream());
    const Job job = batch.swapper.start(Direction::kOffload, batch.moves);
    batch.swapper.let_passes_wait(job);
    kv::fill_bytes(batch.last_piece(), 0xEE, batch.piece_bytes(), stream());  // the pass
    batch.swapper.wait(job);
    CHECK(batch.pools.read_host(LargeBatch::kBlocks - 1).back() == i);
  }
}

TEST_CASE("more pinned memory than the host has is refused, with the bytes asked for") {
  CHECK_THROWS_WITH_AS(kv::HostBuffer(kv::Device::kCuda, size_t{1} << 50),
                       doctest::Contains("pinned host memory: cannot allocate 1125899906842624 "
                                         "bytes"),
                       kv::DeviceError);
  const kv::HostBuffer small(kv::Device::kCuda, 64);  // the failure leaves nothing
  CHECK(small.data() != nullptr);
}

TEST_CASE("rounds, pools of any size, hashes that collide: the same bits on CUDA" *
          doctest::test_suite("sweep")) {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  for (const auto kernel : {kv::Kernel::kFast, kv::Kernel::kPlain}) {
    model.set_kernel(kernel);
    lesson11_test::check_rounds(model, kernel == kv::Kernel::kFast ? 16 : 12);
  }
}

TEST_CASE("padded passes and tokens chosen on the GPU change nothing, wherever blocks have been" *
          doctest::test_suite("sweep")) {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  lesson08_test::check_padded<HostTierEngine>(model, 30);
}
