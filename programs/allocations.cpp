#include "programs/allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> count{0};
std::atomic<int64_t> left{0};  // until one fails
std::atomic<bool> later{false};
std::atomic<bool> failed{false};

void* allocate(size_t bytes, size_t alignment) {
  count.fetch_add(1, std::memory_order_relaxed);
  void* data = nullptr;
  if (kv::fails_now() || posix_memalign(&data, alignment, bytes == 0 ? 1 : bytes) != 0) {
    throw std::bad_alloc();
  }
  return data;
}

}  // namespace

namespace kv {

int64_t num_allocations() { return count.load(std::memory_order_relaxed); }

void fail_allocation(int64_t nth, bool and_all_later) {
  left = 0;
  failed = false;
  later = and_all_later;
  left = nth;
}

bool fails_now() {
  if (failed.load(std::memory_order_relaxed)) return later.load(std::memory_order_relaxed);
  if (left.load(std::memory_order_relaxed) == 0) return false;
  if (left.fetch_sub(1, std::memory_order_relaxed) != 1) return false;
  failed.store(true, std::memory_order_relaxed);
  return true;
}

bool allocation_failed() { return failed; }

}  // namespace kv

// The program's own, instead of the library's.
void* operator new(size_t bytes) { return allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<size_t>(alignment));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* data, const std::nothrow_t&) noexcept { std::free(data); }
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, size_t) noexcept { std::free(data); }
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, size_t, std::align_val_t) noexcept { std::free(data); }
