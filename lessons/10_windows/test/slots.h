#pragma once

// The slots of rows in all groups: three sequences that can be checked by eye, and many by chance,
// against lesson 08's slots of each group. For any device.

#include <random>

#include "lessons/08_scheduler/test/slots_on.h"
#include "lessons/10_windows/group_slot_mapping.h"

namespace lesson10_test {

/// tables: [num_groups, num_seqs, width], the last group first: what counts is where each begins
struct SlotsCase : SlotsInput {
  int num_groups = 1;

  int num_slots() const { return num_groups * first_row.back(); }
  /// Works out the slots of all groups.
  auto compute() const {
    return [this](const lesson08::ComputeSlotMappingArgs& first, const kv::Stream& stream) {
      lesson10::GroupSlotMappingArgs args{.rows = first, .num_groups = num_groups};
      for (int group = 0; group < num_groups; ++group) {
        const int64_t table = int64_t{num_groups - 1 - group} * first.num_seqs;
        args.block_tables[group] = first.block_tables + table * first.max_blocks_per_seq;
      }
      args.rows.block_tables = nullptr;
      lesson10::group_slot_mapping(args, stream);
    };
  }
};

inline std::vector<int64_t> slots_on(kv::Device device, const SlotsCase& c) {
  return ::slots_on(device, c, c.num_slots(), c.compute());
}

/// Blocks of 4 in two groups. A: a prompt of 6. B: a decode, its 9th token, the first in its third
/// block; group 1 has forgotten the first one. C: the 5th to the 7th token, in its second block.
inline SlotsCase three_sequences() {
  return {{.first_row = {0, 6, 7, 10},
           .seq_len = {6, 9, 7},
           .tables = {4, 9, -1, -1, /* B */ 0, 11, 10, -1, /* C */ 12, 13, -1, -1,  // group 1
                      7, 2, -1, -1, /* B */ 5, 1,  3,  -1, /* C */ 8,  6,  -1, -1},
           .width = 4,
           .block_size = 4},
          2};
}
inline const std::vector<int64_t> kThreeSlots{28, 29, 30, 31, 8,  9,  12, 24, 25, 26,
                                              16, 17, 18, 19, 36, 37, 40, 52, 53, 54};

inline void check_three_slots(kv::Device device) {
  INFO("of each group rows 0 to 5 are A's, row 6 is B's, rows 7 to 9 are C's");
  CHECK(slots_on(device, three_sequences()) == kThreeSlots);
}

/// Block 1,000,000,000 of 4 tokens in the second group: its first slot is past 2^31.
inline void check_large_slots(kv::Device device) {
  CHECK(slots_on(device, SlotsCase{{.first_row = {0, 1},
                                    .seq_len = {2},
                                    .tables = {1'000'000'000, 3},
                                    .width = 1,
                                    .block_size = 4},
                                   2}) == std::vector<int64_t>{13, 4'000'000'001});
}

inline SlotsCase random_case(int num_groups, int num_seqs, int block_size, std::mt19937& rng) {
  SlotsCase c;
  c.first_row = {0};
  c.width = 600 / block_size + 2;
  c.block_size = block_size;
  c.num_groups = num_groups;
  for (int i = 0; i < num_seqs; ++i) {
    const auto length = 1 + static_cast<int32_t>(rng() % 600);
    c.seq_len.push_back(length);
    c.first_row.push_back(
        c.first_row.back() +
        (i % 3 == 0 ? 1 : 1 + static_cast<int32_t>(rng() % static_cast<unsigned>(length))));
  }
  c.tables.resize(num_groups * num_seqs * c.width);
  for (int32_t& id : c.tables) id = static_cast<int32_t>(rng() % 2'000'000'000);
  return c;
}

/// Checks that each group's slots are those of its tables alone.
inline void check_slots(kv::Device device, const std::vector<int>& nums_seqs) {
  std::mt19937 rng(1);
  for (const int block_size : {1, 16, 256}) {
    for (const int num_groups : {1, 2, 7}) {
      for (const int num_seqs : nums_seqs) {
        CAPTURE(block_size);
        CAPTURE(num_groups);
        CAPTURE(num_seqs);
        const SlotsCase c = random_case(num_groups, num_seqs, block_size, rng);
        const size_t num_rows = c.first_row.back();
        std::vector<int64_t> wanted(num_rows * static_cast<size_t>(num_groups));
        for (int g = 0; g < num_groups; ++g) {
          lesson08::compute_slot_mapping_cpu(
              {.first_row = c.first_row.data(),
               .seq_len = c.seq_len.data(),
               .block_tables = c.tables.data() + int64_t{num_groups - 1 - g} * num_seqs * c.width,
               .num_seqs = num_seqs,
               .num_rows = c.first_row.back(),
               .max_blocks_per_seq = c.width,
               .block_size = block_size,
               .slot_mapping = wanted.data() + static_cast<size_t>(g) * num_rows});
        }
        CHECK(slots_on(device, c) == wanted);
      }
    }
  }
}

}  // namespace lesson10_test
