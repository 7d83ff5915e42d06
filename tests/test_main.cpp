// The main() of every test binary. A binary that needs a GPU returns 77 where there is none, which
// ctest shows as "Skipped"; listing its cases works everywhere, as that happens while building. The
// tests of an exercise return 77 if they came to something that is still to be written.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "common/base/device.h"
#include "common/base/todo.h"

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
#ifdef KV_TEST_NEEDS_GPU
  bool listing = false;
  for (int i = 1; i < argc; ++i) listing |= std::strstr(argv[i], "list-") != nullptr;
  if (!listing && !kv::cuda_available()) {
    std::printf("SKIP: %s\n", kv::why_no_cuda().c_str());
    return 77;
  }
#endif
#ifdef KV_TEST_EXERCISE
  // What a destructor calls may be unwritten, too: that ends the program here.
  std::set_terminate([] { kv::g_todo_reached ? std::_Exit(77) : std::abort(); });
  const int failed = context.run();
  return kv::g_todo_reached ? 77 : failed;
#else
  return context.run();
#endif
}
