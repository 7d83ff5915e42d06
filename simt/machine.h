#pragma once

// A GPU made of fibers: a kernel is a C++ function that is called once for each CUDA thread.
//
// A worker, one per core, stands for an SM that holds one block of threads (CTA) at a time. A
// thread runs until it has to wait for others, in __syncthreads() or in an exchange of its warp;
// then the worker goes on with another one. A thread gives way only when it waits, so it must not
// spin until another one has written something. A thread that never waits costs a function call.
//
// Threads run in order, or in an order drawn from a seed. A result that depends on the order shows
// a race.
//
//   SIMT_SEED=N      a random order of threads and CTAs; 0, the default: in order
//   SIMT_WORKERS=N   cores to use
//   SIMT_MEMORY=N    GiB of device memory; default 8

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
inline constinit thread_local uint3 threadIdx{}, blockIdx{};
inline constinit thread_local dim3 blockDim, gridDim;

namespace simt {

/// A kernel did what no GPU would survive: a thread missing in a barrier, a wrong mask, a deadlock.
/// The text names the CTA and says what every thread of it was doing.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Options {
  uint64_t seed;
  unsigned workers;
  size_t memory;  // bytes
};
const Options& options();

/// A line of a kernel. As a default argument: the caller's.
struct Where {
  const char* file;
  int line;
  static constexpr Where here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// Call in which a thread waits. It lies on the waiting thread's stack.
struct Call {
  const char* name;
  Where where;
  unsigned mask = 0;  // the lanes of its warp that meet; 0: all threads of the CTA
  void* operand = nullptr;
  /// Called by the last thread to come, for all of them; operands[lane] is each lane's `operand`.
  void (*exchange)(void* const* operands, unsigned lanes) = nullptr;
  bool orders_memory = true;  // writes before the meeting are visible to the others after it
};
/// Returns when all threads that `call` names have come.
void meet(const Call& call);
/// Lets other threads run. For the few loops that wait for a write by another thread of the CTA.
void yield();
/// Two warps wait for each other (bar.sync number, 64). Each number once in a CTA.
void sync_two_warps(int number);

/// The running thread's number in its CTA (x fastest), and its CTA's dynamic shared memory.
unsigned thread_number();
inline unsigned lane() { return thread_number() % 32; }
void* dynamic_shared_bytes();
template <class T>
T* dynamic_shared() {
  return static_cast<T*>(dynamic_shared_bytes());
}

/// Calls f(lane) for each lane of a mask, the lowest first.
template <class F>
void for_each_lane(unsigned lanes, F f) {
  for (; lanes != 0; lanes &= lanes - 1) f(static_cast<size_t>(std::countr_zero(lanes)));
}

/// Starts an asynchronous copy to shared memory (cp.async). The bytes are written as late as the
/// rules allow, so that a thread that reads too early sees the old ones. `from` is null for zeros.
void start_copy_16(void* to, const void* from);
void commit_copies();
void wait_for_copies(size_t pending_groups);

/// A launch. `call` calls the kernel with its arguments.
struct Grid {
  dim3 size, block;
  size_t shared_bytes = 0;
  bool overlaps = false;  // programmatic dependent launch: ordered by wait_for_predecessors() only
  void (*call)(const void*) = nullptr;
  const void* arguments = nullptr;
  const void* kernel = nullptr;  // for tools: whose launch it is

  size_t num_ctas() const { return size_t{size.x} * size.y * size.z; }
  size_t num_threads() const { return size_t{block.x} * block.y * block.z; }
};
/// Runs all CTAs. Throws what a thread threw.
void run(const Grid& grid);
/// The thread sees all that kernels before its own wrote (cudaGridDependencySynchronize).
void wait_for_predecessors();
/// The host sees all that kernels wrote (cudaStreamSynchronize, copies).
void host_waits();

/// kernel<<<size, block, shared_bytes>>>(args...), done when it returns. The arguments lie on the
/// host's stack. Handing them over is the machine's work, which is not checked for races.
template <class... Params, class... Args>
__attribute__((no_sanitize_thread, noinline)) void launch(void (*kernel)(Params...), Grid grid,
                                                          Args&&... args) {
  const auto call = [&]() __attribute__((no_sanitize_thread)) {
    kernel(static_cast<Params>(args)...);
  };
  grid.call = [](const void* f) __attribute__((no_sanitize_thread)) {
    (*static_cast<const decltype(call)*>(f))();
  };
  grid.arguments = &call;
  grid.kernel = reinterpret_cast<const void*>(kernel);
  run(grid);
}

/// Device memory. malloc_device() returns null when there is not enough; its bytes are all ones
/// (NaN). find_memory() gives the allocation that holds an address: its first byte and its size, 0
/// if there is none.
void* malloc_device(size_t bytes);
void free_device(void* p);
size_t free_bytes();
std::pair<uintptr_t, size_t> find_memory(uintptr_t address);

/// For tools: told of what orders accesses. See trace.cpp.
struct Observer {
  virtual ~Observer() = default;
  virtual void on_cta(const Grid& grid, const void* shared) = 0;
  virtual void on_cta_end() = 0;
  virtual void on_sync_threads() = 0;
  virtual void on_sync_warp(unsigned warp) = 0;  // all 32 lanes
};
inline constinit Observer* observer = nullptr;
inline constinit thread_local bool in_kernel = false;

}  // namespace simt
