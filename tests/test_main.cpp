// The main() of every test binary. A binary that needs a GPU returns 77 where there is none, which
// ctest shows as "Skipped"; listing its cases works everywhere, as that happens while building. The
// tests of an exercise return 77 if they came to something that is still to be written.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "common/device.h"
#include "common/todo.h"
#include "tests/support/readable.h"

#ifdef KV_TEST_NEEDS_GPU
/// The GPU may be small, or another program's: a test that does not fit is skipped, not failed.
bool enough_memory(int argc, char** argv, doctest::Context& context) {
  constexpr int64_t kMax = 1024, kPast2To31 = 10 * 1024;  // MiB that tests use; those named so
  const int64_t free = kv::memory_of(kv::Device::kCuda).free / (1024 * 1024);
  bool past = false;  // ctest runs one case at a time, by its name
  for (int i = 1; i < argc; ++i) {
    past |= std::strncmp(argv[i], "--test-case=", 12) == 0 && std::strstr(argv[i], "2^31");
  }
  if (free >= (past ? kPast2To31 : kMax)) {
    if (free < kPast2To31) context.addFilter("test-case-exclude", "*2^31*");
    return true;
  }
  std::printf("SKIP: the GPU has %lld MiB free, this needs %lld\n", static_cast<long long>(free),
              static_cast<long long>(past ? kPast2To31 : kMax));
  return false;
}
#endif

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
#ifdef KV_TEST_NEEDS_GPU
  bool listing = false;
  for (int i = 1; i < argc; ++i) listing |= std::strstr(argv[i], "list-") != nullptr;
  if (!listing && !kv::cuda_available()) {
    std::printf("SKIP: %s\n", kv::why_no_cuda().c_str());
    return 77;
  }
  if (!listing && !enough_memory(argc, argv, context)) return 77;
#endif
#ifdef KV_TEST_EXERCISE
  kvtest::g_max_shown = 10'000;  // tools/exercises/runs.py shows those around the first difference
  // A destructor may call an unwritten function, too: that ends the program here.
  static const std::terminate_handler says_why = std::get_terminate();
  std::set_terminate([] { kv::g_todo_reached ? std::_Exit(77) : says_why(); });
  const int failed = context.run();
  return kv::g_todo_reached ? 77 : failed;
#else
  return context.run();
#endif
}
