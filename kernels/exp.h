#pragma once

// e^x for the CPU's kernels. Unlike the C library's it computes several numbers at once, and gives
// the same bits with every library.

namespace kv {

/// x[i] = e^(x[i] - minus), for n numbers. Each is within 0.502 units of its last place. Neither n
/// nor the index changes a bit.
void exp_each(float* x, int n, float minus = 0.0f);

inline float exp_of(float x) {
  exp_each(&x, 1);
  return x;
}

}  // namespace kv
