// Streams, buffers and copies on a GPU.

#include <doctest/doctest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "common/device.h"
#include "common/error.h"

using kv::Device;
using kv::DeviceBuffer;
using kv::Stream;

TEST_CASE("the GPU is described in one line") {
  const std::string text = kv::describe(Device::kCuda);
  CHECK(text.find(", sm_") != std::string::npos);
  CHECK(text.find(" GiB") != std::string::npos);
  CHECK(text.find('\n') == std::string::npos);
}

TEST_CASE("bytes come back as they were sent, and a fill is in order with copies") {
  const Stream stream(Device::kCuda);
  for (const size_t bytes : {size_t{1}, size_t{3}, size_t{65536}, size_t{65537}, size_t{5000000}}) {
    CAPTURE(bytes);
    std::vector<uint8_t> sent(bytes);
    std::iota(sent.begin(), sent.end(), uint8_t{7});
    const DeviceBuffer buffer(Device::kCuda, bytes);
    CHECK(reinterpret_cast<uintptr_t>(buffer.data()) % 256 == 0);
    kv::fill_bytes(buffer.data(), 0xAB, bytes, stream);
    std::vector<uint8_t> got(bytes);
    kv::copy_to_host(got.data(), buffer.data(), bytes, stream);
    CHECK(got == std::vector<uint8_t>(bytes, 0xAB));
    kv::copy_to_device(buffer.data(), sent.data(), bytes, stream);
    kv::copy_to_host(got.data(), buffer.data(), bytes, stream);
    CHECK(got == sent);
  }
}

TEST_CASE("the source of a queued copy may be reused at once") {
  const Stream stream(Device::kCuda);
  constexpr int kCopies = 100;  // many times the slots that stage them
  for (const size_t n : {size_t{1}, size_t{1000}, size_t{16384}, size_t{20000}}) {
    CAPTURE(n);
    const DeviceBuffer buffer(Device::kCuda, kCopies * n * sizeof(int32_t));
    std::vector<int32_t> source(n);
    for (int i = 0; i < kCopies; ++i) {
      std::fill(source.begin(), source.end(), i);
      kv::copy_to_device_async(buffer.as<int32_t>() + static_cast<size_t>(i) * n, source.data(),
                               n * sizeof(int32_t), stream);
    }
    std::fill(source.begin(), source.end(), -1);
    std::vector<int32_t> got(kCopies * n);
    kv::copy_to_host(got.data(), buffer.data(), got.size() * sizeof(int32_t), stream);
    bool same = true;
    for (size_t i = 0; i < got.size(); ++i) same = same && got[i] == static_cast<int32_t>(i / n);
    CHECK(same);
  }
}

TEST_CASE("out of memory: one line with the bytes asked for and the bytes free") {
  const size_t bytes = size_t{1} << 50;
  try {
    const DeviceBuffer buffer(Device::kCuda, bytes);
    FAIL("a petabyte was allocated");
  } catch (const kv::DeviceError& e) {
    const std::string text = e.what();
    CAPTURE(text);
    CHECK(text.find("1125899906842624 bytes") != std::string::npos);
    CHECK(text.find(" free") != std::string::npos);
    CHECK(text.find('\n') == std::string::npos);
  }
  // The failure leaves nothing behind: the next call succeeds.
  const Stream stream(Device::kCuda);
  const DeviceBuffer small(Device::kCuda, 64);
  kv::fill_bytes(small.data(), 0, 64, stream);
  stream.synchronize();
}
