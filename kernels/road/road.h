#pragma once

// The road from a matrix product that a beginner writes to the engine's: eight steps, one idea and
// one file each. Steps 1 to 6 want bf16 rows, one bf16 matrix as it is in the file (row-major, not
// packed), k a multiple of 64, and kStore. They promise nothing about bits.

#include <array>

#include "kernels/matmul.h"

namespace kv::road {

void one_thread(const MatmulArgs& args, const Stream& stream);
void one_warp(const MatmulArgs& args, const Stream& stream);
void weights_early(const MatmulArgs& args, const Stream& stream);
void shared_tile(const MatmulArgs& args, const Stream& stream);
void tensor_cores(const MatmulArgs& args, const Stream& stream);
void copies_ahead(const MatmulArgs& args, const Stream& stream);

struct Step {
  const char* idea;
  void (*multiply)(const MatmulArgs&, const Stream&);
  bool packed = false;  // wants the matrix as pack_weights() leaves it
};

inline constexpr std::array<Step, 8> kSteps = {{
    {"a thread for each output", one_thread},
    {"a warp for each output", one_warp},
    {"weights before the input is there", weights_early},
    {"tiles in shared memory", shared_tile},
    {"tensor cores", tensor_cores},
    {"copies ahead", copies_ahead},
    {"packed weights, one pipeline", matmul_by_warps_cuda, true},
    {"warpgroups: the engine's", matmul_cuda, true},
}};

}  // namespace kv::road
