// Random requests, passes, damage, restarts and power cuts: every row that a request reads holds K
// and V of its tokens. KV_RANDOM_OPS sets the number of operations, KV_RANDOM_SEED the seed.

#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/defer.h"
#include "common/error.h"
#include "lessons/06_prefix_hashing/cli/hashers.h"
#include "lessons/11_host_tier/test/prefixes.h"
#include "lessons/12_file_tier/engine.h"
#include "lessons/12_file_tier/test/random_pools.h"
#include "tests/support/shortened.h"
#include "tests/support/temp_dir.h"

namespace {

using namespace lesson12;
using lesson12_test::PoolSettings;
using Tokens = std::vector<int32_t>;

/// Counts of all runs: a case that no run has seen is not tested.
struct Seen {
  int64_t hits = 0, restored = 0, restarts = 0, cuts = 0, lost_writes = 0, in_file = 0, to_host = 0,
          in_host = 0, to_device = 0;
};
Seen seen;

/// All that ends with the process.
struct Process : lesson12_test::PoolMemory {
  Process(const std::filesystem::path& path, const PoolSettings& settings)
      : PoolMemory(settings),
        file(path, {.fingerprint = 12,
                    .block_size = settings.block_size,
                    .bytes_per_block = device.regions.bytes_per_block()}),
        tiers(device.regions, memory, &file, stream,
              {.hasher = lesson06::narrow_hasher(settings.bits)},
              settings.is_threaded ? kv::RunJobs::kThread : kv::RunJobs::kAtOnce),
        scheduler(tiers.manager(), {.max_tokens_per_pass = settings.budget}) {}

  /// The tokens by which the host's blocks are found.
  std::multiset<Tokens> in_host() const {
    std::multiset<Tokens> all;
    const BlockPool& pool = tiers.manager().host();
    for (int32_t id = 1; id <= pool.num_blocks(); ++id) {
      if (pool.index().block(id) == nullptr) continue;
      const auto tokens = pool.index().tokens(id);
      all.insert({tokens.begin(), tokens.end()});
    }
    return all;
  }

  BlockFile file;
  Tiers tiers;
  Server::Scheduler scheduler;
};

class Run : private PoolSettings {
 public:
  explicit Run(uint64_t number) : PoolSettings(kvtest::Random(number)) { start(); }

