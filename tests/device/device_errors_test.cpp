// One clear line for every way in which CUDA can fail. The lines are pure functions of what is
// known, so they are tested here without a GPU.

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>

#include "common/device_errors.h"

using kv::cuda_backend::CudaFailure;
using kv::cuda_backend::explain;

namespace {

CudaFailure failure(int code) {
  CudaFailure f;
  f.code = code;
  f.name = "cudaErrorName";
  f.reason = "the reason";
  f.call = "launching matmul";
  f.driver_version = 12040;
  f.runtime_version = 13000;
  f.device = "NVIDIA T4";
  f.device_arch = 75;
  f.built_for = "sm_80, sm_90";
  return f;
}

}  // namespace

TEST_CASE("no device: says where to look") {
  CHECK(explain(failure(kv::cuda_backend::kNoDevice)) ==
        "the NVIDIA driver shows no GPU; check nvidia-smi and CUDA_VISIBLE_DEVICES");
}

TEST_CASE("driver too old: says both versions and both ways out") {
  for (const int code :
       {kv::cuda_backend::kInsufficientDriver, kv::cuda_backend::kSystemDriverMismatch}) {
    CHECK(explain(failure(code)) ==
          "the NVIDIA driver is too old: it supports CUDA up to 12.4, this build needs 13.0; "
          "update the driver, or build with a CUDA 12.4 toolkit");
  }
}

TEST_CASE("no driver at all is not called an old one") {
  for (const int code : {kv::cuda_backend::kInsufficientDriver, kv::cuda_backend::kStubLibrary}) {
    CudaFailure f = failure(code);
    f.driver_version = 0;
    CHECK(explain(f) ==
          "no NVIDIA driver found, and this build needs one for CUDA 13.0; install the driver, or "
          "in a container pass the GPU through");
  }
}

TEST_CASE("out of memory: says the bytes asked for and the bytes free") {
  CudaFailure f = failure(kv::cuda_backend::kMemoryAllocation);
  f.call = "allocating GPU memory";
  f.bytes_asked = 3221225472;
  f.bytes_free = 1048576;
  CHECK(explain(f) ==
        "allocating GPU memory: out of GPU memory: 3221225472 bytes (3072.0 MiB) asked for, "
        "1048576 bytes (1.0 MiB) free; use a shorter sequence, fewer sequences or a smaller model, "
        "or stop what else uses the GPU");
}

TEST_CASE("wrong architecture: says what was found and what was built") {
  for (const int code :
       {kv::cuda_backend::kNoKernelImageForDevice, kv::cuda_backend::kInvalidDeviceFunction,
        kv::cuda_backend::kUnsupportedPtxVersion}) {
    CHECK(explain(failure(code)) ==
          "this build has no code for NVIDIA T4 (sm_75), it was built for sm_80, sm_90; configure "
          "again with -DCMAKE_CUDA_ARCHITECTURES=75");
  }
}

TEST_CASE("sticky error: says which call and that the process must start again") {
  for (const int code : {700, 702, 710, 714, 715, 716, 717, 718, 719}) {
    CAPTURE(code);
    CHECK(kv::cuda_backend::is_sticky(code));
    CHECK(explain(failure(code)) ==
          "launching matmul: cudaErrorName (the reason); this call or work queued before it "
          "failed, and CUDA is lost to this process: start it again, under compute-sanitizer to "
          "find the kernel");
  }
  for (const int code : {1, 2, 9, 35, 46, 98, 100, 209, 600}) {
    CHECK_FALSE(kv::cuda_backend::is_sticky(code));
  }
}

TEST_CASE("a GPU that is taken, and an error without a line of its own") {
  CHECK(explain(failure(kv::cuda_backend::kDevicesUnavailable)) ==
        "launching matmul: the GPU is taken by another process, or its compute mode forbids this; "
        "wait, or choose another with CUDA_VISIBLE_DEVICES");
  CHECK(explain(failure(9)) == "launching matmul: cudaErrorName (the reason)");
}

TEST_CASE("every code gives one line, also when nothing else is known") {
  for (int code = 0; code < 1000; ++code) {
    CudaFailure bare;
    bare.code = code;
    for (const CudaFailure& f : {bare, failure(code)}) {
      CAPTURE(explain(f));
      CHECK(!explain(f).empty());
      CHECK(explain(f).find('\n') == std::string::npos);
    }
  }
}

TEST_CASE("versions and architectures are written as people write them") {
  CHECK(kv::cuda_backend::version_text(13000) == "13.0");
  CHECK(kv::cuda_backend::version_text(12040) == "12.4");
  CHECK(kv::cuda_backend::architectures_text("800,900") == "sm_80, sm_90");
  CHECK(kv::cuda_backend::architectures_text("900") == "sm_90");
  CHECK(kv::cuda_backend::architectures_text("800,900,1000") == "sm_80, sm_90, sm_100");
  CHECK(kv::cuda_backend::architectures_text("") == "");
}
