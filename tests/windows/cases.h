// Cases for either device. A file that includes this has named the device kDevice.

#include <doctest/doctest.h>

#include "tests/windows/windows.h"

/// Cases of seconds on the simulated GPU.
#define KERNEL doctest::test_suite("kernel")

TEST_CASE("windows: a few tokens, every lesson's kernel, the same bits" * KERNEL) {
  windows::check_equal_bits(kDevice, {4, 2, 64}, {1, 17, 64, 65}, {1, 3, 40}, 90);
}
TEST_CASE("windows: a query's window is all it sees, few tokens" * KERNEL) {
  windows::check_last_keys(kDevice, {1, 17});
}
TEST_CASE("windows: what lies before them leaves no trace, a few queries" * KERNEL) {
  windows::check_before_window(kDevice, {4, 2, 64}, {1, 60, 64}, {1, 5});
}

// A GPU has time for more of them.
constexpr bool kMore = kDevice == kv::Device::kCuda;

TEST_CASE("windows: every lesson's kernel, the same bits for any window and any chunk" *
          doctest::test_suite("sweep")) {
  std::vector<int> sizes{1, 17, 63, 64, 65, 128, 255, 256, 257, 400}, chunks{1, 9, 100, 350};
  if (kMore) {
    for (const int size : {2, 15, 16, 127, 129, 192, 300, 599}) sizes.push_back(size);
    for (const int chunk : {2, 5, 33}) chunks.push_back(chunk);
  }
  windows::check_equal_bits(kDevice, {4, 2, kMore ? 128 : 64}, sizes, chunks, 600);
}
TEST_CASE("windows: every head size and grouping, the same bits" * doctest::test_suite("sweep")) {
  for (const kvtest::HeadShape shape :
       {kvtest::HeadShape{8, 8, 128}, kvtest::HeadShape{16, 8, 128}, kvtest::HeadShape{16, 2, 80},
        kvtest::HeadShape{6, 2, 96}, kvtest::HeadShape{8, 2, 32}, kvtest::HeadShape{12, 1, 64}}) {
    CAPTURE(shape.head_dim);
    CAPTURE(shape.num_heads);
    if (kMore) {  // of 560 tokens, 112 and 240 begin with a tile that begins no group
      windows::check_equal_bits(kDevice, shape, {1, 40, 64, 112, 200, 240}, {1, 3, 11, 70}, 560);
    }
    windows::check_equal_bits(kDevice, shape, {40, 257}, {3, 70}, kMore ? 560 : 330);
  }
}
TEST_CASE("windows: a query's window is all it sees") {
  windows::check_last_keys(kDevice, {1, 2, 63, 64, 65, 130, 256, 257, 600});
}
TEST_CASE("windows: the first window gives the bits of no window") {
  windows::check_first_window(kDevice);
}
TEST_CASE("windows: what lies before them leaves no trace" * doctest::test_suite("sweep")) {
  const std::vector<int> sizes{1, 15, 16, 17, 63, 64, 65, 74, 75, 128, 200, 256, 257};
  windows::check_before_window(kDevice, {4, 2, 64}, sizes, {1, 2, 9, 33, 70});
  if (kMore) windows::check_before_window(kDevice, {8, 8, 64}, sizes, {1, 2});
}
TEST_CASE("windows: close to double precision, plain and fast" * doctest::test_suite("sweep")) {
  windows::check_close_to_truth(kDevice);
}
