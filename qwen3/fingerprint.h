#pragma once

// The identity of the model and of the device that compute K and V.

#include <cstdint>

#include "qwen3/model.h"

namespace kv {

/// A digest of all that K and V of given tokens depend on: every weight, the shape of the model
/// with its windows, the device, its data type and the format of K and V. It also covers the
/// kernels chosen now, and on the CPU the bits of the C library's functions. Reads all weights.
/// `pages` is the cache's format. K and V that a model has rounded to FP8 may lie in a cache as
/// activations or as codes, and these are other bytes.
uint64_t fingerprint_of(const Model& model, KvFormat pages = KvFormat::kActivations);

}  // namespace kv
