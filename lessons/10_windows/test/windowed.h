#pragma once

// Checks that the bits are those of lesson 02, whatever is forgotten. For any device.

#include <vector>

#include "lessons/08_scheduler/test/served.h"
#include "lessons/10_windows/engine.h"
#include "tests/support/windowed_model.h"

using lesson10::WindowsEngine;

namespace lesson10_test {

/// Pools, blocks, chunks, preemption, caching, the gate, resets. Small pools hold one request.
inline void check_configurations(kv::Model& model, int num_requests) {
  const lesson08_test::Config configs[] = {
      {16, 0, {}},
      {16, 40, {}},
      {16, 40, {.max_tokens_per_pass = 64, .max_chunk = 16}, 3},
      {16, 40, {.max_tokens_per_pass = 64, .max_chunk = 16, .full_sequence_must_fit = false}},
      {16, 60, {.max_tokens_per_pass = 150, .chunked_prefill = false}, 64, true, 5},
      {4, 110, {.max_tokens_per_pass = 32, .max_running = 8}},
      {1, 420, {.max_tokens_per_pass = 128, .max_chunk = 7}, 64, true, 9},
      {64, 9, {}, 64, false},
      {16, 24, {.max_tokens_per_pass = 16}, 0},
      {256, 6, {.max_tokens_per_pass = 1000, .max_running = 2, .max_chunk = 100}}};
  std::vector<kv::Request> requests = lesson08_test::mixed(num_requests);
  const auto further = kv::samples_of(requests[0], 3);
  requests.insert(requests.begin() + 1, further.begin() + 1, further.end());
  lesson08_test::check_configurations<WindowsEngine>(model, configs, requests);
}

}  // namespace lesson10_test
