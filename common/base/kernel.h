#pragma once

namespace kv {

/// Which kernels an op runs on. Plain ones are for reading: one order of operations, written down
/// once for the CPU and once for CUDA. Fast ones are what an engine runs. Both keep the promise of
/// equal bits, each among its own: the bits of the two differ.
enum class Kernel { kPlain, kFast };

}  // namespace kv
