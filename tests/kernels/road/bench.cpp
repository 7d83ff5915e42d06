// Every version of the matrix product from plain to fast, in one run: ./course bench-cuda --road

#include <fmt/format.h>

#include <vector>

#include "common/error.h"
#include "programs/generate.h"
#include "programs/road_report.h"

#if KV_HAVE_CUDA
#include "kernels/road/road.h"
#include "programs/measure_gpu.h"
#endif

namespace {

constexpr int kOutputs = 6144, kInputs = 1024;  // gate and up of Qwen3-0.6B
constexpr int kManyRows = 2048;

#if KV_HAVE_CUDA

class Products {
 public:
  explicit Products(uint64_t seed) {
    constexpr size_t kBytes = size_t{2} * kOutputs * kInputs;
    for (int i = 0; i < kv::rotation_for(kBytes); ++i)
      weights_.emplace_back(kv::Device::kCuda, kBytes);
    for (const kv::DeviceBuffer& w : weights_)
      kv::fill_random(w, static_cast<uint32_t>(seed++), stream_);
    kv::fill_random(x_, static_cast<uint32_t>(seed), stream_);
  }

  double measure(const kv::road::Step& step, int rows) const {
    // With many rows arithmetic is the limit, and it is no matter what the L2 cache holds.
    const int rotation = rows == kManyRows ? 1 : static_cast<int>(weights_.size());
    return kv::graph_seconds(stream_, rotation, [&](int i) {
      // Random values are as random in the order of pack_weights(), which needs no padding here.
      static_assert(kOutputs % 16 == 0 && kInputs % 128 == 0);
      const kv::Matrix matrix{weights_[static_cast<size_t>(i)].data(), kv::DType::kBF16, kOutputs,
                              kInputs};
      step.multiply({.x = x_.data(),
                     .num_rows = rows,
                     .k = kInputs,
                     .weight = {&matrix, 1},
                     .out = out_.data(),
                     .out_stride = kOutputs},
                    stream_);
    });
  }

  double read_seconds() const { return kv::read_seconds(stream_, weights_); }

 private:
  kv::Stream stream_{kv::Device::kCuda};
  std::vector<kv::DeviceBuffer> weights_;
  kv::DeviceBuffer x_{kv::Device::kCuda, size_t{2} * kManyRows* kInputs};
  kv::DeviceBuffer out_{kv::Device::kCuda, size_t{4} * kManyRows* kOutputs};
};

kv::Road measure_all(uint64_t seed, double peak_tflops) {
  const Products products(seed);
  const double read = products.read_seconds();
  const double flops = 2.0 * kOutputs * kInputs * kManyRows;
  kv::Road road;
  road.cases = {{"1 row", read, 2.0 * kOutputs * kInputs, "GB/s"},
                {"16 rows", read},
                {"2,048 rows", flops / (peak_tflops * 1e12), flops, "TFLOP/s"}};
  for (const kv::road::Step& step : kv::road::kSteps) {
    road.steps.push_back({step.idea, {}});
    for (const int rows : {1, 16, kManyRows}) {
      road.steps.back().seconds.push_back(products.measure(step, rows));
    }
  }
  return road;
}

#else

kv::Road measure_all(uint64_t, double) { return {}; }  // main() has said why

#endif

}  // namespace

int main(int argc, char** argv) {
  kv::GenerateOptions options;
  double peak = 989;
  kv::CommandLine command(
      "The road of the matrix product: every version from plain to fast, on a GPU.");
  command.value("--peak X", peak, "dense bf16 rate of the datasheet, TFLOP/s").over(0, 1e6);
  kv::add_seed_option(command, options, "of the data");
  kv::add_json_option(command, options);
  return kv::run_main(command, argc, argv, [&] {
    if (!kv::cuda_available())
      throw kv::DeviceError("a road is measured on a GPU: " + kv::why_no_cuda());
    kv::Road road = measure_all(options.sampling.seed, peak);
    road.what = fmt::format(
        "{} outputs of {} inputs: microseconds (share of a plain read of the weights; of {:.0f} "
        "TFLOP/s)",
        kOutputs, kInputs, peak);
    road.device = kv::describe(kv::Device::kCuda);
    kv::report_road(road, options.json_file);
  });
}
