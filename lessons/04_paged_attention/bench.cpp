// What paging costs the attention of a decode step: reading through the block table against reading
// slabs, against gathering first, and against a plain read of the same bytes.
//
//   lesson04_bench [--device NAME] [--seed N] [--json FILE]

#include <algorithm>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "bench_kernels.h"
#include "common/base/table.h"
#include "common/program/bench.h"
#include "common/program/report.h"
#include "lessons/02_flat_cache/decode_attention.h"
#include "lessons/03_paged_blocks/gather_kv.h"
#include "paged_attention.h"

namespace {

struct NamedCase {
  std::string name;
  bench::Case what;
};

std::vector<int> same(int n, int len) { return std::vector<int>(static_cast<size_t>(n), len); }

/// Lengths between 512 and 7,680 that add up to n * 4,096.
std::vector<int> uneven(int n) {
  std::vector<int> lens;
  for (int i = 0; i < n / 2; ++i) {
    const int shorter = 512 + i * 3584 / (n / 2);
    lens.push_back(shorter);
    lens.push_back(8192 - shorter);
  }
  return lens;
}

std::vector<NamedCase> gpu_cases() {
  return {{"64 x 4,096", {same(64, 4096), 16}},
          {"256 x 1,024", {same(256, 1024), 16}},
          {"1 x 32,768", {same(1, 32768), 16}},
          {"64 x 4,096 blocks of 1", {same(64, 4096), 1}},
          {"64 x 4,096 blocks of 256", {same(64, 4096), 256}},
          {"64 uneven, 4,096 on average", {uneven(64), 16}},
          {"16 x 4,096", {same(16, 4096), 16}},
          {"4 x 1,024", {same(4, 1024), 16}},
          {"1 x 1,024", {same(1, 1024), 16}},
          {"1 x 131,072", {same(1, 131072), 16}}};
}

/// The CPU twins over one layer of the same heads, in fp32.
class CpuRunner {
 public:
  CpuRunner(const bench::Case& c, uint64_t seed) : case_(c) {
    std::mt19937_64 rng(seed);
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    for (const int len : c.seq_lens) {
      max_blocks_ = std::max(max_blocks_, (len + c.block_size - 1) / c.block_size);
    }
    const size_t num_blocks = c.seq_lens.size() * static_cast<size_t>(max_blocks_);
    tables_.resize(num_blocks);
    std::iota(tables_.begin(), tables_.end(), 0);
    std::shuffle(tables_.begin(), tables_.end(), rng);
    k_.resize(num_blocks * static_cast<size_t>(c.block_size) * kWidth);
    for (float& x : k_) x = uniform(rng);
    v_ = k_, k_out_ = k_, v_out_ = k_;
    q_.resize(c.seq_lens.size() * kHeads * kHeadDim, 0.5f);
    out_ = q_;
    for (size_t i = 0; i < c.seq_lens.size(); ++i) {
      first_row_.push_back(static_cast<int32_t>(i) + 1);
      begins_.push_back(static_cast<int64_t>(i) * max_blocks_ * c.block_size);
    }
  }

  bench::Times run() {
    bench::Times times;
    times.read = time([&] { read(); });
    times.paged = time([&] { paged(); });
    times.contiguous = time([&] { flat(k_, v_); });
    times.gathered = time([&] {
      gather();
      flat(k_out_, v_out_);
    });
    return times;
  }

 private:
  static constexpr int kHeads = 16, kKvHeads = 8, kHeadDim = 128;
  static constexpr size_t kWidth = size_t{kKvHeads} * kHeadDim;

  static double time(const std::function<void()>& f) {
    std::vector<double> seconds;
    for (int i = 0; i < 8; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      f();
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
      if (i > 0) seconds.push_back(taken.count());
    }
    return kv::median(seconds);
  }

