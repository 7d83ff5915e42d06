// Counts what a kernel's loads and stores cost: 32-byte sectors of global memory, passes through
// the banks of shared memory. No kernel is changed for it: kernel files are compiled with
// -fsanitize=thread, which puts a call in front of every access, and here these calls arrive.
//
// A warp's work with one instruction is put together afterwards: between two points where its
// lanes meet, the n-th time that a lane comes to an instruction belongs to the n-th time of the
// others. That is exact as long as loops run equally often in all lanes that take part.
//
//   SIMT_TRACE=FILE   one JSON object for each kernel and for each instruction of it;
//   tools/kernel_traffic.py reads them

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "simt/machine.h"

extern "C" char __data_start, _end;  // the program's variables: __shared__ ones among them

namespace {

using Address = uintptr_t;
using simt::for_each_lane;

/// One instruction, done by the lanes of a warp together.
struct Request {
  unsigned lanes = 0;
  std::array<Address, 32> address{};
};

struct Instruction {
  bool shared = false;
  bool store = false;
  unsigned bytes = 0;  // per lane
  uint64_t requests = 0;
  uint64_t wanted = 0;           // bytes, each once per request
  uint64_t moved = 0, best = 0;  // global: sectors; shared: passes
  struct Kept {
    Request request;
    uint3 block;
    size_t warp;
  };
  std::vector<Kept> kept;  // the first requests, with places counted from an array's beginning
};
constexpr size_t kMostKept = 16;

struct Warp {
  std::unordered_map<Address, std::array<unsigned, 32>> times;  // per instruction and lane
  std::map<std::pair<Address, unsigned>, Request> requests;
};

/// Counts the sectors of 32 bytes that the request touches, and the fewest that could hold its
/// bytes.
void count_sectors(const Request& request, Instruction& i) {
  std::set<Address> sectors, wanted;
  for_each_lane(request.lanes, [&](size_t lane) {
    for (Address b = request.address[lane]; b < request.address[lane] + i.bytes; ++b) {
      sectors.insert(b / 32);
      wanted.insert(b);
    }
  });
  i.wanted += wanted.size();
  i.moved += sectors.size();
  i.best += (wanted.size() + 31) / 32;
}

/// Shared memory has 32 banks of 4 bytes. A pass serves 32 lanes with up to 4 bytes, 16 with 8 or 8
/// with 16; two different words in one bank take one pass more.
void count_passes(const Request& request, Instruction& i) {
  const size_t at_once = i.bytes <= 4 ? 32 : 128 / i.bytes;
  for (size_t first = 0; first < 32; first += at_once) {
    std::array<std::set<Address>, 32> words;
    for_each_lane(request.lanes, [&](size_t lane) {
      if (lane < first || lane >= first + at_once) return;
      for (Address w = request.address[lane] / 4; w <= (request.address[lane] + i.bytes - 1) / 4;
           ++w) {
        words[w % 32].insert(w);
      }
      i.wanted += i.bytes;
    });
    size_t most = 0;
    for (const auto& bank : words) most = std::max(most, bank.size());
    i.moved += most;
    i.best += most > 0;
  }
}

struct Kernel {
  uint64_t launches = 0;
  std::map<Address, Instruction> instructions;  // by 2 * program counter, + 1 for a store
};

class Tracer : public simt::Observer {
 public:
  Tracer() { simt::observer = this; }
  ~Tracer() override {
    simt::observer = nullptr;
    if (const char* path = std::getenv("SIMT_TRACE")) write(path);
  }

  void on_cta(const simt::Grid& grid, const void* shared) override {
    warps_.assign((grid.num_threads() + 31) / 32, {});
    shared_ = reinterpret_cast<Address>(shared);
    shared_bytes_ = grid.shared_bytes;
    kernel_ = &kernels_[reinterpret_cast<Address>(grid.kernel)];
    kernel_->launches += blockIdx.x + blockIdx.y + blockIdx.z == 0;
  }
  void on_cta_end() override { finish_all(); }
  void on_sync_threads() override { finish_all(); }
  void on_sync_warp(unsigned warp) override { finish(warp); }

  void access(Address at, unsigned bytes, bool store, void* from) {
    const bool shared = is_shared(at);
    if (!shared && simt::find_memory(at).second == 0) return;  // the thread's own stack, arguments
    const auto pc = reinterpret_cast<Address>(from) * 2 + store;
    Instruction& instruction = kernel_->instructions[pc];
    instruction.shared = shared;
    instruction.store = store;
    instruction.bytes = bytes;
    const unsigned lane = simt::lane();
    Warp& warp = warps_[simt::thread_number() / 32];
    Request& request = warp.requests[{pc, warp.times[pc][lane]++}];
    request.lanes |= 1u << lane;
    request.address[lane] = at;
  }

 private:
  bool is_shared(Address at) const {
    return at - shared_ < shared_bytes_ || (at >= reinterpret_cast<Address>(&__data_start) &&
                                            at < reinterpret_cast<Address>(&_end));
  }

  void finish_all() {
    for (size_t warp = 0; warp < warps_.size(); ++warp) finish(warp);
  }
  void finish(size_t number) {
    Warp& warp = warps_[number];
    for (const auto& [key, request] : warp.requests) {
      Instruction& i = kernel_->instructions[key.first];
      ++i.requests;
      if (i.kept.size() < kMostKept) i.kept.push_back({placed(request, i), blockIdx, number});
      i.shared ? count_passes(request, i) : count_sectors(request, i);
    }
    warp = {};
  }

