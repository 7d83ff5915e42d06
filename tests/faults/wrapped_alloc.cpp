// The linker calls this instead of aligned_alloc, which common/device.cpp uses for tensors.

#include <cstddef>

#include "programs/allocations.h"

extern "C" {
void* __real_aligned_alloc(size_t alignment, size_t bytes);   // NOLINT
void* __wrap_aligned_alloc(size_t alignment, size_t bytes) {  // NOLINT
  return kv::fails_now() ? nullptr : __real_aligned_alloc(alignment, bytes);
}
}
