#pragma once

// The ceiling of everything that only moves bytes: how fast a plain copy on the GPU is.

namespace bench {

/// Median bytes per second of a device-to-device copy of 2 GiB, counting bytes read and written.
/// Throws DeviceError.
double copy_bandwidth();

}  // namespace bench