  /// With places from the beginning of the first array that is touched.
  static Request placed(Request request, const Instruction& i) {
    if (i.shared) return request;
    Address first = ~Address{};
    for_each_lane(request.lanes, [&](size_t l) { first = std::min(first, request.address[l]); });
    const Address origin = simt::find_memory(first).first;
    for_each_lane(request.lanes, [&](size_t l) { request.address[l] -= origin; });
    return request;
  }

  /// Returns a line of the recording: {"block": [0, 0, 0], "warp": 0, "lanes": {"5": 20}}.
  static std::string text_of(const Instruction& i) {
    std::string all;
    for (const Instruction::Kept& kept : i.kept) {
      const auto& [x, y, z] = kept.block;
      std::string lanes;
      for_each_lane(kept.request.lanes, [&](size_t lane) {
        lanes += (lanes.empty() ? "\"" : ", \"") + std::to_string(lane) +
                 "\": " + std::to_string(kept.request.address[lane]);
      });
      all += (all.empty() ? "{\"block\": [" : ", {\"block\": [") + std::to_string(x) + ", " +
             std::to_string(y) + ", " + std::to_string(z) +
             "], \"warp\": " + std::to_string(kept.warp) + ", \"lanes\": {" + lanes + "}}";
    }
    return all;
  }

  void write(const char* path) const {
    std::FILE* const out = std::fopen(path, "w");
    if (out == nullptr) return std::perror(path);
    Dl_info program{};
    dladdr(&__data_start, &program);
    const auto base = reinterpret_cast<Address>(program.dli_fbase);
    const auto number = [](auto x) { return static_cast<unsigned long>(x); };
    for (const auto& [kernel, told] : kernels_) {
      std::fprintf(out, "{\"program\": \"%s\", \"kernel\": %lu, \"launches\": %lu}\n",
                   program.dli_fname, number(kernel - base), number(told.launches));
      for (const auto& [pc, i] : told.instructions) {
        std::fprintf(
            out,
            "{\"program\": \"%s\", \"kernel\": %lu, \"at\": %lu, \"space\": \"%s\", "
            "\"op\": \"%s\", \"bytes\": %u, \"requests\": %lu, \"wanted\": %lu, \"moved\": %lu, "
            "\"best\": %lu, \"shown\": [%s]}\n",
            program.dli_fname, number(kernel - base), number(pc / 2 - base - 1),
            i.shared ? "shared" : "global", i.store ? "store" : "load", i.bytes, number(i.requests),
            number(i.wanted), number(i.moved), number(i.best), text_of(i).c_str());
      }
    }
    std::fclose(out);
  }

  Address shared_ = 0;
  size_t shared_bytes_ = 0;
  std::vector<Warp> warps_;
  Kernel* kernel_ = nullptr;           // of the CTA that runs
  std::map<Address, Kernel> kernels_;  // by the address of the function
};

Tracer tracer;

inline void access(void* p, unsigned long bytes, bool store, void* from) {
  if (!std::exchange(simt::in_kernel, false)) return;
  tracer.access(reinterpret_cast<Address>(p), static_cast<unsigned>(bytes), store, from);
  simt::in_kernel = true;
}

}  // namespace

// Functions that the compiler calls. The names are the thread sanitizer's, whose library is not
// linked.
extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
#define SIMT_ACCESS(n)                                                                         \
  void __tsan_read##n(void* p) { access(p, n, false, __builtin_return_address(0)); }           \
  void __tsan_write##n(void* p) { access(p, n, true, __builtin_return_address(0)); }           \
  void __tsan_unaligned_read##n(void* p) { access(p, n, false, __builtin_return_address(0)); } \
  void __tsan_unaligned_write##n(void* p) { access(p, n, true, __builtin_return_address(0)); }
SIMT_ACCESS(1)
SIMT_ACCESS(2)
SIMT_ACCESS(4)
SIMT_ACCESS(8)
SIMT_ACCESS(16)
void __tsan_read_range(void* p, unsigned long n) {
  access(p, n, false, __builtin_return_address(0));
}
void __tsan_write_range(void* p, unsigned long n) {
  access(p, n, true, __builtin_return_address(0));
}
// The atomics of atomicAdd() and its kin: done here, and not counted.
#define SIMT_ATOMIC(bits, T)                                                                  \
  T __tsan_atomic##bits##_load(const volatile T* p, int) {                                    \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                              \
  }                                                                                           \
  void __tsan_atomic##bits##_store(volatile T* p, T x, int) {                                 \
    __atomic_store_n(p, x, __ATOMIC_SEQ_CST);                                                 \
  }                                                                                           \
  T __tsan_atomic##bits##_exchange(volatile T* p, T x, int) {                                 \
    return __atomic_exchange_n(p, x, __ATOMIC_SEQ_CST);                                       \
  }                                                                                           \
  T __tsan_atomic##bits##_fetch_add(volatile T* p, T x, int) {                                \
    return __atomic_fetch_add(p, x, __ATOMIC_SEQ_CST);                                        \
  }                                                                                           \
  T __tsan_atomic##bits##_fetch_sub(volatile T* p, T x, int) {                                \
    return __atomic_fetch_sub(p, x, __ATOMIC_SEQ_CST);                                        \
  }                                                                                           \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile T* p, T* old, T x, int, int) {   \
    return __atomic_compare_exchange_n(p, old, x, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }                                                                                           \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile T* p, T* old, T x, int, int) {     \
    return __atomic_compare_exchange_n(p, old, x, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }
SIMT_ATOMIC(8, uint8_t)
SIMT_ATOMIC(16, uint16_t)
SIMT_ATOMIC(32, uint32_t)
SIMT_ATOMIC(64, uint64_t)
void __tsan_atomic_thread_fence(int) {}
}
