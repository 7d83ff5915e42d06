// Lesson 02's kernels on the CPU.

#include "common/device.h"

constexpr auto kDevice = kv::Device::kCpu;
#include "attention_cases.h"
