// Cost of the block size: slots wasted in tails, bytes of block tables, and time. The time is
// that of one step with a gather in front of attention, and of the gather alone.
//
//   lesson03_bench [--model DIR] [--device NAME] [--longest N] [--json FILE]

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "engine.h"
#include "kv_blocks.h"
#include "lessons/02_flat_cache/engine.h"
#include "paged_kv_cache.h"
#include "programs/lab.h"

namespace {

constexpr int kRepeats = 41;
constexpr int kRounds = 3;  // over all block sizes; the fastest one counts
constexpr int kLargestBlock = 256;

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
  const auto gather_all = [&] {
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
  };
  return kv::median_seconds(gather_all, kRepeats);
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
    times[0].step = std::min(times[0].step, kv::step_seconds(*flat, length, kRepeats));
    for (int block_size = 1; block_size <= kLargestBlock; block_size *= 2) {
      const auto paged = lesson03::make_engine(model, {.block_size = block_size});
      Times& best = times[block_size];
      best.step = std::min(best.step, kv::step_seconds(*paged, length, kRepeats));
      best.gather = std::min(best.gather, gather_seconds(model, block_size, length));
    }
  }
  return times;
}

void run(kv::Lab& lab, const kv::BenchOptions& options) {
  const int length = options.longest;
  const std::map<int, Times> times = measure(lab.model(), length);
  const double flat_step = times.at(0).step;
  lab.console.print("One step after {} tokens, on {}; flat cache (lesson 02): {:.3f} ms\n\n",
                    kv::with_commas(length), kv::describe(lab.device()), 1e3 * flat_step);
  kv::Records points;
  for (const auto& [block_size, best] : times) {
    if (block_size == 0) continue;
    const Tails tails = tails_of(block_size, length);
    const double average_tail = static_cast<double>(tails.wasted) / length;
    const auto table_bytes =
        lesson03::blocks_for(length, block_size) * static_cast<int64_t>(sizeof(int32_t));
    points.add({{"block size", block_size, "block_size"},
                {"average tail",
                 {fmt::format("{:.1f} slots", average_tail), average_tail},
                 "average_tail"},
                {"waste", kv::share(tails.wasted, tails.slots)},
                {"block table", {kv::with_commas(table_bytes) + " B", table_bytes}, "table_bytes"},
                {"step", kv::ms(best.step, 3), "step_seconds"},
                {"against flat", fmt::format("{:.2f} times", best.step / flat_step)},
                {"gather alone", kv::ms(best.gather, 3), "gather_seconds"}});
    points.note("wasted_slots", tails.wasted);
    points.note("slots", tails.slots);
  }
  lab.report_records("points", points);
  lab.report["length"] = length;
  lab.report["flat_step_seconds"] = flat_step;
}

}  // namespace

int main(int argc, char** argv) {
  return kv::bench_main("03", "Lesson 03: waste, table size and time against the block size.", argc,
                        argv, run);
}
