// Cost of the queue: taking a block back from the middle of the free blocks, against a deque that
// has to search for it; and the hit rates of a trace by pool, for the plot.
//
//   lesson07_bench [--seed N] [--json FILE]

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cli/trace.h"
#include "common/table.h"
#include "free_block_queue.h"
#include "programs/bench.h"
#include "programs/report.h"

namespace {

/// Indices of 1000 random blocks to take back.
std::vector<size_t> some(size_t count, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<size_t> picks(1000);
  for (size_t& pick : picks) pick = rng() % count;
  return picks;
}

/// Seconds for each block that is taken back and freed again: the median of rounds over all picks.
double list_seconds(size_t count, const std::vector<size_t>& picks) {
  std::vector<lesson07::KvBlock> blocks(count);
  lesson07::FreeBlockQueue queue;
  for (lesson07::KvBlock& block : blocks) queue.append(block);
  const double round = kv::median_seconds([&] {
    for (const size_t pick : picks) {
      queue.remove(blocks[pick]);
      queue.append(blocks[pick]);
    }
  });
  return round / static_cast<double>(picks.size());
}

double deque_seconds(size_t count, const std::vector<size_t>& picks) {
  std::deque<size_t> queue(count);
  std::iota(queue.begin(), queue.end(), size_t{0});
  const auto take_back = [&] {
    for (const size_t pick : picks) {
      queue.erase(std::find(queue.begin(), queue.end(), pick));
      queue.push_back(pick);
    }
  };
  return kv::median_seconds(take_back, /*repeats=*/5) / static_cast<double>(picks.size());
}

void run(const kv::GenerateOptions& options) {
  const kv::Console console(options.json_file);
  const uint64_t seed = options.sampling.seed;
  console.print("A block is taken back from the middle of the free ones, and freed again\n\n");
  kv::Table table({"free blocks", "intrusive list", "deque, with a search"});
  nlohmann::json queues = nlohmann::json::array();
  for (const size_t count : {size_t{1'024}, size_t{16'384}, size_t{131'072}, size_t{1'048'576}}) {
    if (kv::interrupted()) break;
    const std::vector<size_t> picks = some(count, seed);
    const double list = list_seconds(count, picks), deque = deque_seconds(count, picks);
    table.add({kv::with_commas(static_cast<int64_t>(count)), fmt::format("{:.0f} ns", 1e9 * list),
               fmt::format("{:.0f} ns", 1e9 * deque)});
    queues.push_back({{"blocks", count}, {"list_seconds", list}, {"deque_seconds", deque}});
  }
  console.write(table.to_string());

  nlohmann::json rates = nlohmann::json::array();
  const auto trace = lesson07::make_trace({.seed = seed});
  for (const int slots : lesson07::kPoolSlots) {
    if (kv::interrupted()) break;
    lesson06::BlockPool stack(slots / 16, 16);
    lesson07::BlockPool queue(slots / 16, 16);
    rates.push_back({{"slots", slots},
                     {"stack", lesson07::play(trace, stack)},
                     {"LRU", lesson07::play(trace, queue)}});
  }
  kv::write_json(options.json_file, {{"lesson", "07"}, {"queues", queues}, {"hit_rates", rates}});
}

}  // namespace

int main(int argc, char** argv) {
  kv::GenerateOptions options;
  kv::CommandLine command("Lesson 07: the free queue against a deque, and hit rates by pool.");
  kv::add_seed_option(command, options, "of the choices and the trace");
  std::string device = "cpu";
  command.value("--device NAME", device, "not used: this is bookkeeping");
  kv::add_json_option(command, options);
  return kv::run_main(command, argc, argv, [&] { run(options); });
}
