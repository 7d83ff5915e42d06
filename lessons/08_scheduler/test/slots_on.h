#pragma once

// Runs a computation of slots on block tables in device memory. For any device, and for the tables
// of one group or (lesson 10) of several.

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "lessons/08_scheduler/compute_slot_mapping.h"
#include "tests/support/readable.h"

/// The arrays of a pass. tables: [num_seqs, width], without the first `absent` entries.
struct SlotsInput {
  std::vector<int32_t> first_row, seq_len, tables;
  int width = 1, block_size = 1;
  int64_t absent = 0;
};

/// The num_slots slots that `compute` works out on the device.
template <class Compute>
std::vector<int64_t> slots_on(kv::Device device, const SlotsInput& in, int num_slots,
                              Compute compute) {
  const kv::Stream stream(device);
  const auto and_one_more = [&](std::vector<int32_t> values, int32_t value) {  // not to be read
    values.push_back(value);
    return kv::to_device<int32_t>(values, stream);
  };
  const kv::DeviceBuffer tables = and_one_more(in.tables, 0);
  const kv::DeviceBuffer first = and_one_more(in.first_row, in.first_row.back() + 1);
  const kv::DeviceBuffer lengths = and_one_more(in.seq_len, 1);
  const auto where = reinterpret_cast<intptr_t>(tables.data()) - in.absent * intptr_t{4};
  std::vector<int64_t> slots(static_cast<size_t>(num_slots) + 1, -7);  // one after them
  const auto out = kv::to_device<int64_t>(slots, stream);
  compute(lesson08::ComputeSlotMappingArgs{.first_row = first.as<int32_t>(),
                                           .seq_len = lengths.as<int32_t>(),
                                           .block_tables = reinterpret_cast<const int32_t*>(where),
                                           .num_seqs = static_cast<int>(in.seq_len.size()),
                                           .num_rows = in.first_row.back(),
                                           .max_blocks_per_seq = in.width,
                                           .block_size = in.block_size,
                                           .slot_mapping = out.as<int64_t>()},
          stream);
  kv::copy_to_host(slots.data(), out.data(), slots.size() * sizeof(int64_t), stream);
  CHECK(slots.back() == -7);  // nothing is written after the last row
  slots.pop_back();
  return slots;
}
