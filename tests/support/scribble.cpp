// new and delete of an exercise's program. Memory is filled before it is given out, and again when
// it comes back, and then it is given out only after a while. So a read of what was never written,
// or is gone, shows in a result (tools/exercises/runs.py knows the patterns).

#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

void fill(void* memory, int byte, std::size_t size) {
  std::memset(memory, byte, size);
  asm volatile(""
               :
               : "r"(memory)
               : "memory");  // a compiler may drop what is not read before free()
}

constexpr std::size_t kNumHeld = 1024, kMostBytes = 4096;  // what comes back, and is no larger
std::atomic<void*> g_held[kNumHeld];
std::atomic<std::size_t> g_next;

}  // namespace

void* operator new(std::size_t size) {
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  fill(memory, 0xA5, size);
  return memory;
}

void operator delete(void* memory) noexcept {
  if (memory == nullptr) return;
  const std::size_t size = malloc_usable_size(memory);
  fill(memory, 0x5A, size);
  std::free(size > kMostBytes ? memory : g_held[g_next++ % kNumHeld].exchange(memory));
}

void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }
