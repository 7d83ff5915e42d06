#pragma once

// out[row] = index of the largest logit, the lowest index among equals.

#include "common/device.h"

namespace kv {

struct ArgmaxArgs {
  const float* logits = nullptr;  // [num_rows, vocab_size]
  int num_rows = 0;
  int vocab_size = 0;
  int32_t* out = nullptr;  // [num_rows]
};

void argmax_cpu(const ArgmaxArgs& args);
void argmax_cuda(const ArgmaxArgs& args, const Stream& stream);
inline void argmax(const ArgmaxArgs& args, const Stream& stream) {
  KV_DISPATCH(argmax, args, stream);
}

}  // namespace kv