  void operation(uint64_t op) {
    kvtest::Random random(op);
    const int kind = random.below(32);
    if (kind < 8) {
      submit(random);
    } else if (kind < 22) {
      pass(random.below(2));
    } else if (kind < 24) {
      text_ = "write";
      process_->tiers.complete();
    } else if (kind < 28) {
      damage(random);
    } else if (kind < 29) {
      abort(random);
    } else if (kind < 31) {
      random.below(2) == 0 ? restart() : cut(random);
    } else if (random.below(4) == 0) {
      reset();
    }
    check();
  }
  /// Runs passes until every request has ended; then the file has the host's blocks.
  void finish() {
    text_ = "the end";
    for (int i = 0; !process_->scheduler.idle(); ++i) {
      kvtest::require(i < 10'000, "a request is never served");
      pass(0);
    }
    process_->tiers.settle();
    kvtest::require(process_->tiers.num_unsaved() == 0, "a block is not in the file");
    kvtest::require(process_->tiers.manager().host().num_used() == 0, "a block stays in use");
    restart();
    check();
    end();
  }
  const std::string& text() const { return text_; }
  std::string settings() const { return PoolSettings::text(); }

 private:
  void start() {
    process_ = std::make_unique<Process>(path_, static_cast<const PoolSettings&>(*this));
    seen.restored += process_->tiers.metrics().num_restored;
  }
  void end() {
    const FileMetrics& metrics = process_->tiers.metrics();
    seen.in_file += metrics.num_damaged_in_file;
    seen.to_host += metrics.num_damaged_to_host;
    seen.in_host += metrics.num_damaged_in_host;
    seen.to_device += metrics.num_damaged_to_device;
    seen.hits += process_->tiers.manager().metrics().num_hits_in_host;
    ids_.clear();
    process_.reset();
  }
  void submit(kvtest::Random& random) {
    text_ = "too many to submit one";
    if (ids_.size() >= 6) return;
    Tokens prompt(1 + random.below(9));
    for (int32_t& token : prompt) token = random.below(4) == 0 ? 1 : 0;
    const int max_tokens = 1 + random.below(4);
    text_ = fmt::format("submit {}: {}, up to {} more", next_, fmt::join(prompt, " "), max_tokens);
    try {
      process_->scheduler.submit(next_, prompt, max_tokens);
    } catch (const kv::UserError&) {  // it can never fit
      return;
    }
    ids_.push_back(next_++);
  }
  /// Runs a pass, as a server's step does.
  void pass(int32_t token) {
    text_ = "pass";
    Tiers& tiers = process_->tiers;
    Server::Scheduler& scheduler = process_->scheduler;
    tiers.complete();
    load_waiting(scheduler, tiers.manager());
    const auto chunks = scheduler.schedule().chunks;
    if (chunks.empty()) return tiers.manager().wait_for_load();
    tiers.swapper().wait(tiers.manager().take_write_job());
    lesson11_test::run_chunks(process_->device.regions, scheduler, chunks,
                              [&](const auto& request) { return prefixes_.of(request.tokens); });
    scheduler.update(chunks);
    lesson11_test::add_tokens(scheduler, chunks, token, [&](int64_t id) {
      scheduler.finish(id);
      std::erase(ids_, id);
    });
    tiers.offload(device, 0);
  }
  void abort(kvtest::Random& random) {
    text_ = "no request to abort";
    if (ids_.empty()) return;
    const int64_t id = ids_[random.below(ids_.size())];
    text_ = fmt::format("abort {}", id);
    process_->scheduler.finish(id);
    std::erase(ids_, id);
    if (process_->scheduler.idle()) process_->tiers.manager().finish_loads();
  }
  /// Flips one bit.
  void damage(kvtest::Random& random) {
    const auto bit = static_cast<std::byte>(1 << random.below(8));
    const int where = random.below(4);
    const auto loads = process_->tiers.swapper().loads();
    if (where < 2 && !loads.empty()) {
      const BlockMove move = loads.front().move;
      text_ = fmt::format("block {} is damaged on its way to the device", move.device);
      lesson11_test::first_byte(process_->device.regions, move.device, random.below(6)) ^= bit;
    } else if (where < 3) {
      const auto id = static_cast<int32_t>(1 + random.below(host));
      text_ = fmt::format("block {} of the host is damaged", id);
      if (is_threaded) process_->tiers.settle();  // else the thread may be reading it
      const auto block = process_->memory.block(id);
      block[random.below(block.size())] ^= bit;
      is_hurt_ = true;
    } else {
      const auto size = static_cast<int64_t>(std::filesystem::file_size(path_));
      text_ = "the file has no record";
      if (size <= kPage) return;
      const int64_t at = kPage + random.below(size - kPage);
      text_ = fmt::format("byte {} of the file is damaged", at);
      std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
      const int byte = file.seekg(at).get();
      file.seekp(at).put(static_cast<char>(byte ^ std::to_integer<int>(bit)));
      is_hurt_ = true;
    }
  }
  /// Restarts, and checks that the host's blocks are found again if none was damaged there. A block
  /// that the host has dropped, as its copy on the device was damaged, may be found again: its
  /// record is whole.
  void restart() {
    text_ = "restart";
    process_->tiers.flush(0);
    const auto before = process_->in_host();
    end();
    start();
    ++seen.restarts;
    kvtest::require(is_hurt_ || std::ranges::includes(process_->in_host(), before),
                    "a block is not restored");
    is_hurt_ = false;
  }
  /// Cuts the power: any of the writes that have not reached the disk may be lost.
  void cut(kvtest::Random& random) {
    text_ = "power cut";
    if (is_threaded) return;
    kv::File::reaches_disk = [&](int64_t, std::span<const std::byte>) {
      const bool is_lost = random.below(3) == 0;
      seen.lost_writes += is_lost;
      return !is_lost;
    };
    {
      const kv::Defer none_is_lost{[] { kv::File::reaches_disk = nullptr; }};
      process_->tiers.complete();
      end();
    }
    start();
    ++seen.cuts;
    is_hurt_ = false;
  }
  void reset() {
    text_ = "reset";
    process_->tiers.forget_file(12);
    kvtest::require(process_->scheduler.reset_prefix_cache(true), "a reset is refused");
    kvtest::require(process_->in_host().empty(), "the host keeps blocks");
  }
  void check() const {
    process_->scheduler.check();
    process_->tiers.manager().check();
  }

  kvtest::TempDir folder_;
  std::filesystem::path path_ = folder_.path() / "blocks";
  lesson11_test::Prefixes prefixes_;
  std::unique_ptr<Process> process_;
  std::vector<int64_t> ids_;
  int64_t next_ = 0;
  bool is_hurt_ = false;  // a bit has flipped in the host or in the file since the start
  std::string text_;
};

}  // namespace

TEST_CASE("random operations: a request that reads a block reads K and V of its own tokens") {
  const int64_t num_ops = kvtest::num_random_ops(200'000, 20'000);
  seen = {};
  const auto report = kvtest::search<Run>(num_ops, 200);
  CHECK_MESSAGE(report.empty(), report);
  if (num_ops < 10'000 || !report.empty()) return;
  for (const int64_t count : {seen.hits, seen.restored, seen.restarts, seen.cuts, seen.lost_writes,
                              seen.in_file, seen.to_host, seen.in_host, seen.to_device}) {
    CHECK(count > num_ops / 10'000);
  }
}
