// What a hit costs and what it saves: finding the blocks of a prompt against computing them. And
// how fast two sets of blocks are compared, against how fast lesson 05 copies as many.
//
//   lesson06_bench [--model DIR] [--device NAME] [--longest N] [--json FILE]

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <vector>

#include "common/base/table.h"
#include "common/program/bench.h"
#include "common/program/report.h"
#include "compare_blocks.h"
#include "engine.h"
#include "lessons/05_refcount_cow/copy_blocks.h"

namespace {

constexpr int kBlockSize = 16;
constexpr int kRepeats = 15;

/// All full blocks of a prompt of so many tokens are hashed, looked up, compared, taken, and given
/// back. Too short for one call, so many are timed.
double find_seconds(int num_tokens) {
  constexpr int kFinds = 100;
  std::mt19937 rng(1);
  std::vector<int32_t> tokens(static_cast<size_t>(num_tokens));
  for (int32_t& token : tokens) token = static_cast<int32_t>(rng() % 150'000);
  lesson06::BlockPool pool(lesson06::blocks_for(num_tokens, kBlockSize), kBlockSize);
  lesson06::KvCacheManager manager(pool);
  manager.allocate_slots(0, num_tokens);
  manager.cache_blocks(0, tokens, num_tokens);
  manager.free(0);
  const double all = kv::median_seconds([&] {
    for (int i = 0; i < kFinds; ++i) {
      const lesson06::ComputedBlocks computed = manager.get_computed_blocks(tokens);
      manager.allocate_slots(1, 0, computed);
      manager.free(1);
    }
  });
  return all / kFinds;
}

double prefill_seconds(kv::Model& model, int num_tokens) {
  const auto engine = lesson06::make_engine(model, {.block_size = kBlockSize});
  kv::Request request = kv::request_of_length(num_tokens, 1);
  std::vector<double> times;
  for (int i = 0; i <= kRepeats; ++i) {
    request.prompt[0] = i;  // another first token: nothing is found
    const double seconds = engine->generate({&request, 1}).passes.at(0).seconds;
    if (i > 0) times.push_back(seconds);
  }
  return kv::median(times);
}

/// Bytes per second of compare_blocks, which reads two blocks for each pair, and of copy_blocks,
/// which reads one and writes one.
struct Rates {
  int num_pairs = 0;
  double compare = 0;
  double copy = 0;
};

Rates measure_rates(const kv::Model& model) {
  // Far more than caches hold: 4 GB on a GPU, 256 MB on a CPU.
  const int64_t wanted = model.device() == kv::Device::kCuda ? 4'000'000'000 : 256'000'000;
  const int64_t block_bytes = model.config().kv_bytes_per_token(static_cast<int64_t>(
                                  size_of(kv::activation_dtype(model.device())))) *
                              kBlockSize;
  Rates rates;
  rates.num_pairs =
      static_cast<int>(std::clamp<int64_t>(wanted / 2 / block_bytes, 1, int64_t{1} << 20));
  lesson03::PagedKvCache cache(model.config(), model.stream(), 2 * rates.num_pairs, kBlockSize);
  cache.fill(0, model.stream());
  std::vector<lesson06::BlockPair> pairs;
  std::vector<lesson05::BlockCopy> copies;
  for (int i = 0; i < rates.num_pairs; ++i) {
    pairs.push_back({i, rates.num_pairs + i});
    copies.push_back({i, rates.num_pairs + i});
  }
  const auto bytes = static_cast<double>(2 * block_bytes * rates.num_pairs);
  rates.compare = bytes / kv::median_seconds([&] {
                    lesson06::compare_blocks({.first = &cache, .second = &cache, .pairs = pairs},
                                             model.stream());
                  });
  rates.copy = bytes / kv::median_seconds([&] {
                 lesson05::copy_blocks({.cache = &cache, .copies = copies}, model.stream());
                 model.stream().synchronize();
               });
  return rates;
}

void run(const kv::BenchOptions& options) {
  const kv::Console console(options.model.json_file);
  kv::Model model = kv::load_model(options.model);
  const std::string device = kv::describe(model.device());
  console.print("A prompt found, and computed, blocks of {}, on {}\n\n", kBlockSize, device);

  nlohmann::json points = nlohmann::json::array();
  kv::Table table({"prompt", "blocks found", "found in", "a block", "computed in", "times"});
  for (int length = 64; length <= options.longest && !kv::interrupted(); length *= 2) {
    const int blocks = (length - 1) / kBlockSize;  // the last token is left
    const double find = find_seconds(length);
    const double compute = prefill_seconds(model, length);
    table.add({kv::with_commas(length), kv::with_commas(blocks),
               fmt::format("{:.2f} us", 1e6 * find), fmt::format("{:.0f} ns", 1e9 * find / blocks),
               fmt::format("{:.2f} ms", 1e3 * compute),
               kv::with_commas(std::llround(compute / find))});
    points.push_back({{"length", length},
                      {"blocks", blocks},
                      {"find_seconds", find},
                      {"prefill_seconds", compute}});
  }
  console.write(table.to_string());

  const Rates rates = measure_rates(model);
  console.print("\n{} pairs of blocks\n", kv::with_commas(rates.num_pairs));
  console.print("compare_blocks reads            {:6.0f} GB/s\n", 1e-9 * rates.compare);
  console.print("copy_blocks reads and writes    {:6.0f} GB/s\n", 1e-9 * rates.copy);
  kv::write_json(options.model.json_file, {{"lesson", "06"},
                                           {"device", device},
                                           {"points", points},
                                           {"pairs", rates.num_pairs},
                                           {"compare_bytes_per_second", rates.compare},
                                           {"copy_bytes_per_second", rates.copy}});
}

}  // namespace

int main(int argc, char** argv) {
  kv::BenchOptions options;
  kv::CommandLine command(
      "Lesson 06: time of finding a prompt's blocks, of computing them, of comparing them.");
  kv::add_bench_options(command, options);
  return kv::run_main(command, argc, argv, [&] { run(options); });
}
