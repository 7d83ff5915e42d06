#include "tests/model/cublas.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "common/error.h"

// The needed part of cublas_api.h. Status and enumerations are ints.
struct Cublas::Functions {
  int (*create)(void** handle);
  int (*destroy)(void* handle);
  int (*get_version)(void* handle, int* version);
  int (*set_stream)(void* handle, CUstream_st* stream);
  int (*set_workspace)(void* handle, void* workspace, size_t bytes);
  int (*gemm)(void* handle, int transpose_a, int transpose_b, int m, int n, int k,
              const void* alpha, const void* a, int a_type, int lda, const void* b, int b_type,
              int ldb, const void* beta, void* c, int c_type, int ldc, int compute_type,
              int algorithm);
};

namespace {

void check(int status, const char* call) {
  if (status != 0) throw kv::DeviceError(fmt::format("{}: cuBLAS status {}", call, status));
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw kv::DeviceError(fmt::format("cuBLAS has no {}", name));
}

}  // namespace

Cublas::Cublas(const kv::Stream& stream) : call_(std::make_unique<Functions>()) {
#ifndef KV_SIMT  // a simulated GPU is none of its
  for (const char* file : {"libcublas.so.13", "libcublas.so.12"}) {
    if (library_ == nullptr) library_ = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  }
#endif
  if (library_ == nullptr) return;
  find(library_, "cublasCreate_v2", call_->create);
  find(library_, "cublasDestroy_v2", call_->destroy);
  find(library_, "cublasGetVersion_v2", call_->get_version);
  find(library_, "cublasSetStream_v2", call_->set_stream);
  find(library_, "cublasSetWorkspace_v2", call_->set_workspace);
  find(library_, "cublasGemmEx", call_->gemm);
  check(call_->create(&handle_), "cublasCreate");
  check(call_->set_stream(handle_, stream.handle()), "cublasSetStream");
  // Its own, so that nothing is allocated while a graph is captured.
  workspace_ = kv::DeviceBuffer(kv::Device::kCuda, size_t{64} << 20);
  check(call_->set_workspace(handle_, workspace_.data(), workspace_.bytes()), "cublasSetWorkspace");
}

Cublas::~Cublas() {
  if (handle_ != nullptr) call_->destroy(handle_);  // the library stays: it may hold the context
}

std::string Cublas::name() const {
  int v = 0;
  check(call_->get_version(handle_, &v), "cublasGetVersion");
  return fmt::format("cuBLAS {}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

void Cublas::multiply(const void* x, int rows, int k, const void* w, int outputs, void* out,
                      kv::DType type, bool adds) const {
  constexpr int kTransposed = 1, kAsItIs = 0;     // CUBLAS_OP_T, CUBLAS_OP_N
  constexpr int kBf16 = 14, kFp32 = 0;            // CUDA_R_16BF, CUDA_R_32F
  constexpr int kSumsInFp32 = 68, kDefault = -1;  // CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT
  const float one = 1.0f, of_old = adds ? 1.0f : 0.0f;
  // It counts by columns: its matrices are ours transposed, and out^T = w x^T.
  check(call_->gemm(handle_, kTransposed, kAsItIs, outputs, rows, k, &one, w, kBf16, k, x, kBf16, k,
                    &of_old, out, type == kv::DType::kF32 ? kFp32 : kBf16, outputs, kSumsInFp32,
                    kDefault),
        "cublasGemmEx");
}
