#pragma once

// e^x for the CPU's kernels: many numbers at once, where the C library takes one after the other,
// and the same bits with every library.

namespace kv {

/// x[i] = e^(x[i] - minus), for n numbers. Each is within 0.502 of its last place; how many there
/// are, and where they stand, changes no bit.
void exp_each(float* x, int n, float minus = 0.0f);

inline float exp_of(float x) {
  exp_each(&x, 1);
  return x;
}

}  // namespace kv
