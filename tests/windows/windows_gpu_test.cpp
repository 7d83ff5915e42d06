// Sliding windows on CUDA.
#include "common/device.h"
namespace {
constexpr kv::Device kDevice = kv::Device::kCuda;
}
#include "tests/windows/cases.h"
