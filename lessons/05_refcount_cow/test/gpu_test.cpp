// Lesson 05 on a GPU: copies land where the CPU twin puts them, and sharing changes no bit.

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "engine.h"
#include "lessons/02_flat_cache/engine.h"
#include "support.h"
#include "tests/support/same_bits.h"

namespace {

using kvtest::check_equal;
using kvtest::request_of;
using lesson05::BlockCopy;
using lesson05::BlockRegions;
using lesson05::SharingEngine;
using namespace lesson05_test;

const kv::Stream& stream() {
  static const kv::Stream kStream(kv::Device::kCuda);
  return kStream;
}

kv::Model& model() { return kvtest::shipped_model<kv::Device::kCuda>(); }

void copy(const BlockRegions& regions, const std::vector<BlockCopy>& copies) {
  lesson05::copy_blocks_cuda({.regions = &regions, .copies = copies}, stream());
}

std::vector<int64_t> bf16(int kv_heads, int head_dim, int block_size) {
  return k_and_v(kv_heads, head_dim, block_size, kv::Device::kCuda);
}

}  // namespace

TEST_CASE("copy_blocks: one block of letters, in two layers" * doctest::test_suite("kernel")) {
  check_copy_of_letters(stream());
}

TEST_CASE("copy_blocks: blocks of more words than a CTA has threads, and of fewer" *
          doctest::test_suite("kernel")) {
  check_copies_of(bf16(2, 64, 17), stream());  // 272 words
  check_copies_of(bf16(1, 8, 1), stream());    // 1 word
}

TEST_CASE("copy_blocks copies all layers of K and V and touches nothing else") {
  check_copies_of(bf16(8, 128, 16), stream());
  check_copies_of(bf16(2, 64, 256), stream());
  check_copies_of(bf16(3, 80, 1), stream());
}

TEST_CASE("copy_blocks copies regions of different sizes" * doctest::test_suite("kernel")) {
  check_copies_of(with_scales(2, 64, 17), stream());
  check_copies_of(with_scales(1, 16, 1), stream());  // 1 word of each
  check_copies_of(with_scales(8, 128, 16), stream());
}

TEST_CASE("copy_blocks takes more pairs than one launch carries" * doctest::test_suite("kernel")) {
  constexpr int kPairs = 1'000;
  const BlockMemory memory(1, 2 * kPairs, {16, 16}, stream());
  Contents wanted = fill_randomly(memory.regions, stream());
  std::vector<BlockCopy> copies;
  for (int i = 0; i < kPairs; ++i) {
    copies.push_back({2 * i, 2 * i + 1});
    lesson05_test::copy(wanted, copies.back());
  }
  copy(memory.regions, copies);
  CHECK(difference(memory.regions, wanted, stream()) == "");
}

TEST_CASE("blocks past 2^31 elements are copied to where they belong" *
          doctest::test_suite("kernel")) {
  check_copy_past_2_to_the_31(stream());
}

TEST_CASE("copy_blocks refuses what it cannot do before it writes") {
  const BlockMemory memory(2, 4, {64, 64}, stream());
  const Contents before = fill_randomly(memory.regions, stream());
  CHECK_THROWS_AS(copy(memory.regions, {{0, 1}, {2, 4}}), std::out_of_range);
  CHECK_THROWS_AS(copy(memory.regions, {{0, 1}, {1, 2}}), std::invalid_argument);
  copy(memory.regions, {});
  CHECK(difference(memory.regions, before, stream()) == "");
  const BlockMemory odd(1, 2, {32, 30}, stream());
  CHECK_THROWS_AS(copy(odd.regions, {{0, 1}}), std::invalid_argument);
}

TEST_CASE("n samples have the bits of n independent requests") {
  for (const int prompt : {16, 17, 70}) {
    CAPTURE(prompt);
    const kv::Request request = hot_request(prompt, 20);
    SharingEngine engine(model(), {});
    check_equal(sample(engine, request, 4),
                lesson02::make_engine(model(), {})->generate(kv::samples_of(request, 4)));
    CHECK(engine.manager()->num_copies() == (prompt % 16 == 0 ? 0 : 3));
    CHECK(engine.manager()->pool().num_used() == 0);
  }
}

TEST_CASE("beam search finds the same hypotheses for any block size" *
          doctest::test_suite("sweep")) {
  // Block size 1 never copies a block, 16 copies many: the bits must be the same.
  const kv::Request request = request_of(20, 30);
  SharingEngine ones(model(), {.block_size = 1}), sixteens(model(), {.block_size = 16});
  const auto a = ones.beam_search(request, {});
  const auto b = sixteens.beam_search(request, {});
  CHECK(a.counters.kv_bytes_copied == 0);
  CHECK(b.counters.kv_bytes_copied > 0);
  REQUIRE(a.beams.size() == 4);
  REQUIRE(b.beams.size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(a.beams[i].tokens == b.beams[i].tokens);
    CHECK(a.beams[i].log_prob == b.beams[i].log_prob);
  }
}
