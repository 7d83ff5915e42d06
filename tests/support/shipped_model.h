#pragma once

// The model that ships, for tests: loaded once per test binary.

#include <vector>

#include "qwen3/engine.h"
#include "qwen3/model.h"

namespace kvtest {

/// models/tiny.
template <kv::Device kDevice = kv::Device::kCpu>
kv::Model& shipped_model() {
  static kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kDevice);
  return model;
}

/// A request for `max_tokens` tokens after a prompt of `prompt_tokens` ordinary tokens that `seed`
/// picks. It has no stop tokens, so it runs to its full length.
inline kv::Request request_of(int prompt_tokens, int max_tokens, int seed = 0) {
  kv::Request request;
  for (int i = 0; i < prompt_tokens; ++i) {
    request.prompt.push_back(256 + (i * 7919 + seed * 104729 + 17) % 1024);
  }
  request.max_tokens = max_tokens;
  return request;
}

/// Prompts short and long, one token, and none.
inline std::vector<kv::Request> some_requests() {
  return {request_of(4, 20), request_of(6, 7), request_of(300, 3), request_of(1, 1),
          request_of(1, 0)};
}

}  // namespace kvtest
