#pragma once

// out[i] = x[rows[i]]: the rows of the residual stream whose logits are wanted.

#include "common/device.h"

namespace kv {

struct GatherRowsArgs {
  const float* x = nullptr;       // [.., k]
  const int32_t* rows = nullptr;  // [num_rows], on the stream's device, checked by the caller
  int num_rows = 0;
  int k = 0;
  float* out = nullptr;  // [num_rows, k]
};

void gather_rows_cpu(const GatherRowsArgs& args);
void gather_rows_cuda(const GatherRowsArgs& args, const Stream& stream);
inline void gather_rows(const GatherRowsArgs& args, const Stream& stream) {
  KV_DISPATCH(gather_rows, args, stream);
}

}  // namespace kv
