#include "bench_crossing.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/base/at_end.h"
#include "common/base/table.h"
#include "engine.h"
#include "fingerprint.h"
#include "tiers.h"

namespace bench {
namespace {

using lesson11::BlockMove;
using lesson11::Way;

constexpr int kRounds = 5;
constexpr int kBlockSize = 16;

/// Seconds of one pass over so many tokens of a prompt, after `before` that are cached.
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

/// Blocks that rise from the host to the device, and from a file to the host.
class Loads {
 public:
  Loads(kv::Model& model, int block_size, int num_blocks)
      : stream_(model.stream()),
        cache_(model.config(), model.stream(), num_blocks + 1, block_size),
        host_(lesson11::make_host_tier(cache_, model.stream(), num_blocks)),
        path_(std::filesystem::temp_directory_path() /
              fmt::format("page_by_page_bench_{}.blocks", ::getpid())),
        tokens_(static_cast<size_t>(block_size)) {
    cache_.fill(0, stream_);
    lower_.resize(static_cast<size_t>(num_blocks));
    std::iota(lower_.begin(), lower_.end(), 1);
    swap(Way::kDown, num_blocks);
  }
  ~Loads() {
    file_ = {};
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  Loads(const Loads&) = delete;
  Loads& operator=(const Loads&) = delete;

  double from_host(int num_blocks) {
    return kv::median_seconds([&] { swap(Way::kUp, num_blocks); }, kRounds);
  }
  /// The file has just been written: what is measured is memory of the operating system, and the
  /// checksums.
  double from_file(const kv::Model& model, int num_blocks) {
    if (!file_.tier.pool) write_file(model);
    return kv::median_seconds([&] { read(num_blocks); }, kRounds);
  }

 private:
  std::vector<BlockMove> first(int num_blocks) const {
    std::vector<BlockMove> moves;
    for (int32_t id = 1; id <= num_blocks; ++id) moves.push_back({id, id});
    return moves;
  }
  void swap(Way way, int num_blocks) {
    host_.swapper->wait(host_.swapper->start(way, first(num_blocks)));
  }
  void read(int num_blocks) {
    auto& transfers = *file_.tier.transfers;
    transfers.wait(transfers.start(Way::kUp, first(num_blocks)));
  }
  void write_file(const kv::Model& model) {
    const lesson11::FileShape shape{.fingerprint = lesson11::fingerprint_of(model),
                                    .block_size = cache_.block_size(),
                                    .bytes_per_block = cache_.bytes_per_block()};
    const auto num_blocks = static_cast<int>(lower_.size());
    file_ = lesson11::make_file_tier(path_, shape, num_blocks, host_.blocks);
    lesson11::BlockPool& records = *file_.tier.pool;
    std::vector<int32_t> ids(lower_.size());
    records.get_new_blocks(ids);
    for (const int32_t id : ids) {
      records.cache_full_block(id, {.hash = static_cast<uint64_t>(id),
                                    .parent = std::nullopt,
                                    .tokens = tokens_,
                                    .extra_keys = {},
                                    .prefix = id});
    }
    auto& transfers = *file_.tier.transfers;
    transfers.wait(transfers.start(Way::kDown, first(num_blocks)));
  }

  const kv::Stream& stream_;
  lesson11::PagedKvCache cache_;
  lesson11::HostTier host_;
  lesson11::FileTier file_;
  std::filesystem::path path_;
  std::vector<int32_t> tokens_, lower_;
};

std::string ms(double seconds) { return fmt::format("{:.3f}", 1e3 * seconds); }

}  // namespace

nlohmann::json measure_crossing(const kv::Console& console, const kv::BenchOptions& options) {
  kv::Model model = kv::load_model(options.model);
  console.print(
      "Recompute or load, milliseconds: tokens of a prompt in one pass, or their blocks\n\n");
  const int longest = std::max(options.longest / kBlockSize, 4) * kBlockSize;
  kv::Table table({"tokens", "computed", fmt::format("after {}", kv::with_commas(longest)),
                   "host, blocks of 16", "of 256", "host and file, of 16"});
  nlohmann::json rows = nlohmann::json::array();
  Loads small(model, kBlockSize, longest / kBlockSize);
  Loads large(model, 256, std::max(longest / 256, 1));
  for (int tokens = kBlockSize; tokens <= longest && !kv::interrupted(); tokens *= 4) {
    const double first = compute_seconds(model, 0, tokens);
    const double later = compute_seconds(model, longest, tokens);
    const double host = small.from_host(tokens / kBlockSize);
    const double of_256 = tokens % 256 == 0 ? large.from_host(tokens / 256) : 0;
    const double file = host + small.from_file(model, tokens / kBlockSize);
    table.add({kv::with_commas(tokens), ms(first), ms(later), ms(host),
               of_256 > 0 ? ms(of_256) : "-", ms(file)});
    rows.push_back({{"tokens", tokens},
                    {"context", longest},
                    {"compute_seconds", first},
                    {"compute_after_context_seconds", later},
                    {"host_seconds", host},
                    {"host_blocks_of_256_seconds", of_256},
                    {"file_seconds", file}});
  }
  console.write(table.to_string());
  return rows;
}

}  // namespace bench
