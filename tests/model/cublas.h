#pragma once

// NVIDIA's own matrix product, a yardstick for the course's: found when the program runs, in
// libcublas.so.13 or .12 on LD_LIBRARY_PATH or where the system looks. Nothing is linked.

#include <memory>
#include <string>

#include "common/device.h"
#include "common/dtype.h"

class Cublas {
 public:
  /// Its calls are queued on `stream`, which is borrowed.
  explicit Cublas(const kv::Stream& stream);
  ~Cublas();

  /// False where the library is not; then nothing else may be called.
  bool found() const { return library_ != nullptr; }
  /// "cuBLAS 13.1.0".
  std::string name() const;
  /// out[rows, outputs] = x[rows, k] w[outputs, k]^T: bf16 in, sums in fp32, `type` out. adds: to
  /// what `out` holds.
  void multiply(const void* x, int rows, int k, const void* w, int outputs, void* out,
                kv::DType type = kv::DType::kBF16, bool adds = false) const;

 private:
  struct Functions;
  std::unique_ptr<Functions> call_;
  kv::DeviceBuffer workspace_;
  void* library_ = nullptr;
  void* handle_ = nullptr;
};
