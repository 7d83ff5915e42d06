// The main() of every test binary. A binary that needs a GPU returns 77 where there is none, which
// ctest shows as "Skipped"; listing its cases works everywhere, as that happens while building.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>

#include "common/device.h"

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
  return context.run();
}
