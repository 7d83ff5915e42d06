#pragma once

// Lesson 08's server with pools below the device's: host memory, and a file.

#include <chrono>
#include <filesystem>
#include <memory>

#include "block_swapper.h"
#include "file_transfers.h"
#include "lessons/08_scheduler/engine.h"
#include "tiered_scheduler.h"

namespace lesson11 {

using lesson03::PagedOptions;
using lesson08::ServeOptions;

struct HostTierOptions {
  int host_blocks = 0;              // 0: four times those of the device
  std::filesystem::path file = {};  // empty: there is no file
  int file_blocks = 0;              // 0: four times those of the host
  LoadPolicy policy = LoadPolicy::kQuicker;
  TierOptions tiers{};
};

/// Serves as lesson 08 does, and computes nothing again that one of the pools still has. What a
/// serve() leaves on the device and on the host sinks into the file when the engine goes.
class TieredEngine : public lesson08::ServingEngine {
 public:
  /// The first serve() throws UserError for a file that cannot be used: another model's, say.
  TieredEngine(kv::Model& model, const PagedOptions& options, const ServeOptions& serve = {},
               const HostTierOptions& tiers = {});
  ~TieredEngine() override;

  /// Null before the first call.
  const TieredManager* manager() const;
  const Rates& rates() const { return rates_; }

 protected:
  void before_pass(lesson08::Scheduler& scheduler, const SchedulerOutput& output) override;

 private:
  std::unique_ptr<KvCacheManager> make_manager(BlockPool& pool,
                                               const CacheManagerOptions& options) override;
  std::unique_ptr<lesson08::Scheduler> make_scheduler(KvCacheManager& manager) override;
  void after_pass(lesson08::Scheduler& scheduler, const SchedulerOutput& output) override;
  void add_counters(const lesson08::Scheduler& scheduler,
                    kv::EngineCounters& counters) const override;

  HostTierOptions tier_options_;
  TieredManager* tiered_ = nullptr;  // lesson 08's manager; null before the first call
  BlockSwapper* swapper_ = nullptr;  // tiered_'s, to tier 0
  Rates rates_;
  std::chrono::steady_clock::time_point pass_began_;
};

/// The host has room for four times the blocks of the device; there is no file.
std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options);

}  // namespace lesson11
