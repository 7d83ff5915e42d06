#include "engine.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "fingerprint.h"
#include "tiers.h"

namespace lesson11 {
namespace {

/// Fewer tokens say little of what a prompt's take: a pass reads all weights for them.
constexpr int kTokensToMeasure = 32;

}  // namespace

TieredEngine::TieredEngine(kv::Model& model, const PagedOptions& options, const ServeOptions& serve,
                           const HostTierOptions& tiers)
    : ServingEngine(model, options, serve), tier_options_(tiers) {}

/// A restart finds what was in memory.
TieredEngine::~TieredEngine() {
  if (manager() == nullptr || tier_options_.file.empty()) return;
  try {
    tiered_->flush();
  } catch (const std::exception&) {  // the file lacks it then, and that costs a miss
  }
}

const TieredManager* TieredEngine::manager() const {
  return ServingEngine::manager() == nullptr ? nullptr : tiered_;
}

std::unique_ptr<KvCacheManager> TieredEngine::make_manager(BlockPool& pool,
                                                           const CacheManagerOptions& options) {
  const int host_blocks = tier_options_.host_blocks > 0 ? tier_options_.host_blocks
                                                        : default_tier_blocks(pool.num_blocks());
  HostTier host = make_host_tier(cache(), model().stream(), host_blocks);
  swapper_ = host.swapper;
  std::vector<Tier> tiers;
  tiers.push_back(std::move(host.tier));
  PrefixId first_prefix = 0;
  if (!tier_options_.file.empty()) {
    const FileShape shape{.fingerprint = fingerprint_of(model()),
                          .block_size = cache().block_size(),
                          .bytes_per_block = cache().bytes_per_block()};
    FileTier file = make_file_tier(tier_options_.file, shape,
                                   tier_options_.file_blocks > 0 ? tier_options_.file_blocks
                                                                 : default_tier_blocks(host_blocks),
                                   host.blocks);
    first_prefix = file.first_prefix;
    tiers.push_back(std::move(file.tier));
  }
  auto manager = std::make_unique<TieredManager>(pool, std::move(tiers), options,
                                                 tier_options_.tiers, first_prefix);
  tiered_ = manager.get();
  return manager;
}

std::unique_ptr<lesson08::Scheduler> TieredEngine::make_scheduler(KvCacheManager&) {
  return std::make_unique<TieredScheduler>(*tiered_, scheduler_options(), tier_options_.policy);
}

/// Nothing to run: what is being copied comes first.
void TieredEngine::before_pass(lesson08::Scheduler& scheduler, const SchedulerOutput& output) {
  if (output.chunks.empty()) return tiered_->wait_for_a_move();
  if (const Ticket ticket = tiered_->take_write_ticket(); ticket > 0) {
    swapper_->let_passes_wait(ticket);
  }
  rates_.seconds_per_block.clear();
  for (int tier = 0; tier < tiered_->num_tiers(); ++tier) {
    rates_.seconds_per_block.push_back(tiered_->transfers(tier).seconds_per_block());
  }
  static_cast<TieredScheduler&>(scheduler).set_rates(rates_);
  pass_began_ = std::chrono::steady_clock::now();
}

/// What sinks now is copied beside the next pass, unless that one takes the blocks: then it waits.
void TieredEngine::after_pass(lesson08::Scheduler&, const SchedulerOutput& output) {
  tiered_->sink();
  int tokens = 0;
  for (const Chunk& chunk : output.chunks) tokens += chunk.num_tokens;
  if (tokens < kTokensToMeasure) return;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - pass_began_;
  rates_.seconds_per_token = smoothed(rates_.seconds_per_token, took.count() / tokens);
}

void TieredEngine::add_counters(const lesson08::Scheduler& scheduler,
                                kv::EngineCounters& counters) const {
  const auto& tiered = static_cast<const TieredScheduler&>(scheduler);
  counters.by_name["found_tokens"] = tiered.num_found_tokens();
  counters.by_name["loaded_tokens"] = tiered.num_loaded_tokens();
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options) {
  return std::make_unique<TieredEngine>(model, options);
}

}  // namespace lesson11
