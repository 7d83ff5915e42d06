// The speed of checking blocks of Qwen3-0.6B, of writing them to a file and of reading them.
//
//   lesson12_bench [--device NAME] [--json FILE]

#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "checksum_blocks.h"
#include "common/temp_folder.h"
#include "file_tier.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "programs/lab.h"
#include "qwen3/known_models.h"

namespace {

constexpr int kBlockSize = 16, kNumBlocks = 64, kRepeats = 5;

struct Row {
  const char* what;
  double seconds;  // for all blocks
};

std::vector<Row> measure(kv::Device device) {
  const kv::Stream stream(device);
  lesson12::PagedKvCache cache(kv::known_model("Qwen3-0.6B").config, stream, kNumBlocks + 1,
                               kBlockSize);
  const lesson12::BlockRegions regions = lesson05::regions_of(cache, stream);
  const lesson12::HostBlocks host(cache.bytes_per_block(), device, kNumBlocks + 1);
  lesson03::fill_blocks(cache, 0x5A, stream);
  std::memset(host.data(), 0x5A, host.bytes_per_block() * (kNumBlocks + 1));
  const kv::HostBuffer sums(device, (kNumBlocks + 1) * sizeof(uint64_t));
  std::vector<lesson12::BlockMove> blocks;
  for (int32_t id = 1; id <= kNumBlocks; ++id) blocks.push_back({id, id});

  const kv::TempFolder folder;
  lesson12::BlockFile file(
      folder.path() / "blocks",
      {.fingerprint = 1, .block_size = kBlockSize, .bytes_per_block = cache.bytes_per_block()});
  const lesson12::Record record{.content_checksum = lesson12::checksum_of(host.block(1)),
                                .parent = {},
                                .tokens = std::vector<int32_t>(kBlockSize)};
  const auto seconds = [](const auto& call) { return kv::median_seconds(call, kRepeats); };
  const auto each = [&](const auto& call) {
    return seconds([&] {
      for (int32_t id = 1; id <= kNumBlocks; ++id) call(id);
    });
  };
  std::vector<Row> rows;
  rows.push_back({"checksum on the device", seconds([&] {
                    lesson12::checksum_blocks(
                        {.regions = &regions, .blocks = blocks, .checksums = sums.as<uint64_t>()},
                        stream);
                    stream.synchronize();
                  })});
  rows.push_back(
      {"checksum in the host", each([&](int32_t id) { lesson12::checksum_of(host.block(id)); })});
  rows.push_back({"written to the file", each([&](int32_t id) {
                    if (!file.write(id, record, host.block(id))) throw std::bad_alloc();
                  })});
  rows.push_back({"and synced", seconds([&] {
                    for (int32_t id = 1; id <= kNumBlocks; ++id) {
                      file.write(id, record, host.block(id));
                    }
                    file.sync();
                  })});
  rows.push_back({"read and checked", each([&](int32_t id) {
                    file.read_content(id, file.read_header(id).value(), host.block(id));
                  })});
  return rows;
}

void run(kv::Lab& lab, const kv::BenchOptions&) {
  const kv::Device device = lab.device();
  const auto element = static_cast<int64_t>(size_of(kv::activation_dtype(device)));
  const kv::ModelConfig& config = kv::known_model("Qwen3-0.6B").config;
  const int64_t bytes = kNumBlocks * kBlockSize * config.kv_bytes_per_token(element);
  lab.console.print("{} blocks of {} tokens of Qwen3-0.6B, on {}\n\n", kNumBlocks, kBlockSize,
                    kv::describe(device));
  kv::Records rows;
  for (const auto& [what, seconds] : measure(device)) {
    const double each = seconds / kNumBlocks;
    rows.add({{"block", what, "what"},
              {"us", kv::scaled(each, 1e6, 1), "seconds_per_block"},
              {"GB/s", kv::decimal(1e-9 * static_cast<double>(bytes) / seconds, 2)}});
  }
  lab.report_records("rows", rows);
}

}  // namespace

int main(int argc, char** argv) {
  return kv::bench_main("12", "Lesson 12: checksums of blocks, and blocks in a file.", argc, argv,
                        run);
}
