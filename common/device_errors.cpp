#include "common/device_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace kv::cuda_backend {
namespace {

/// "allocating K and V: " or nothing.
std::string prefix(const CudaFailure& f) { return f.call.empty() ? "" : f.call + ": "; }

std::string explain_driver(const CudaFailure& f) {
  const std::string wanted = version_text(f.runtime_version);
  if (f.driver_version == 0) {
    return fmt::format(
        "no NVIDIA driver found, and this build needs one for CUDA {}; install the driver, or in a "
        "container pass the GPU through",
        wanted);
  }
  return fmt::format(
      "the NVIDIA driver is too old: it supports CUDA up to {}, this build needs {}; update the "
      "driver, or build with a CUDA {} toolkit",
      version_text(f.driver_version), wanted, version_text(f.driver_version));
}

std::string explain_architecture(const CudaFailure& f) {
  return fmt::format(
      "this build has no code for {} (sm_{}), it was built for {}; configure again with "
      "-DCMAKE_CUDA_ARCHITECTURES={}",
      f.device.empty() ? "this GPU" : f.device, f.device_arch,
      f.built_for.empty() ? "no GPU" : f.built_for, f.device_arch);
}

std::string explain_out_of_memory(const CudaFailure& f) {
  constexpr double kMiB = 1024.0 * 1024.0;
  return fmt::format(
      "{}out of GPU memory: {} bytes ({:.1f} MiB) asked for, {} bytes ({:.1f} MiB) free; use a "
      "shorter sequence, fewer sequences or a smaller model, or stop what else uses the GPU",
      prefix(f), f.bytes_asked, static_cast<double>(f.bytes_asked) / kMiB, f.bytes_free,
      static_cast<double>(f.bytes_free) / kMiB);
}

}  // namespace

bool is_sticky(int code) {
  constexpr int kSticky[] = {kIllegalAddress,      kLaunchTimeout,      kAssert,
                             kHardwareStackError,  kIllegalInstruction, kMisalignedAddress,
                             kInvalidAddressSpace, kInvalidPc,          kLaunchFailure};
  return std::find(std::begin(kSticky), std::end(kSticky), code) != std::end(kSticky);
}

std::string explain(const CudaFailure& f) {
  switch (f.code) {
    case kMemoryAllocation:
      return explain_out_of_memory(f);
    case kInsufficientDriver:
    case kStubLibrary:
    case kSystemDriverMismatch:
      return explain_driver(f);
    case kNoDevice:
      return "the NVIDIA driver shows no GPU; check nvidia-smi and CUDA_VISIBLE_DEVICES";
    case kDevicesUnavailable:
      return fmt::format(
          "{}the GPU is taken by another process, or its compute mode forbids this; "
          "wait, or choose another with CUDA_VISIBLE_DEVICES",
          prefix(f));
    case kInvalidDeviceFunction:
    case kNoKernelImageForDevice:
    case kUnsupportedPtxVersion:
      return explain_architecture(f);
    default:
      break;
  }
  if (is_sticky(f.code)) {
    return fmt::format(
        "{}{} ({}); this call or work queued before it failed, and CUDA is lost to this process: "
        "start it again, under compute-sanitizer to find the kernel",
        prefix(f), f.name, f.reason);
  }
  return fmt::format("{}{} ({})", prefix(f), f.name, f.reason);
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string architectures_text(const std::string& arch_list) {
  std::istringstream in(arch_list);
  std::string text;
  for (int arch = 0; in >> arch; in.ignore()) {
    text += fmt::format("{}sm_{}", text.empty() ? "" : ", ", arch / 10);
  }
  return text;
}

}  // namespace kv::cuda_backend
