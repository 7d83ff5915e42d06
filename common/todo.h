#pragma once

// What a learner has still to write. KV_TODO stands where the code of an exercise belongs, in host
// code or in a kernel; a test that gets there is shown as one that waits, not as one that fails
// (tests/test_main.cpp, tools/exercise.py).

#include <atomic>
#include <cstdio>

namespace kv {

/// No std::exception, so that no test which expects an error is content with it.
struct Todo {};

inline std::atomic<bool> g_todo_reached = false;
#ifdef __CUDACC__
#define KV_TODO_ANYWHERE __host__ __device__
static __device__ int g_todo_said = 0;
#else
#define KV_TODO_ANYWHERE
#endif

/// Says once what is to do and where. On the host, and on the simulated GPU, it throws Todo; on a
/// GPU it ends the thread that came here.
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
