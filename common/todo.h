#pragma once

// Marks code that a learner still has to write, in host code or in a kernel. A test that reaches a
// KV_TODO is shown as waiting instead of failed (tests/test_main.cpp, tools/exercise.py).

#include <atomic>
#include <cstdio>

namespace kv {

/// Not derived from std::exception, so that it cannot pass for the error that a test expects.
struct Todo {};

inline std::atomic<bool> g_todo_reached = false;
#ifdef __CUDACC__
#define KV_TODO_ANYWHERE __host__ __device__
static __device__ int g_todo_said = 0;
#else
#define KV_TODO_ANYWHERE
#endif

/// Prints once which code is missing, and where. On the host, and on the simulated GPU, it throws
/// Todo. On a GPU it ends the calling thread.
[[noreturn]] KV_TODO_ANYWHERE inline void todo(const char* what, const char* file, int line) {
#ifdef __CUDA_ARCH__
  if (atomicExch(&g_todo_said, 1) == 0) printf("to write: %s (%s:%d)\n", what, file, line);
  asm volatile("exit;");
  __builtin_unreachable();
#else
  if (!g_todo_reached.exchange(true)) {
    std::printf("to write: %s (%s:%d)\n", what, file, line);
    std::fflush(stdout);
  }
  throw Todo();
#endif
}

}  // namespace kv

#define KV_TODO(what) ::kv::todo(what, __FILE__, __LINE__)
