#pragma once

// A fiber: a stack, and a place in a function to go on from. Here every CUDA thread that has to
// wait for others waits in a fiber of its own. A switch saves the registers that a function call
// keeps and costs a few nanoseconds; swapcontext() would ask the kernel for signal masks each time.
//
// Address and thread sanitizer follow a program by its stack, so both are told of each switch. The
// build defines SIMT_ASAN or SIMT_TSAN; the machine itself is not instrumented for races.

#include <cstddef>

namespace simt {

class Fiber {
 public:
  static constexpr size_t kStackBytes = 256 << 10;  // untouched pages cost nothing
  static constexpr size_t kGuardBytes = 64 << 10;   // running over the end is a fault

  Fiber() = default;  // stands for an OS thread, which has a stack already
  /// Makes a fiber that will begin with first(), which never returns. `number` shifts the top of
  /// the stack, because tops at multiples of 4,096 bytes would share a set of the cache.
  Fiber(void (*first)(), size_t number);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  /// Sets the fiber back to the beginning of first(). The content of its stack is lost.
  void rewind();
  /// Leaves this fiber, the running one, for `to`. Returns when another fiber switches back.
  void switch_to(Fiber& to);
  /// first() calls it first; `home` is the OS thread's fiber.
  void arrived(Fiber* home);
  /// The name in reports of races.
  void set_name(const char* name);

 private:
  char* stack() const { return static_cast<char*>(memory_) + kGuardBytes; }

  void (*first_)() = nullptr;
  size_t shift_ = 0;
  void* memory_ = nullptr;  // guard and stack; none for an OS thread's
  void* sp_ = nullptr;      // where the registers are saved
  // For the sanitizers: ASan's record of the stack, the OS thread's own stack, TSan's fiber.
  void* fake_stack_ = nullptr;
  const void* home_stack_ = nullptr;
  size_t home_bytes_ = 0;
  void* tsan_ = nullptr;
};

#ifdef SIMT_TSAN
inline constexpr bool kFindsRaces = true;
#else
inline constexpr bool kFindsRaces = false;
#endif

/// Tells the thread sanitizer what orders memory: a fiber that acquires an address sees all writes
/// before the releases of it. A switch of fibers orders nothing.
void release(void* at);
void acquire(void* at);

/// Tells the sanitizer that the running thread read or wrote 16 bytes at `pc`.
void reads_16(const void* at, void* pc);
void writes_16(void* at, void* pc);

/// While one exists, this fiber works for the machine, and its allocations are not checked for
/// races.
struct Quiet {
  Quiet();
  ~Quiet();
};

}  // namespace simt
