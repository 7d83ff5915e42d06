// Cost of the queue: taking a block back from the middle of the free blocks, against a deque that
// has to search for it; and the hit rates of a trace by pool, for the plot.
//
//   lesson07_bench [--seed N] [--json FILE]

#include <algorithm>
#include <deque>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cli/trace.h"
#include "free_block_queue.h"
#include "programs/lab.h"

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

void run(kv::Lab& lab) {
  const uint64_t seed = lab.options.sampling.seed;
  lab.console.print("A block is taken back from the middle of the free ones, and freed again\n\n");
  kv::Records queues;
  for (const size_t count : {size_t{1'024}, size_t{16'384}, size_t{131'072}, size_t{1'048'576}}) {
    if (kv::interrupted()) break;
    const std::vector<size_t> picks = some(count, seed);
    queues.add({{"free blocks", kv::counted(static_cast<int64_t>(count)), "blocks"},
                {"intrusive list", kv::ns(list_seconds(count, picks), 0), "list_seconds"},
                {"deque, with a search", kv::ns(deque_seconds(count, picks), 0), "deque_seconds"}});
  }
  lab.report_records("queues", queues);

  nlohmann::json& rates = lab.report["hit_rates"] = nlohmann::json::array();
  const auto trace = lesson07::make_trace({.seed = seed});
  for (const int slots : lesson07::kPoolSlots) {
    if (kv::interrupted()) break;
    lesson06::BlockPool stack(slots / 16, 16);
    lesson07::BlockPool queue(slots / 16, 16);
    rates.push_back({{"slots", slots},
                     {"stack", lesson07::play(trace, stack)},
                     {"LRU", lesson07::play(trace, queue)}});
  }
}

}  // namespace

int main(int argc, char** argv) {
  kv::GenerateOptions options;
  kv::CommandLine command("Lesson 07: the free queue against a deque, and hit rates by pool.");
  kv::add_seed_option(command, options, "of the choices and the trace");
  std::string device = "cpu";
  command.value("--device NAME", device, "not used: this is bookkeeping");
  kv::add_json_option(command, options);
  return kv::run_bench("07", command, options, argc, argv, run);
}
