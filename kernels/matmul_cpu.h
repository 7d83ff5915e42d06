#pragma once

// The instruction sets of the CPU matmul, for tests that compare their bits.

#include <vector>

#include "kernels/matmul_isa.h"

namespace kv {

/// The instruction sets that this machine and this build can run, fastest first, "portable" last.
/// matmul_cpu() uses the first, or the one that the environment variable KV_ISA names.
std::vector<const MatmulIsa*> available_matmul_isas();

/// Makes matmul_cpu() use `isa` from now on; null restores the default. Must not be called while a
/// product is being computed.
void force_matmul_isa(const MatmulIsa* isa);

/// Multiply-adds per second of all threads in registers, without reading memory. No product on this
/// machine exceeds it. The measurement takes some 50 ms.
double multiply_adds_per_second();

}  // namespace kv
