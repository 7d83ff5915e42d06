// The matrix products of many rows on CUDA, whose CTAs share tiles and whose copies overlap the
// steps: they have the bits of few rows, and of one warp's kernel, however often they run.

#include <doctest/doctest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "kernels/matmul.h"
#include "tests/kernels/matmul_product.h"

using kv::Device;
using kv::Epilogue;
using kv::Stream;
using kvtest::inputs;
using kvtest::Product;

TEST_CASE("matmul cuda: 2048 rows have the bits of one") {
  const Stream stream(Device::kCuda);
  for (const int outputs : {320, 2305}) {  // a tile for each CTA, and several
    CAPTURE(outputs);
    const Product product({outputs, 1024, Epilogue::kStore, true}, stream);
    const std::vector<float> x = inputs(product.shape, 2048);
    const std::vector<float> all = product.run(x, 2048);
    const auto n = static_cast<size_t>(outputs);
    for (const int row : {0, 1, 127, 128, 1000, 2047}) {
      const auto from = x.begin() + static_cast<int64_t>(row) * 1024;
      const std::vector<float> one = product.run(std::vector<float>(from, from + 1024), 1);
      CHECK(std::memcmp(one.data(), all.data() + static_cast<size_t>(row) * n, n * 4) == 0);
    }
  }
}

TEST_CASE("matmul cuda: warps and warpgroups have the same bits for 17 to 500 rows" *
          doctest::test_suite("sweep")) {
  const Stream stream(Device::kCuda);
  const std::vector<std::pair<int, int>> sizes{
      {1024, 2048},  // two CTAs share a tile of up to 256 rows
      {1024, 3072},  // three do, of up to 128
      {6144, 1024},  // tiles of 64, 96 and 192 outputs
      {1001, 2176}, {3072, 1024}, {1030, 136}, {77, 384}};
  for (const Epilogue epilogue : {Epilogue::kStore, Epilogue::kAdd, Epilogue::kSiluMul}) {
    for (const auto& [outputs, k] : sizes) {
      CAPTURE(outputs);
      CAPTURE(k);
      const Product product({outputs, k, epilogue}, stream);
      for (const int rows : {17, 33, 64, 65, 100, 128, 129, 200, 256, 500}) {
        CAPTURE(rows);
        const std::vector<float> x = inputs(product.shape, rows);
        const std::vector<float> got = product.run(x, rows, 0.5f);
        const std::vector<float> want = product.run(x, rows, 0.5f, kv::matmul_by_warps_cuda);
        CHECK(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)) == 0);
      }
    }
  }
}

TEST_CASE("matmul cuda: CTAs that share a tile give the same bits however often they are tried" *
          doctest::test_suite("sweep")) {
  const Stream stream(Device::kCuda);
  for (const int k : {1024, 2048, 3072}) {  // one CTA, two, three; the norm is a kernel before them
    const Product product({1024, k, Epilogue::kStore, true}, stream);
    for (const int rows : {40, 100}) {
      CAPTURE(k);
      CAPTURE(rows);
      // A norm and a product that did not wait would see rows of the product before them.
      const std::vector<std::vector<float>> x = {inputs(product.shape, rows),
                                                 inputs(product.shape, rows, 4)};
      const auto want = product.run_in_turn(x, rows, 2, 0.0f, kv::matmul_by_warps_cuda);
      const auto got = product.run_in_turn(x, rows, 50);
      for (size_t i = 0; i < got.size(); ++i) {
        CAPTURE(i);
        CHECK(std::memcmp(got[i].data(), want[i % 2].data(), got[i].size() * sizeof(float)) == 0);
      }
    }
  }
}
