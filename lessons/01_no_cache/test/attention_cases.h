#pragma once

// Tests of both kernels of causal attention on the device kDevice, which the including file names:
// the CPU in attention_test.cpp, CUDA in gpu_test.cpp.

#include "attend.h"
#include "tests/support/small_attention.h"

using lesson01_test::attend_with;
constexpr auto kPlain = kv::Kernel::kPlain;
constexpr auto kFast = kv::Kernel::kFast;

// Small cases, for the plain kernel.

TEST_CASE("keys that a query likes equally give it the mean of their values" *
          doctest::test_suite("kernel")) {
  kvtest::check_means(attend_with(kPlain, kDevice), {4});
}

TEST_CASE("a sequence sees its own tokens only" * doctest::test_suite("kernel")) {
  kvtest::check_means(attend_with(kPlain, kDevice), {4, 3, 1});
}

TEST_CASE("the key that a query points at takes all the weight" * doctest::test_suite("kernel")) {
  kvtest::check_pointing(attend_with(kPlain, kDevice));
}

TEST_CASE("neighbouring query heads share K and V" * doctest::test_suite("kernel")) {
  kvtest::check_heads(attend_with(kPlain, kDevice));
}

TEST_CASE("a score is divided by the root of head_dim" * doctest::test_suite("kernel")) {
  kvtest::check_scale(attend_with(kPlain, kDevice));
}

TEST_CASE("scores far below zero still weigh their keys" * doctest::test_suite("kernel")) {
  kvtest::check_far_below_zero(attend_with(kPlain, kDevice));
}

TEST_CASE("scores far above zero do not overflow" * doctest::test_suite("kernel")) {
  kvtest::check_growing_scores(attend_with(kPlain, kDevice));
}

TEST_CASE("with a window a query sees the last keys alone" * doctest::test_suite("kernel")) {
  kvtest::check_window([](int window) { return attend_with(kPlain, kDevice, window); }, 4);
}

TEST_CASE("keys are added in ascending order" * doctest::test_suite("kernel")) {
  kvtest::check_order(attend_with(kPlain, kDevice));
}

TEST_CASE("a few random tokens are close to double precision" * doctest::test_suite("kernel")) {
  kvtest::check_few_random(attend_with(kPlain, kDevice), kDevice, {5, 1, 4});
}

// Large cases, for both kernels.

TEST_CASE("plain attention is close to double precision and to the fast kernel" *
          doctest::test_suite("sweep")) {
  kvtest::check_plain_attention(attend_with(kPlain, kDevice), attend_with(kFast, kDevice), kDevice,
                                1000);
}

TEST_CASE("the bits of attention depend on a query's keys alone" * doctest::test_suite("sweep")) {
  kvtest::check_bits_of_a_query(attend_with(kPlain, kDevice), /*chunks=*/false);
  kvtest::check_bits_of_a_query(
      attend_with(kFast, kDevice), /*chunks=*/false,
      kDevice == kv::Device::kCpu ? kv::BFloat16{0xFFFF} : kv::to_bfloat16(1000.0f));
}

TEST_CASE("huge scores neither overflow nor lose the largest") {
  kvtest::check_extreme_scores(attend_with(kPlain, kDevice));
  kvtest::check_extreme_scores(attend_with(kFast, kDevice));
}
