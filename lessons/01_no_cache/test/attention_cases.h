#pragma once

// What both kernels of causal attention promise, on the device kDevice, which the including file
// has named: attention_test.cpp the CPU, gpu_test.cpp CUDA.

#include "attend.h"

using lesson01_test::attend_with;
constexpr auto kPlain = kv::Kernel::kPlain;
constexpr auto kFast = kv::Kernel::kFast;

TEST_CASE("plain attention is close to double precision and to the fast kernel") {
  kvtest::check_plain_attention(attend_with(kPlain, kDevice), attend_with(kFast, kDevice), kDevice,
                                1000);
}

TEST_CASE("the bits of attention depend on a query's keys alone") {
  kvtest::check_bits_of_a_query(attend_with(kPlain, kDevice), /*chunks=*/false);
  kvtest::check_bits_of_a_query(
      attend_with(kFast, kDevice), /*chunks=*/false,
      kDevice == kv::Device::kCpu ? kv::BFloat16{0xFFFF} : kv::to_bfloat16(1000.0f));
}

TEST_CASE("huge scores neither overflow nor lose the largest") {
  kvtest::check_extreme_scores(attend_with(kPlain, kDevice));
  kvtest::check_extreme_scores(attend_with(kFast, kDevice));
}
