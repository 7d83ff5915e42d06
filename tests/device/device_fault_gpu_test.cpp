// A sticky error: a kernel reads where nothing is. The process cannot use CUDA afterwards.

#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "common/device.h"
#include "common/error.h"
#include "kernels/argmax.h"

namespace {

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const kv::DeviceError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a sticky error: every later call says so in one line") {
  const kv::Stream stream(kv::Device::kCuda);
  const kv::DeviceBuffer out(kv::Device::kCuda, sizeof(int32_t));
  const auto* nowhere = reinterpret_cast<const float*>(uintptr_t{64});
  kv::argmax({nowhere, 1, 1000, out.as<int32_t>()}, stream);
  const std::string found = message_of([&] { stream.synchronize(); });
  CAPTURE(found);
  CHECK(found.find("waiting for the GPU: ") == 0);
  CHECK(found.find("CUDA is lost to this process: start it again") != std::string::npos);
  CHECK(found.find('\n') == std::string::npos);

  const std::string later = message_of([&] {
    kv::argmax({nowhere, 1, 1000, out.as<int32_t>()}, stream);
  });
  CAPTURE(later);
  CHECK(later.find("launching argmax: ") == 0);
  CHECK(later.find("CUDA is lost to this process") != std::string::npos);
}
