#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#include "fp8_attention.h"
#include "fp8_layer.h"
#include "kernels/round_kv.h"
#include "lessons/04_paged_attention/bench/pass.h"
#include "parts.h"

namespace bench {
namespace {

using lesson04::PagedAttentionArgs;
using lesson14::Fp8Blocks;

/// Layers of one format, together larger than the caches: every read goes to memory.
struct Layers {
  std::vector<Fp8Blocks> blocks;
  std::vector<kv::DeviceBuffer> memory;
  double bytes = 0;                  // that attention reads of one
  std::vector<double> seconds;       // of attention over one
  std::vector<double> read_seconds;  // of a plain read of one

  void add(const Fp8Blocks& layer, kv::DeviceBuffer its) {
    bytes = static_cast<double>(its.bytes());
    blocks.push_back(layer);
    memory.push_back(std::move(its));
  }
  void add_copy() {
    const kv::DeviceBuffer& first = memory[0];
    kv::DeviceBuffer copy(kv::Device::kCpu, first.bytes());
    std::memcpy(copy.data(), first.data(), first.bytes());
    Fp8Blocks layer = blocks[0];
    const auto moved = [&](const void* p) {
      return copy.as<uint8_t>() + (static_cast<const uint8_t*>(p) - first.as<const uint8_t>());
    };
    layer.k = moved(layer.k);
    layer.v = moved(layer.v);
    if (layer.scales != nullptr) layer.scales = moved(layer.scales);
    add(layer, std::move(copy));
  }
};

double seconds_of(const auto& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

class CpuRunner {
 public:
  CpuRunner(const Case& c, uint64_t seed) : pass_(c, seed, kv::Device::kCpu) {
    constexpr double kMuchMemory = 1 << 29;
    const Fp8Blocks wide{pass_.args(0).cache};
    const int num_rows = wide.num_blocks * wide.block_size;
    kv::round_kv({.kv = {wide.k, wide.v},
                  .num_rows = num_rows,
                  .num_kv_heads = wide.num_kv_heads,
                  .head_dim = wide.head_dim},
                 stream());
    const size_t bytes = static_cast<size_t>(num_rows * wide.row_width()) * sizeof(float);
    kv::DeviceBuffer k_then_v(kv::Device::kCpu, 2 * bytes);
    Fp8Blocks layer = wide;
    layer.k = k_then_v.data();
    layer.v = k_then_v.as<std::byte>() + bytes;
    std::memcpy(layer.k, wide.k, bytes);
    std::memcpy(layer.v, wide.v, bytes);
    wide_.add(layer, std::move(k_then_v));
    Fp8Layer fp8(wide, stream());
    fp8_.add(fp8.blocks(), fp8.take_memory());
    for (Layers* layers : {&wide_, &fp8_}) {
      while (static_cast<double>(layers->blocks.size()) * layers->bytes < kMuchMemory) {
        layers->add_copy();
      }
    }
  }

  /// Rounds of both formats in turns, each over all of its layers.
  void run() {
    constexpr int kRounds = 9;
    for (int round = 0; round < kRounds && !kv::interrupted(); ++round) {
      for (Layers* layers : {&wide_, &fp8_}) {
        const auto n = static_cast<double>(layers->blocks.size());
        const double attention = seconds_of([&] { attend_all(*layers); });
        check_bits(*layers);
        const double read = seconds_of([&] { read_all(*layers); });
        if (round == 0) continue;  // it warms up
        layers->seconds.push_back(attention / n);
        layers->read_seconds.push_back(read / n);
      }
    }
  }
  const Layers& wide() const { return wide_; }
  const Layers& fp8() const { return fp8_; }

 private:
  const kv::Stream& stream() const { return pass_.stream(); }

  void attend_all(const Layers& layers) const {
    for (const Fp8Blocks& blocks : layers.blocks) {
      PagedAttentionArgs args = pass_.args(0);
      args.cache = blocks;
      if (blocks.scales == nullptr) {
        lesson04::fast_paged_attention(args, stream());
      } else {
        lesson14::fast_fp8_attention({args, blocks.scales}, stream());
      }
    }
  }
  void read_all(const Layers& layers) {
    for (const kv::DeviceBuffer& memory : layers.memory) {
      sum_ += kv::read_words({memory.as<const uint64_t>(), memory.bytes() / sizeof(uint64_t)});
    }
  }
  /// All results so far are the same. Then overwrites the last one.
  void check_bits(const Layers& layers) {
    const PagedAttentionArgs args = pass_.args(0);
    const auto bytes =
        static_cast<size_t>(args.num_rows * args.num_heads * args.cache.head_dim) * sizeof(float);
    if (first_.empty()) first_.resize(bytes), std::memcpy(first_.data(), args.out, bytes);
    if (std::memcmp(first_.data(), args.out, bytes) != 0) {
      throw std::logic_error(layers.blocks[0].scales == nullptr
                                 ? "lesson 04 gives other bits than before"
                                 : "FP8 pages give other bits than lesson 04");
    }
    std::memset(args.out, 0xFF, bytes);
  }

  MeasuredPass pass_;  // in fp32, of numbers that were rounded through e4m3
  Layers wide_, fp8_;
  std::vector<std::byte> first_;
  uint64_t sum_ = 0;
};

}  // namespace

void measure_cpu_decodes(kv::Lab& lab, const std::string& only) {
  lab.console.print("Attention of a decode step, 16 heads, 8 KV heads of 128, on {}\n",
                    kv::describe(kv::Device::kCpu));
  lab.console.print("share: of a plain read of the same K and V in the same run\n\n");
  kv::Records rows;
  const struct {
    const char* name;
    Case what;
  } cases[] = {{"1 x 1,024", {same(1, 1024)}},
               {"1 x 4,096", {same(1, 4096)}},
               {"1 x 32,768", {same(1, 32768)}},
               {"8 x 4,096", {same(8, 4096)}}};
  for (const auto& c : cases) {
    if (kv::interrupted()) break;
    if (std::string(c.name).find(only) == std::string::npos) continue;
    CpuRunner runner(c.what, lab.options.sampling.seed);
    runner.run();
    const Layers &fp8 = runner.fp8(), &wide = runner.wide();
    const double seconds = kv::median(fp8.seconds), read = kv::median(fp8.read_seconds);
    const double wide_seconds = kv::median(wide.seconds);
    const double wide_read = kv::median(wide.read_seconds);
    rows.add({{"batch x context", c.name, "case"},
              {"FP8 us", kv::scaled(seconds, 1e6, 0), "fp8_seconds"},
              {"GB/s", kv::decimal(fp8.bytes / seconds / 1e9, 1)},
              {"share", kv::percent(read, seconds)},
              {"fp32 us", kv::scaled(wide_seconds, 1e6, 0), "wide_seconds"},
              {"GB/s", kv::decimal(wide.bytes / wide_seconds / 1e9, 1)},
              {"share", kv::percent(wide_read, wide_seconds)},
              {"fp32/FP8", kv::decimal(wide_seconds / seconds, 2)}});
    rows.note("fp8_bytes", fp8.bytes);
    rows.note("fp8_read_seconds", read);
    rows.note("wide_bytes", wide.bytes);
    rows.note("wide_read_seconds", wide_read);
  }
  lab.report_records("cases", rows);
  lab.console.print(
      "\nEvery row's result has the bits of lesson 04's kernel over the rounded rows.\n");
}

}  // namespace bench
