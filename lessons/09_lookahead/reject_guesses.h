#pragma once

// Guesses are judged on the device, right after it has chosen the tokens.
// Source: vLLM's rejection_greedy_sample_kernel (v0.22.1: vllm/v1/sample/rejection_sampler.py).

#include <cstdint>

#include "common/device.h"

namespace lesson09 {

/// All arrays are on the stream's device, with one entry for each row of logits. The rows of a
/// sequence's guesses come right after the row of its last known token, in order. A guess is right
/// if it is what was chosen from the row before it. In `chosen`, -1 replaces the choice from the
/// row of a wrong guess, and from the rows of all guesses after it, right or not.
struct RejectGuessesArgs {
  const int32_t* guesses = nullptr;  // [num_rows], the row's token; -1 for the row of a known token
  int num_rows = 0;
  int32_t* chosen = nullptr;  // in, out: [num_rows], from 0
};

void reject_guesses_cpu(const RejectGuessesArgs& args);
void reject_guesses_cuda(const RejectGuessesArgs& args, const kv::Stream& stream);
inline void reject_guesses(const RejectGuessesArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(reject_guesses, args, stream);
}

}  // namespace lesson09
