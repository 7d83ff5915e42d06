#include <algorithm>
#include <utility>
#include <vector>

#include "engine.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "parts.h"

namespace bench {
namespace {

using lesson11::BlockMove;
using lesson11::Direction;

constexpr int kRounds = 5;
constexpr int kBlockSize = 16;

/// Seconds of one pass over `tokens` tokens of a prompt, after `before` tokens that are cached.
double compute_seconds(kv::Model& model, int before, int tokens) {
  lesson08::ServeOptions serve{.scheduler = {.max_tokens_per_pass = 1 << 20}};
  serve.choose_on_device = true;
  lesson08::ServingEngine engine(model, {.block_size = kBlockSize}, serve);
  const std::vector<kv::Request> requests{kv::request_of_length(before + tokens, 1)};
  const std::vector<kv::Request> first{kv::request_of_length(std::max(before, 1), 1)};
  engine.generate(requests);  // warm: the pool has its size
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) {
    engine.reset_prefix_cache();
    if (before > 0) engine.generate(first);
    const auto result = engine.generate(requests);
    seconds.push_back(result.passes.at(0).seconds);
  }
  return kv::median(std::move(seconds));
}

/// Blocks that are loaded from the host.
class Loads {
 public:
  Loads(kv::Model& model, int block_size, int num_blocks)
      : cache_(model.config(), model.stream(), num_blocks + 1, block_size),
        host_(cache_.bytes_per_block(), model.device(), num_blocks + 1),
        regions_(lesson05::regions_of(cache_, model.stream())),
        swapper_(regions_, host_, model.stream()) {
    lesson03::fill_blocks(cache_, 0, model.stream());
    swap(Direction::kOffload, num_blocks);
  }

  double seconds(int num_blocks) {
    return kv::median_seconds([&] { swap(Direction::kLoad, num_blocks); }, kRounds);
  }

 private:
  void swap(Direction direction, int num_blocks) {
    std::vector<BlockMove> moves;
    for (int32_t id = 1; id <= num_blocks; ++id) moves.push_back({id, id});
    swapper_.wait(swapper_.start(direction, moves));
  }

  lesson11::PagedKvCache cache_;
  lesson11::HostBlocks host_;
  lesson11::BlockRegions regions_;
  lesson11::BlockSwapper swapper_;
};

kv::Shown ms(double seconds) { return kv::scaled(seconds, 1e3, 3); }

}  // namespace

void measure_crossing(kv::Lab& lab, int most) {
  kv::Model& model = lab.model();
  lab.console.print(
      "Recompute or load, milliseconds: tokens of a prompt in one pass, or their blocks\n\n");
  const int longest = std::max(most / kBlockSize, 4) * kBlockSize;
  const std::string after = fmt::format("after {}", kv::with_commas(longest));
  kv::Records rows;
  Loads small(model, kBlockSize, longest / kBlockSize);
  Loads large(model, 256, std::max(longest / 256, 1));
  for (int tokens = kBlockSize; tokens <= longest && !kv::interrupted(); tokens *= 4) {
    const double first = compute_seconds(model, 0, tokens);
    const double later = compute_seconds(model, longest, tokens);
    const double host = small.seconds(tokens / kBlockSize);
    const double of_256 = tokens % 256 == 0 ? large.seconds(tokens / 256) : 0;
    rows.add(
        {{"tokens", kv::counted(tokens), "tokens"},
         {"computed", ms(first), "compute_seconds"},
         {after, ms(later), "compute_after_context_seconds"},
         {"host, blocks of 16", ms(host), "host_seconds"},
         {"of 256", {of_256 > 0 ? ms(of_256).text : "-", of_256}, "host_blocks_of_256_seconds"}});
    rows.note("context", longest);
  }
  lab.report_records("crossing", rows);
}

}  // namespace bench
