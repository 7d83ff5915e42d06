#pragma once

namespace kv {

/// Which kernels attention runs on. Plain ones are for reading and writing, fast ones for use. Both
/// keep the promise of equal bits, each among its own: between the two a tolerance holds.
enum class Kernel { kPlain, kFast };

}  // namespace kv
