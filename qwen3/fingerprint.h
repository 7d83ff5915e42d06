#pragma once

// The identity of the model and of the device that compute K and V.

#include <cstdint>

#include "qwen3/model.h"

namespace kv {

/// A digest of all that K and V of given tokens depend on: every weight, the shape of the model
/// with its windows, the device, its data type and the format of K and V. It also covers the
/// kernels chosen now, and on the CPU the bits of the C library's functions. Reads all weights.
uint64_t fingerprint_of(const Model& model);

}  // namespace kv
