#pragma once

// Tests of lesson 02's kernels on the device kDevice, which the including file names: the CPU in
// attention_test.cpp, CUDA in gpu_test.cpp.

#include "attend.h"
#include "lessons/01_no_cache/test/attend.h"
#include "tests/support/readable.h"
#include "tests/support/small_attention.h"

using lesson02_test::attend_with;
constexpr auto kPlain = kv::Kernel::kPlain;
constexpr auto kFast = kv::Kernel::kFast;

// Small cases, for the lesson's own kernels.

/// K of row r: 16 (r + 1) in its element 0, then one more in each, up to 12 more and from 0 again.
/// V is the negative.
inline kvtest::Rows numbered_rows(int num_rows, int row_elements, float sign) {
  kvtest::Rows rows;
  for (int r = 0; r < num_rows; ++r) {
    for (int i = 0; i < row_elements; ++i) {
      rows.push_back(kv::to_bfloat16(sign * static_cast<float>(16 * (r + 1) + i % 13)));
    }
  }
  return rows;
}

/// Slot s of the cache holds numbered row rows[s]; -1: it was not written.
inline void check_slots(const std::string& name, const kv::DeviceBuffer& cache, float sign,
                        const std::vector<int>& rows, const kv::Stream& stream) {
  const std::vector<float> found = kvtest::download_rows(cache, stream);
  const size_t n = found.size();
  for (size_t i = 0; i < n; ++i) {
    const size_t slot = i * rows.size() / n, element = i % (n / rows.size());
    INFO(name, ": slot ", slot, ", element ", element,
         ". Rows that belong into slots 0, 1, ...: ", rows);
    if (rows[slot] < 0) {
      INFO("no row belongs there");
      REQUIRE(std::isnan(found[i]));
    } else {
      const int wanted = 16 * (rows[slot] + 1) + static_cast<int>(element % 13);
      REQUIRE(found[i] == sign * static_cast<float>(wanted));
    }
  }
}

TEST_CASE("append_kv puts rows into the slots of their slabs, and nothing anywhere else" *
          doctest::test_suite("kernel")) {
  const kv::Stream stream(kDevice);
  for (const int row_elements : {8, 2048, 4104}) {
    CAPTURE(row_elements);
    const auto k = kvtest::upload_rows(numbered_rows(4, row_elements, 1.0f), stream);
    const auto v = kvtest::upload_rows(numbered_rows(4, row_elements, -1.0f), stream);
    const size_t bytes = k.bytes() / 4 * 9;
    const auto k_cache = kvtest::poisoned(bytes, stream), v_cache = kvtest::poisoned(bytes, stream);
    // Sequence 0 has slots 5 to 8, sequence 1 slots 0 to 3.
    const lesson02_test::Append append(stream, {5, 0}, {1, 0, 0, 1}, {2, 1, 0, 0});
    append(row_elements, k, v, k_cache.data(), v_cache.data());
    check_slots("K", k_cache, 1.0f, {3, -1, 0, -1, -1, 2, 1, -1, -1}, stream);
    check_slots("V", v_cache, -1.0f, {3, -1, 0, -1, -1, 2, 1, -1, -1}, stream);
  }
}

TEST_CASE("append_kv finds slots whose numbers and elements need more than 31 bits" *
          doctest::test_suite("kernel")) {
  const kv::Stream stream(kDevice);
  const auto k = kvtest::upload_rows(numbered_rows(1, 8, 1.0f), stream);
  const auto v = kvtest::upload_rows(numbered_rows(1, 8, -1.0f), stream);
  for (const int64_t slot : {int64_t{1} << 29, int64_t{1} << 32}) {
    CAPTURE(slot);
    const auto k_cache = kvtest::poisoned(2 * k.bytes(), stream);
    const auto v_cache = kvtest::poisoned(2 * k.bytes(), stream);
    const auto absent = slot * static_cast<int64_t>(k.bytes());
    const lesson02_test::Append append(stream, {slot}, {0}, {1});  // lives until the rows are read
    append(8, k, v, kvtest::without_first(k_cache.data(), absent),
           kvtest::without_first(v_cache.data(), absent));
    check_slots("K", k_cache, 1.0f, {-1, 0}, stream);
    check_slots("V", v_cache, -1.0f, {-1, 0}, stream);
  }
}

TEST_CASE("a query sees its own token and those before it in the slab" *
          doctest::test_suite("kernel")) {
  kvtest::check_means(attend_with(kPlain, kDevice), {4});
}

TEST_CASE("the rows of a pass are the last tokens of their sequences" *
          doctest::test_suite("kernel")) {
  kvtest::check_means(attend_with(kPlain, kDevice), {1});
  kvtest::check_means(attend_with(kPlain, kDevice), {2});
  kvtest::check_means(attend_with(kPlain, kDevice), {1, 3, 1});
}

TEST_CASE("every sequence reads its own slab" * doctest::test_suite("kernel")) {
  const lesson02_test::Layout turned{.spare_slots = 1, .last_slab_first = true, .first_slot = 2};
  kvtest::check_means(attend_with(kPlain, kDevice, turned), {4, 3, 1});
  kvtest::check_means(attend_with(kPlain, kDevice, turned), {2, 1, 1});
}

TEST_CASE("neighbouring query heads share K and V of a slot" * doctest::test_suite("kernel")) {
  kvtest::check_heads(attend_with(kPlain, kDevice));
}

TEST_CASE("the slot that a query points at takes all the weight" * doctest::test_suite("kernel")) {
  kvtest::check_pointing(attend_with(kPlain, kDevice));
}

TEST_CASE("scores far below zero still weigh their slots" * doctest::test_suite("kernel")) {
  kvtest::check_far_below_zero(attend_with(kPlain, kDevice));
}

TEST_CASE("with a window a query sees the last keys alone" * doctest::test_suite("kernel")) {
  kvtest::check_window([](int window) { return attend_with(kPlain, kDevice, {.window = window}); },
                       1);
}

TEST_CASE("slots are added in ascending order" * doctest::test_suite("kernel")) {
  kvtest::check_order(attend_with(kPlain, kDevice));
}

TEST_CASE("slots of more than 31 bits are found where they are" * doctest::test_suite("kernel")) {
  for (const int64_t absent : {int64_t{1} << 27, int64_t{1} << 32}) {
    kvtest::check_means(attend_with(kPlain, kDevice, {.absent = absent}), {4, 3, 1});
  }
}

TEST_CASE("a few random tokens in slabs are close to double precision" *
          doctest::test_suite("kernel")) {
  kvtest::check_few_random(attend_with(kPlain, kDevice), kDevice, {2, 1, 4});
}

// Large cases, for both kernels.

TEST_CASE("plain attention over slabs is close to double precision and to the fast kernel" *
          doctest::test_suite("sweep")) {
  kvtest::check_plain_attention(attend_with(kPlain, kDevice), attend_with(kFast, kDevice), kDevice,
                                3);
}

TEST_CASE("the bits of attention over slabs depend on a query's keys alone" *
          doctest::test_suite("sweep")) {
  kvtest::check_bits_of_a_query(attend_with(kPlain, kDevice), /*chunks=*/true);
  kvtest::check_bits_of_a_query(
      attend_with(kFast, kDevice), /*chunks=*/true,
      kDevice == kv::Device::kCpu ? kv::BFloat16{0xFFFF} : kv::to_bfloat16(1000.0f));
}

TEST_CASE("attention has lesson 01's bits wherever the slabs are and whatever else they hold" *
          doctest::test_suite("sweep_gpu")) {
  for (const kv::Kernel kernel : {kPlain, kFast}) {
    std::vector<kvtest::Attend> others;
    // Unused slots as bf16: NaN; 0; close to infinity (0x7F7F, 3.4e38); -1.1e-18; 4.2e21.
    for (const int unused : {0xFF, 0x00, 0x7F, 0xA1, 0x63}) {
      others.push_back(attend_with(kernel, kDevice, {.unused = unused}));
    }
    for (const lesson02_test::Layout& layout :
         {lesson02_test::Layout{.spare_slots = 100, .last_slab_first = true},
          lesson02_test::Layout{.more_tokens = 40000, .runs = 3},
          lesson02_test::Layout{.more_rows = 400}}) {
      others.push_back(attend_with(kernel, kDevice, layout));
    }
    kvtest::check_equal_bits(lesson01_test::attend_with(kernel, kDevice), others,
                             {{1, 1, 1}, {2, 33, 3}, {1, 0, 16}, {70, 1, 8}});
  }
}

TEST_CASE("attention over slabs: huge scores neither overflow nor lose the largest") {
  kvtest::check_extreme_scores(attend_with(kPlain, kDevice));
  kvtest::check_extreme_scores(attend_with(kFast, kDevice));
}
