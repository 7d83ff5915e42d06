#pragma once

// Exchanges between the lanes of a warp, and functions for the instructions that fast kernels write
// in PTX: the tensor core's m16n8k16 step, ldmatrix, the mbarrier that copies arrive at.

#include <cstdint>

#include "simt/machine.h"

namespace simt {

/// The value of lane `source`; all ones if that lane takes no part.
uint64_t shuffle_bits(const char* name, unsigned mask, uint64_t bits, unsigned source, Where where);
/// All lanes' values, 0 for those that take no part.
std::array<uint64_t, 32> gather(const char* name, unsigned mask, uint64_t bits, Where where);
/// Orders everything, among all threads that call it.
void fence();

/// d += a b, in plain fp32 from k = 0 on: near the hardware's sums, not their bits
/// (mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32).
void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                  Where where = Where::here());

/// Lane l names row l % 8 of matrix l / 8 (ldmatrix.sync.aligned.m8n8.x4[.trans].shared.b16).
void load_matrices(uint32_t (&r)[4], const void* row, bool transposed, Where where = Where::here());

/// An mbarrier in 8 bytes of shared memory.
void init_mbarrier(uint64_t* barrier, int arrivals);
/// Arrives when this thread's copies have (cp.async.mbarrier.arrive.noinc).
void arrive_with_copies(uint64_t* barrier);
/// Waits until the phase of this parity is over.
void wait_for_phase(uint64_t* barrier, int parity);

}  // namespace simt
