#pragma once

// The instruction sets of the CPU matmul, for tests that compare their bits.

#include <vector>

#include "kernels/matmul_isa.h"

namespace kv {

/// What this machine and this build can run, fastest first; the last one is "portable".
/// matmul_cpu() uses the first, or the one that the environment variable KV_ISA names.
std::vector<const MatmulIsa*> available_matmul_isas();

/// Makes matmul_cpu() use `isa` from now on; null ends that. Not while a product is being computed.
void force_matmul_isa(const MatmulIsa* isa);

/// Multiply-adds per second of all threads in registers, reading no memory: what no product on this
/// machine exceeds. Takes some 50 ms.
double multiply_adds_per_second();

}  // namespace kv
