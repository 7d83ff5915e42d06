// Tests of the text's task "Copy only what is there": each is skipped until BlockCopy has
// num_slots.

#include <doctest/doctest.h>

#include "common/todo.h"
#include "support.h"

namespace {

using lesson05::BlockCopy;
using lesson05::BlockManager;
using lesson05::Growth;
using namespace lesson05_test;

template <class Copy>
concept SaysHowMany = requires(Copy copy) {
  copy.num_slots = 1;
};

[[maybe_unused]] const kv::Stream& stream() {
  static const kv::Stream kStream(kv::Device::kCpu);
  return kStream;
}

/// Two samples of a prompt write their first token: one copy. Returns what the manager asked for.
template <class Copy>
int slots_copied_of(int prompt, int block_size) {
  int num_slots = 0;
  BlockManager manager(8, block_size, [&](std::span<const Copy> copies) {
    for (const Copy& copy : copies) num_slots += copy.num_slots;
  });
  const Growth first{.seq = manager.add_sequence(), .num_tokens = prompt};
  REQUIRE(manager.append({&first, 1}));
  const int fork = manager.fork(first.seq);
  const Growth both[] = {{.seq = first.seq, .num_tokens = 1}, {.seq = fork, .num_tokens = 1}};
  REQUIRE(manager.append(both));
  return num_slots;
}

template <class Copy>
void check_slots_of_the_tail() {
  if constexpr (SaysHowMany<Copy>) {
    CHECK(slots_copied_of<Copy>(6, 4) == 2);
    CHECK(slots_copied_of<Copy>(7, 4) == 3);
    CHECK(slots_copied_of<Copy>(38, 16) == 6);
    CHECK(slots_copied_of<Copy>(8, 4) == 0);  // a full block is not copied
  } else {
    KV_TODO("give BlockCopy a num_slots, and let the manager fill it in");
  }
}

template <class Copy>
void check_rows_after_the_filled_ones() {
  if constexpr (SaysHowMany<Copy>) {
    for (const int num_slots : {1, 2, 4}) {
      CAPTURE(num_slots);
      const lesson03::PagedKvCache cache(kvtest::shape(2, 2, 4), stream(), 4, 4);
      const lesson05::BlockRegions regions = lesson05::regions_of(cache, stream());
      Contents wanted = fill_randomly(regions, stream());
      Copy copy{.source = 0, .destination = 2};
      copy.num_slots = num_slots;
      lesson05::copy_blocks({.regions = &regions, .copies = {&copy, 1}}, stream());
      for (const lesson05::Region& region : regions.list()) {
        std::copy_n(wanted[0].begin() + region.begin, region.bytes / 4 * num_slots,
                    wanted[2].begin() + region.begin);
      }
      CHECK(difference(regions, wanted, stream()) == "");
    }
  } else {
    KV_TODO("let copy_blocks copy num_slots rows");
  }
}

template <class Manager>
void check_count() {
  if constexpr (requires(const Manager& manager) { manager.num_slots_copied(); }) {
    Manager manager(8, 4);
    CHECK(manager.num_slots_copied() == 0);
    const Growth first{.seq = manager.add_sequence(), .num_tokens = 7};
    REQUIRE(manager.append({&first, 1}));
    const int fork = manager.fork(first.seq);
    const Growth one{.seq = fork, .num_tokens = 1};
    REQUIRE(manager.append({&one, 1}));
    CHECK(manager.num_copies() == 1);
    CHECK(manager.num_slots_copied() == 3);
  } else {
    KV_TODO("let the manager count: num_slots_copied()");
  }
}

}  // namespace

TEST_CASE("the manager says how many slots of a tail are filled") {
  check_slots_of_the_tail<BlockCopy>();
}

TEST_CASE("copy_blocks copies the filled rows, and the others keep what they had") {
  check_rows_after_the_filled_ones<BlockCopy>();
}

TEST_CASE("the manager counts the slots that were copied") { check_count<BlockManager>(); }
