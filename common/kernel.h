#pragma once

namespace kv {

/// The kernels that attention runs on. Plain kernels are for reading and for exercises, fast ones
/// for use. All plain kernels give equal bits, and so do all fast ones. Plain and fast results
/// agree within a tolerance.
enum class Kernel { kPlain, kFast };

}  // namespace kv
