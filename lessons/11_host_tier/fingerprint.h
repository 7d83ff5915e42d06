#pragma once

// Which model on which device computed K and V.

#include <cstdint>

#include "common/model/model.h"

namespace lesson11 {

/// Of all that K and V of given tokens depend on: every weight, the shape of the model with its
/// windows, the device and its data type, and the kernels chosen now. Reads all weights.
uint64_t fingerprint_of(const kv::Model& model);

}  // namespace lesson11
