// Every version of paged attention from plain to fast, in one run: ./course bench 4 --road

#include <algorithm>
#include <string>
#include <vector>

#include "common/error.h"
#include "programs/generate.h"
#include "programs/road_report.h"

#if KV_HAVE_CUDA
#include "lessons/04_paged_attention/bench/pass.h"
#include "lessons/04_paged_attention/road/road.h"
#endif

namespace {

#if KV_HAVE_CUDA

struct NamedCase {
  std::string name;
  bench::Case what;
};

/// Seconds of one call of the step; 0 if the context is too long for it.
double measure(const lesson04::road::Step& step, const bench::MeasuredPass& pass) {
  lesson04::PagedAttentionArgs args = pass.args(0);
  if (step.longest > 0 && args.max_seq_len > step.longest) return 0;
  const size_t bytes = step.workspace_bytes == nullptr ? 0 : step.workspace_bytes(args);
  const kv::DeviceBuffer workspace(kv::Device::kCuda, std::max<size_t>(bytes, 1));
  kv::fill_bytes(workspace.data(), 0, workspace.bytes(), pass.stream());
  return pass.seconds_of([&](int i) {
    args = pass.args(i);
    args.workspace = workspace.data();
    step.attend(args, pass.stream());
  });
}

kv::Road measure_all(uint64_t seed) {
  using bench::same;
  kv::Road road;
  for (const auto& step : lesson04::road::kSteps) road.steps.push_back({step.idea, {}});
  for (const NamedCase& c :
       std::vector<NamedCase>{{"64 x 4,096", {same(64, 4096)}},
                              {"16 x 1,024", {same(16, 1024)}},
                              {"1 x 4,096", {same(1, 4096)}},
                              {"1 x 32,768", {same(1, 32768)}},
                              {"64 x 4,096, 64 heads", {same(64, 4096), 16, 64}}}) {
    const bench::MeasuredPass pass(c.what, seed, kv::Device::kCuda);
    road.cases.push_back(
        {c.name, pass.read_seconds(), pass.bytes(), road.cases.empty() ? "GB/s" : ""});
    for (size_t i = 0; i < road.steps.size(); ++i) {
      road.steps[i].seconds.push_back(measure(lesson04::road::kSteps[i], pass));
    }
  }
  return road;
}

#else

kv::Road measure_all(uint64_t) { return {}; }  // main() has said why

#endif

}  // namespace

int main(int argc, char** argv) {
  kv::GenerateOptions options;
  options.device = "cuda";
  kv::CommandLine command(
      "Lesson 04, the road: every version of paged attention from plain to fast, on a GPU.");
  command.value("--device NAME", options.device, "cuda: these are kernels for a GPU")
      .one_of({"cuda"});
  kv::add_seed_option(command, options, "of the blocks' order and of the data");
  kv::add_json_option(command, options);
  return kv::run_main(command, argc, argv, [&] {
    if (!kv::cuda_available())
      throw kv::DeviceError("a road is measured on a GPU: " + kv::why_no_cuda());
    kv::Road road = measure_all(options.sampling.seed);
    road.what =
        "Attention of a decode step, 8 KV heads of 128, 16 query heads (in the last column 64)\n"
        "batch x context: microseconds (share of a plain read of the same K and V)";
    road.device = kv::describe(kv::Device::kCuda);
    kv::report_road(road, options.json_file);
  });
}
