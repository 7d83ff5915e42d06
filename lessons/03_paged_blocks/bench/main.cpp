// Cost of the block size: slots wasted in tails, bytes of block tables, and time. The time is
// that of one step with a gather in front of attention, and of the gather alone.
//
//   lesson03_bench [--model DIR] [--device NAME] [--longest N] [--json FILE]

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <vector>

#include "cli/fill_blocks.h"
#include "common/table.h"
#include "engine.h"
#include "kv_blocks.h"
#include "lessons/02_flat_cache/engine.h"
#include "programs/bench.h"
#include "programs/report.h"

namespace {

constexpr int kRepeats = 41;
constexpr int kRounds = 3;  // over all block sizes; the fastest one counts
constexpr int kLargestBlock = 256;

/// Median time of a pass with one row, after about `length` tokens.
double step_seconds(kv::Engine& engine, int length) {
  constexpr int kWarmUp = 3;
  const kv::Request request = kv::request_of_length(length, 1 + kWarmUp + kRepeats);
  const auto passes = engine.generate({&request, 1}).passes;
  std::vector<double> times;
  for (size_t i = passes.size() - kRepeats; i < passes.size(); ++i) {
    times.push_back(passes[i].seconds);
  }
  return kv::median(times);
}

/// Median time to gather `length` tokens in all layers, from blocks in random order.
double gather_seconds(const kv::Model& model, int block_size, int length) {
  const kv::Stream& stream = model.stream();
  const int num_blocks = lesson03::blocks_for(length, block_size);
  lesson03::PagedKvCache cache(model.config(), stream, num_blocks, block_size);
  lesson03::fill_blocks(cache, 1, stream);  // untouched memory would be read too fast
  const auto layer_bytes =
      static_cast<size_t>(cache.bytes_reserved() / 2 / model.config().num_layers);
  std::vector<int32_t> ids(num_blocks);
  std::iota(ids.begin(), ids.end(), 0);
  std::shuffle(ids.begin(), ids.end(), std::mt19937_64(1));
  const std::vector<int32_t> seq_len{length};
  const std::vector<int64_t> out_begin{0};
  const auto d_ids = kv::to_device<int32_t>(ids, stream);
  const auto d_seq_len = kv::to_device<int32_t>(seq_len, stream);
  const auto d_out_begin = kv::to_device<int64_t>(out_begin, stream);
  const kv::DeviceBuffer k_out(stream.device(), layer_bytes), v_out(stream.device(), layer_bytes);
  std::vector<double> times;
  for (int i = 0; i <= kRepeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    for (int layer = 0; layer < cache.num_layers(); ++layer) {
      lesson03::gather_kv({.cache = cache.layer(layer),
                           .block_tables = d_ids.as<const int32_t>(),
                           .seq_len = d_seq_len.as<const int32_t>(),
                           .out_begin = d_out_begin.as<const int64_t>(),
                           .max_blocks_per_seq = num_blocks,
                           .num_seqs = 1,
                           .max_seq_len = length,
                           .k_out = k_out.data(),
                           .v_out = v_out.data()},
                          stream);
    }
    stream.synchronize();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    if (i > 0) times.push_back(time.count());  // the first one warms up
  }
  return kv::median(times);
}

struct Tails {
  int64_t slots = 0;   // of all blocks
  int64_t wasted = 0;  // of these, after the last token
};

/// Sequences of 1, 2, 3, ... `longest` tokens, one of each.
Tails tails_of(int block_size, int longest) {
  Tails tails;
  for (int length = 1; length <= longest; ++length) {
    const int64_t slots = int64_t{lesson03::blocks_for(length, block_size)} * block_size;
    tails.slots += slots;
    tails.wasted += slots - length;
  }
  return tails;
}

/// Times for one block size: the least of kRounds medians, so that other load on the machine does
/// not look like its effect.
struct Times {
  double step = std::numeric_limits<double>::infinity();
  double gather = std::numeric_limits<double>::infinity();
};

/// Times by block size; 0 stands for the flat cache, which gathers nothing.
std::map<int, Times> measure(kv::Model& model, int length) {
  std::map<int, Times> times;
  for (int round = 0; round < kRounds && (round == 0 || !kv::interrupted()); ++round) {
    const auto flat = lesson02::make_engine(model, {.max_seq_len = length + 2 * kRepeats});
    times[0].step = std::min(times[0].step, step_seconds(*flat, length));
    for (int block_size = 1; block_size <= kLargestBlock; block_size *= 2) {
      const auto paged = lesson03::make_engine(model, {.block_size = block_size});
      Times& best = times[block_size];
      best.step = std::min(best.step, step_seconds(*paged, length));
      best.gather = std::min(best.gather, gather_seconds(model, block_size, length));
    }
  }
  return times;
}

void run(const kv::BenchOptions& options) {
  const kv::Console console(options.model.json_file);
  kv::Model model = kv::load_model(options.model);
  const std::string device = kv::describe(model.device());
  const int length = options.longest;
  const std::map<int, Times> times = measure(model, length);
  const double flat_step = times.at(0).step;
  console.print("One step after {} tokens, on {}; flat cache (lesson 02): {:.3f} ms\n\n",
                kv::with_commas(length), device, 1e3 * flat_step);

  nlohmann::json points = nlohmann::json::array();
  kv::Table table({"block size", "average tail", "waste", "block table", "step", "against flat",
                   "gather alone"});
  for (const auto& [block_size, best] : times) {
    if (block_size == 0) continue;
    const Tails tails = tails_of(block_size, length);
    const double average_tail = static_cast<double>(tails.wasted) / length;
    const auto table_bytes =
        lesson03::blocks_for(length, block_size) * static_cast<int64_t>(sizeof(int32_t));
    table.add({std::to_string(block_size), fmt::format("{:.1f} slots", average_tail),
               kv::percent(static_cast<double>(tails.wasted), static_cast<double>(tails.slots)),
               fmt::format("{} B", kv::with_commas(table_bytes)),
               fmt::format("{:.3f} ms", 1e3 * best.step),
               fmt::format("{:.2f} times", best.step / flat_step),
               fmt::format("{:.3f} ms", 1e3 * best.gather)});
    points.push_back({{"block_size", block_size},
                      {"average_tail", average_tail},
                      {"wasted_slots", tails.wasted},
                      {"slots", tails.slots},
                      {"table_bytes", table_bytes},
                      {"step_seconds", best.step},
                      {"gather_seconds", best.gather}});
  }
  console.write(table.to_string());
  kv::write_json(options.model.json_file, {{"lesson", "03"},
                                           {"device", device},
                                           {"length", length},
                                           {"flat_step_seconds", flat_step},
                                           {"points", points}});
}

}  // namespace

int main(int argc, char** argv) {
  kv::BenchOptions options;
  kv::CommandLine command("Lesson 03: waste, table size and time against the block size.");
  kv::add_bench_options(command, options);
  return kv::run_main(command, argc, argv, [&] { run(options); });
}
