#pragma once

// The kernels of docs/gpu.md, small enough to be read at one sitting. Each launcher queues work.

#include "common/device.h"

namespace first_kernels {

/// Which version of a kernel: as it should be, or with the mistake that the page shows.
enum class Version { kRight, kWrong };

constexpr int kThreads = 64;  // of a CTA: two warps
constexpr int kColumns = 8;   // of the matrix that column_of() reads

/// out[i] = 2 in[i] for i < n.
void twice(const float* in, float* out, int n, const kv::Stream& stream);

/// out[i] = in[i, 0] of a matrix [n, kColumns].
void column_of(const float* in, float* out, int n, const kv::Stream& stream);

/// Sums 32 numbers in two ways, and writes what each lane ends with: down[lane] by shuffles that
/// pass a value down, all[lane] by kv::warp_sum().
void sums_of_lanes(const float* in, float* down, float* all, const kv::Stream& stream);

/// out[lane] = in[0] + ... + in[n - 1] for the 32 lanes of a warp, n <= 32.
void sum_of_first(const float* in, float* out, int n, Version version, const kv::Stream& stream);

/// scores [16, 8] = the products of 16 queries and 8 keys of 16 elements, two bf16 in each of q and
/// k; holder [16, 8] = the lane that ends with each score. One tensor core instruction.
void scores(const uint32_t* q, const uint32_t* k, float* scores, float* holder,
            const kv::Stream& stream);

/// out[row] = the variance of a row of kThreads numbers.
void variances(const float* in, float* out, int rows, Version version, const kv::Stream& stream);

/// *out = in[0] + ... + in[n - 1]; partial[cta] = the sum of that CTA's numbers.
void sum(const float* in, float* partial, float* out, int n, const kv::Stream& stream);

/// Reverses the words of each tile of kThreads words of 16 bytes.
void reverse_tiles(const void* in, void* out, int tiles, Version version, const kv::Stream& stream);

}  // namespace first_kernels
