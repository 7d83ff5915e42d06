// new and delete of an exercise's program. Memory is filled before it is given out, and again when
// it comes back. So a read of what was never written, or is gone, shows in a result.

#include <malloc.h>

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

}  // namespace

void* operator new(std::size_t size) {
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  fill(memory, 0xA5, size);
  return memory;
}

void operator delete(void* memory) noexcept {
  if (memory != nullptr) fill(memory, 0x5A, malloc_usable_size(memory));
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }
