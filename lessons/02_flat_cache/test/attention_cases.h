#pragma once

// What lesson 02's kernels promise, on the device kDevice, which the including file has named:
// attention_test.cpp the CPU, gpu_test.cpp CUDA.

#include "attend.h"
#include "lessons/01_no_cache/test/attend.h"

using lesson02_test::attend_with;
constexpr auto kPlain = kv::Kernel::kPlain;
constexpr auto kFast = kv::Kernel::kFast;

TEST_CASE("append_kv writes its slots and no other byte of the cache") {
  const kv::Stream stream(kDevice);
  for (const int row_elements : {256, 1024, 40, 8}) {
    CAPTURE(row_elements);
    constexpr size_t kSlots = 80;
    const size_t row_bytes = static_cast<size_t>(row_elements) * kvtest::row_bytes(stream);
    const std::vector<int64_t> slab_begin{40, 3, 70};
    const std::vector<int32_t> row_seq{1, 0, 2, 0, 1, 2, 0}, row_position{0, 5, 9, 6, 36, 0, 0};
    const auto num_rows = static_cast<int>(row_seq.size());
    const kvtest::Rows random = kvtest::random_bf16(int64_t{2} * num_rows * row_elements, 1);
    const auto k_and_v = kvtest::upload_rows(random, stream);
    const auto seqs = kvtest::upload(row_seq, stream);
    const auto positions = kvtest::upload(row_position, stream);
    const auto begins = kvtest::upload(slab_begin, stream);
    const kv::DeviceBuffer caches[] = {kvtest::poisoned(kSlots * row_bytes, stream),
                                       kvtest::poisoned(kSlots * row_bytes, stream)};
    lesson02::append_kv({.k = k_and_v.data(),
                         .v = k_and_v.as<std::byte>() + k_and_v.bytes() / 2,
                         .row_seq = seqs.as<const int32_t>(),
                         .row_position = positions.as<const int32_t>(),
                         .slab_begin = begins.as<const int64_t>(),
                         .num_rows = num_rows,
                         .row_elements = row_elements,
                         .k_cache = caches[0].data(),
                         .v_cache = caches[1].data()},
                        stream);
    const auto in = kvtest::download<std::byte>(k_and_v.data(), k_and_v.bytes(), stream);
    const std::byte* next = in.data();
    for (const kv::DeviceBuffer& cache : caches) {
      std::vector<std::byte> want(cache.bytes(), std::byte{0xFF});
      for (size_t row = 0; row < row_seq.size(); ++row, next += row_bytes) {
        const int64_t slot = slab_begin[static_cast<size_t>(row_seq[row])] + row_position[row];
        std::copy_n(next, row_bytes, &want[static_cast<size_t>(slot) * row_bytes]);
      }
      CHECK(kvtest::download<std::byte>(cache.data(), cache.bytes(), stream) == want);
    }
  }
}

TEST_CASE("plain attention over slabs is close to double precision and to the fast kernel") {
  kvtest::check_plain_attention(attend_with(kPlain, kDevice), attend_with(kFast, kDevice), kDevice,
                                3);
}

TEST_CASE("the bits of attention over slabs depend on a query's keys alone") {
  kvtest::check_bits_of_a_query(attend_with(kPlain, kDevice), /*chunks=*/true);
  kvtest::check_bits_of_a_query(
      attend_with(kFast, kDevice), /*chunks=*/true,
      kDevice == kv::Device::kCpu ? kv::BFloat16{0xFFFF} : kv::to_bfloat16(1000.0f));
}

TEST_CASE("attention has lesson 01's bits wherever the slabs are and whatever else they hold") {
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
