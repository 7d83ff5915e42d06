#pragma once

#include "engine.h"
#include "lessons/08_scheduler/test/served.h"

namespace lesson14_test {

/// Lesson 08's configurations, over FP8 pages. Pools are given in blocks of bf16: half as many, so
/// that requests are preempted as before.
inline void check_configurations(kv::Model& model, int num_requests) {
  const lesson08_test::Config configs[] = {
      {16, 0, {}},
      {16, 12, {}},
      {16, 12, {.max_tokens_per_pass = 64, .max_chunk = 16}, 3},
      {16, 12, {.max_tokens_per_pass = 150, .chunked_prefill = false}, 64, true, 5},
      {4, 24, {.max_tokens_per_pass = 32, .max_running = 8}},
      {1, 90, {.max_tokens_per_pass = 128, .max_chunk = 7}, 64, true, 9},
      {64, 3, {}, 64, false},
      {256, 2, {.max_tokens_per_pass = 1000, .max_running = 2, .max_chunk = 100}}};
  lesson08_test::check_configurations<lesson14::Fp8Engine>(model, configs,
                                                           lesson08_test::mixed(num_requests));
}

}  // namespace lesson14_test
