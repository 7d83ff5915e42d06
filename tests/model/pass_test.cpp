// The rows of a pass, and the arrays that carry them to the device.

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "qwen3/pass.h"

using Ints = std::vector<int32_t>;

namespace {

Ints on_device(const int32_t* at, size_t n) { return {at, at + n}; }

}  // namespace

TEST_CASE("pass: rows say whose they are and whether they want logits") {
  kv::PassRows rows;
  rows.add(7, Ints{10, 11, 12}, 1);
  rows.add(8, Ints{20, 21}, 0, false);
  rows.add(9, Ints{30, 31, 32, 33}, 3);
  rows.add_padding();
  CHECK(rows.token_ids == Ints{11, 12, 20, 21, 33, 0});
  CHECK(rows.positions == Ints{1, 2, 0, 1, 3, 0});
  CHECK(rows.first_row == Ints{0, 2, 4, 5, 6});
  CHECK(rows.seq_len == Ints{3, 2, 4, 1});
  CHECK(rows.logit_rows == Ints{1, 4, 5});
  CHECK(rows.requests == std::vector<size_t>{7, 9});
  CHECK(rows.max_rows_per_seq() == 2);
  CHECK(rows.max_seq_len() == 256);
  CHECK(kv::PassRows().max_seq_len() == 0);
  CHECK(kv::PassRows().max_rows_per_seq() == 0);
}

TEST_CASE("pass: one upload carries all arrays, whatever their types and sizes") {
  const kv::Stream stream(kv::Device::kCpu);
  kv::PassArrays arrays(stream);
  for (const int more : {0, 1, 300, 3}) {  // grows, and shrinks again
    kv::PassRows rows;
    rows.add(0, Ints(static_cast<size_t>(5 + more), 4), more);
    const std::vector<int64_t> slots(static_cast<size_t>(1 + more), INT64_MAX - more);
    const int64_t* device_slots = nullptr;
    arrays.begin(rows);
    arrays.add(slots, device_slots);
    CHECK(device_slots == nullptr);
    arrays.upload();
    CHECK(on_device(arrays.token_ids, 5) == rows.token_ids);
    CHECK(on_device(arrays.positions, 5) == rows.positions);
    CHECK(on_device(arrays.first_row, 2) == rows.first_row);
    CHECK(on_device(arrays.seq_len, 1) == rows.seq_len);
    CHECK(on_device(arrays.logit_rows, 1) == rows.logit_rows);
    CHECK(std::vector<int64_t>(device_slots, device_slots + slots.size()) == slots);
  }
}

TEST_CASE(
    "pass: the key of a graph changes with all that launches depend on, and with nothing else") {
  const kv::Stream stream(kv::Device::kCpu);
  kv::PassArrays arrays(stream), others(stream);
  const auto key = [](kv::PassArrays& to, int num_seqs, int width, uint64_t bound, int token) {
    kv::PassRows rows;
    for (int i = 0; i < num_seqs; ++i) rows.add(0, Ints{token}, 0);
    const int32_t* tables = nullptr;
    to.begin(rows);
    to.add(Ints(static_cast<size_t>(width), token), tables);
    to.launches_depend_on(bound);
    to.allow_replay();
    to.upload();
    return to.graph_key();
  };
  const auto first = key(arrays, 4, 8, 256, 1);
  CHECK(first.has_value());
  CHECK(key(arrays, 4, 8, 256, 2) == first);
  CHECK(key(arrays, 3, 8, 256, 1) != first);
  CHECK(key(arrays, 4, 9, 256, 1) != first);
  CHECK(key(arrays, 4, 8, 512, 1) != first);
  CHECK(key(others, 4, 8, 256, 1) != first);  // another address
  CHECK(key(arrays, 4, 8, 256, 1) == first);  // the same launches once more
  key(arrays, 400, 800, 256, 1);              // a larger buffer, at another address
  CHECK(key(arrays, 4, 8, 256, 1) != first);
  arrays.begin({});
  arrays.upload();
  CHECK_FALSE(arrays.graph_key().has_value());  // allow_replay() was not called
}
