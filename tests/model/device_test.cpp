#include "common/device.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"

TEST_CASE("device: a word that is no device is refused by name") {
  CHECK(kv::resolve_device("cpu") == kv::Device::kCpu);
  CHECK_THROWS_WITH_AS(kv::resolve_device("gpu"),
                       "--device: 'gpu' is not a device; use cpu, cuda or auto", kv::UserError);
  CHECK_THROWS_AS(kv::resolve_device(""), kv::UserError);
  CHECK_THROWS_AS(kv::resolve_device("CUDA"), kv::UserError);
}

TEST_CASE("device: an explicit cuda never becomes the cpu") {
  if (kv::cuda_available()) {
    CHECK(kv::why_no_cuda().empty());
    CHECK(kv::resolve_device("cuda") == kv::Device::kCuda);
    CHECK(kv::resolve_device("auto") == kv::Device::kCuda);
    return;
  }
  CHECK(kv::resolve_device("auto") == kv::Device::kCpu);
  const std::string why = kv::why_no_cuda();
  CHECK(!why.empty());
  CHECK(why.find('\n') == std::string::npos);
  try {
    kv::resolve_device("cuda");
    FAIL("became something else");
  } catch (const kv::DeviceError& e) {
    CHECK(std::string(e.what()).find(why) != std::string::npos);
  }
  CHECK_THROWS_AS(kv::Stream{kv::Device::kCuda}, kv::DeviceError);
  CHECK_THROWS_AS((kv::DeviceBuffer{kv::Device::kCuda, 16}), kv::DeviceError);
}

TEST_CASE("device: more memory than there is gives one line with both numbers") {
  for (const size_t bytes : {size_t{1} << 62, std::numeric_limits<size_t>::max()}) {
    try {
      const kv::DeviceBuffer buffer(kv::Device::kCpu, bytes);
      FAIL("allocated");
    } catch (const kv::DeviceError& e) {
      const std::string text = e.what();
      CHECK(text.find(std::to_string(bytes)) != std::string::npos);
      CHECK(text.find("are free") != std::string::npos);
      CHECK(text.find('\n') == std::string::npos);
    }
  }
}

TEST_CASE("device: buffers are aligned and move with their bytes") {
  kv::DeviceBuffer a(kv::Device::kCpu, 100);
  CHECK(reinterpret_cast<uintptr_t>(a.data()) % 64 == 0);
  void* data = a.data();
  kv::DeviceBuffer b(std::move(a));
  CHECK(b.data() == data);
  CHECK(b.bytes() == 100);
  kv::DeviceBuffer c;
  CHECK(c.data() == nullptr);
  c = std::move(b);
  CHECK(c.data() == data);
  const kv::DeviceBuffer empty(kv::Device::kCpu, 0);
  CHECK(empty.data() == nullptr);
}

TEST_CASE("device: copies on the cpu stream are done at once") {
  const kv::Stream stream(kv::Device::kCpu);
  CHECK(stream.handle() == nullptr);
  const std::vector<int32_t> in = {3, 1, 4, 1, 5};
  const kv::DeviceBuffer buffer = kv::to_device(std::span<const int32_t>(in), stream);
  std::vector<int32_t> out(5, 0);
  kv::copy_to_host(out.data(), buffer.data(), 20, stream);
  CHECK(out == in);
  kv::fill_bytes(buffer.data(), 0xFF, 8, stream);
  kv::copy_to_device_async(buffer.as<int32_t>() + 4, in.data(), 4, stream);
  kv::copy_to_host(out.data(), buffer.data(), 20, stream);
  CHECK(out == std::vector<int32_t>{-1, -1, 4, 1, 3});
  kv::copy_to_device(nullptr, nullptr, 0, stream);  // nothing is nothing
  stream.synchronize();
}

TEST_CASE("device: the cpu is described in one line") {
  const std::string text = kv::describe(kv::Device::kCpu);
  CHECK(text.find("thread") != std::string::npos);
  CHECK(text.find('\n') == std::string::npos);
}
