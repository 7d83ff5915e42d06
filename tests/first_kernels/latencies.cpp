// ./course bench gpu: the sizes of a GPU's memories, and how long a thread waits for each.

#include "latencies.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "common/device.h"
#include "common/error.h"
#include "common/table.h"
#include "programs/report.h"
#include "programs/run_main.h"

namespace {

using first_kernels::From;

std::string nanoseconds(double seconds) { return fmt::format("{:.0f} ns", seconds * 1e9); }

void print_latencies() {
  const first_kernels::Sizes sizes = first_kernels::sizes_of_device();
  const auto total = kv::memory_of(kv::Device::kCuda).total;
  const auto bytes = [](size_t n) { return kv::human_bytes(static_cast<int64_t>(n)); };
  const auto wait = [](From from, size_t within) {
    return nanoseconds(first_kernels::seconds_of_load(from, within));
  };
  constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB;
  kv::Table table({"memory", "size", "a load takes"});
  table.add({"registers of an SM", bytes(sizes.registers_per_sm), "-"});
  table.add({"shared memory of an SM", bytes(sizes.shared_per_sm), wait(From::kShared, 32 * kKiB)});
  table.add({"L1 cache of an SM", "what is left of it", wait(From::kL1, 16 * kKiB)});
  table.add({"L2 cache", bytes(sizes.l2), wait(From::kL2, 4 * kMiB)});
  table.add({"global memory", kv::human_bytes(total), wait(From::kGlobal, 1024 * kMiB)});
  table.add({"host memory, pinned", "-", wait(From::kHost, 64 * kMiB)});
  fmt::print("{}\n\n{}\n", kv::describe(kv::Device::kCuda), table.to_string());
  fmt::print("{} SMs of up to {} threads; a CTA has at most {} of shared memory\n", sizes.sms,
             kv::with_commas(sizes.threads_per_sm), bytes(sizes.shared_per_cta));
  fmt::print("an empty kernel after another one: {:.1f} us\n",
             first_kernels::seconds_of_launch() * 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  std::string json_file;
  kv::CommandLine command("The sizes of a GPU's memories, and how long a thread waits for each.");
  command.value("--json FILE", json_file, "where the GPU's name is written").output_file();
  return kv::run_main(command, argc, argv, [&] {
    if (!kv::cuda_available())
      throw kv::DeviceError("latencies are measured on a GPU: " + kv::why_no_cuda());
    print_latencies();
    kv::write_json(json_file, {{"device", kv::describe(kv::Device::kCuda)}});
  });
}
