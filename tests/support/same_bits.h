#pragma once

// Two runs are the same run: tokens, bits of the logits, and how each request ended.

#include <doctest/doctest.h>

#include "qwen3/engine.h"
#include "tests/support/shipped_model.h"

namespace kvtest {

inline void check_equal(const kv::GenerateResult& a, const kv::GenerateResult& b) {
  REQUIRE(a.completions.size() == b.completions.size());
  for (size_t i = 0; i < a.completions.size(); ++i) {
    CAPTURE(i);
    CHECK(a.completions[i].tokens == b.completions[i].tokens);
    CHECK(a.completions[i].logits_xxh64 == b.completions[i].logits_xxh64);
    CHECK(a.completions[i].finish == b.completions[i].finish);
  }
}

/// A request whose first `shared` tokens are the same for all seeds, with `own` tokens after them.
inline kv::Request with_system_prompt(int shared, int own, int seed, int max_tokens = 8) {
  kv::Request request = request_of(shared, max_tokens);
  const kv::Request tail = request_of(own, 0, seed);
  request.prompt.insert(request.prompt.end(), tail.prompt.begin(), tail.prompt.end());
  return request;
}

}  // namespace kvtest