  int num_seqs() const { return static_cast<int>(case_.seq_lens.size()); }
  lesson03::KvBlocks blocks() {
    return {.k = k_.data(),
            .v = v_.data(),
            .num_blocks = static_cast<int>(tables_.size()),
            .block_size = case_.block_size,
            .block_stride = case_.block_size,
            .num_kv_heads = kKvHeads,
            .head_dim = kHeadDim};
  }
  void read() {
    float sum = 0;
    for (const auto* cache : {&k_, &v_}) {
      for (size_t i = 0; i < cache->size(); i += 16) sum += (*cache)[i];  // a cache line at a time
    }
    out_[0] = sum;
  }
  void paged() {
    lesson04::fast_paged_attention_cpu({.q = q_.data(),
                                        .out = out_.data(),
                                        .cache = blocks(),
                                        .first_row = first_row_.data(),
                                        .seq_len = case_.seq_lens.data(),
                                        .block_tables = tables_.data(),
                                        .max_blocks_per_seq = max_blocks_,
                                        .num_seqs = num_seqs(),
                                        .num_rows = num_seqs(),
                                        .max_rows_per_seq = 1,
                                        .max_seq_len = max_blocks_ * case_.block_size,
                                        .num_heads = kHeads});
  }
  void flat(const std::vector<float>& k, const std::vector<float>& v) {
    lesson02::fast_decode_attention_cpu({.q = q_.data(),
                                         .k_cache = k.data(),
                                         .v_cache = v.data(),
                                         .out = out_.data(),
                                         .first_row = first_row_.data(),
                                         .seq_len = case_.seq_lens.data(),
                                         .slab_begin = begins_.data(),
                                         .num_seqs = num_seqs(),
                                         .num_rows = num_seqs(),
                                         .max_rows_per_seq = 1,
                                         .max_seq_len = max_blocks_ * case_.block_size,
                                         .num_heads = kHeads,
                                         .num_kv_heads = kKvHeads,
                                         .head_dim = kHeadDim});
  }
  void gather() {
    lesson03::gather_kv_cpu({.cache = blocks(),
                             .block_tables = tables_.data(),
                             .seq_len = case_.seq_lens.data(),
                             .out_begin = begins_.data(),
                             .max_blocks_per_seq = max_blocks_,
                             .num_seqs = num_seqs(),
                             .max_seq_len = max_blocks_ * case_.block_size,
                             .k_out = k_out_.data(),
                             .v_out = v_out_.data()});
  }

  bench::Case case_;
  int max_blocks_ = 0;
  std::vector<int32_t> tables_, first_row_{0};
  std::vector<int64_t> begins_;
  std::vector<float> q_, k_, v_, k_out_, v_out_, out_;
};

std::vector<NamedCase> cpu_cases() {
  return {{"8 x 1,024", {same(8, 1024), 16}},
          {"8 x 1,024 blocks of 1", {same(8, 1024), 1}},
          {"8 x 1,024 blocks of 256", {same(8, 1024), 256}},
          {"1 x 8,192", {same(1, 8192), 16}}};
}

bench::Times measure(const bench::Case& c, kv::Device device, uint64_t seed) {
#if KV_HAVE_CUDA
  if (device == kv::Device::kCuda) return bench::measure_on_gpu(c, seed);
#endif
  static_cast<void>(device);
  return CpuRunner(c, seed).run();
}

void run(const kv::GenerateOptions& options) {
  const kv::Console console(options.json_file);
  const kv::Device device = kv::resolve_device(options.device);
  const bool gpu = device == kv::Device::kCuda;
  const std::string name = kv::describe(device);
  console.print("Attention of a decode step, 16 heads, 8 KV heads of 128, on {}\n", name);
  console.print("share: of a plain read of the same K and V in the same run\n\n");

  kv::Table table(
      {"batch x context", "us", "GB/s", "share", "slabs", "paging costs", "gather first"});
  nlohmann::json rows = nlohmann::json::array();
  for (const NamedCase& c : gpu ? gpu_cases() : cpu_cases()) {
    if (kv::interrupted()) break;
    const bench::Times t = measure(c.what, device, options.sampling.seed);
    const int64_t tokens =
        std::accumulate(c.what.seq_lens.begin(), c.what.seq_lens.end(), int64_t{0});
    const double bytes = static_cast<double>(tokens) * 2 * 8 * 128 * (gpu ? 2 : 4);
    const auto us = [](double seconds) { return fmt::format("{:.1f}", seconds * 1e6); };
    table.add({c.name, us(t.paged), fmt::format("{:.0f}", bytes / t.paged / 1e9),
               kv::percent(t.read, t.paged), us(t.contiguous),
               fmt::format("{:+.1f} %", 100 * (t.paged / t.contiguous - 1)), us(t.gathered)});
    rows.push_back({{"case", c.name},
                    {"bytes", bytes},
                    {"read_seconds", t.read},
                    {"paged_seconds", t.paged},
                    {"contiguous_seconds", t.contiguous},
                    {"gathered_seconds", t.gathered}});
  }
  console.write(table.to_string());
  kv::write_json(options.json_file, {{"lesson", "04"}, {"device", name}, {"cases", rows}});
}

}  // namespace

int main(int argc, char** argv) {
  kv::GenerateOptions options;
  kv::CommandLine command(
      "Lesson 04: reading K and V through block tables, against slabs and a plain read.");
  command.value("--device NAME", options.device, "cpu, cuda, or auto: CUDA if there is one")
      .one_of({"cpu", "cuda", "auto"});
  kv::add_seed_option(command, options, "of the blocks' order and of the data");
  kv::add_json_option(command, options);
  return kv::run_main(command, argc, argv, [&] { run(options); });
}
