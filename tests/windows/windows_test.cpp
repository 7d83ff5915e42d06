// Sliding windows on the CPU.
#include "common/device.h"
namespace {
constexpr kv::Device kDevice = kv::Device::kCpu;
}
#include "tests/windows/cases.h"
