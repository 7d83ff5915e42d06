// Device memory: the host's, counted and limited.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "simt/machine.h"

namespace simt {
namespace {

struct Memory {
  std::mutex mutex;
  std::map<uintptr_t, size_t> sizes;  // by first byte
  size_t used = 0;
};
Memory& memory() {
  static Memory* const instance = new Memory;  // static objects may free device memory at the end
  return *instance;
}

}  // namespace

void* malloc_device(size_t bytes) {
  Memory& m = memory();
  const std::scoped_lock lock(m.mutex);
  void* p = nullptr;
  if (bytes > options().memory - m.used || posix_memalign(&p, 256, bytes) != 0) return nullptr;
  std::memset(p, 0xFF, std::min<size_t>(bytes, 16 << 20));
  m.sizes[reinterpret_cast<uintptr_t>(p)] = bytes;
  m.used += bytes;
  return p;
}
void free_device(void* p) {
  if (p == nullptr) return;
  Memory& m = memory();
  const std::scoped_lock lock(m.mutex);
  const auto found = m.sizes.find(reinterpret_cast<uintptr_t>(p));
  if (found == m.sizes.end()) throw Error("cudaFree: not what cudaMalloc gave, or freed twice");
  m.used -= found->second;
  m.sizes.erase(found);
  std::free(p);
}
size_t free_bytes() {
  Memory& m = memory();
  const std::scoped_lock lock(m.mutex);
  return options().memory - m.used;
}
std::pair<uintptr_t, size_t> find_memory(uintptr_t address) {
  Memory& m = memory();
  const std::scoped_lock lock(m.mutex);
  const auto after = m.sizes.upper_bound(address);
  if (after == m.sizes.begin()) return {0, 0};
  const auto& [begin, bytes] = *std::prev(after);
  return address - begin < bytes ? std::pair{begin, bytes} : std::pair<uintptr_t, size_t>{0, 0};
}

}  // namespace simt
