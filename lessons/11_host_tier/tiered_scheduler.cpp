#include "tiered_scheduler.h"

#include <algorithm>

namespace lesson11 {

using lesson08::RequestState;

int blocks_worth_loading(std::span<const TierBlock> blocks, int block_size, LoadPolicy policy,
                         const Rates& rates) {
  if (policy == LoadPolicy::kNever) return 0;
  const double compute = rates.seconds_per_token * block_size;  // a block
  const auto is_quicker = [&](const TierBlock& block) {
    double load = 0;  // through every tier above
    for (size_t tier = 0; tier <= static_cast<size_t>(block.tier); ++tier) {
      if (tier < rates.seconds_per_block.size()) load += rates.seconds_per_block[tier];
    }
    return policy == LoadPolicy::kAlways || compute == 0 || load < compute;
  };
  size_t worth = 0;
  while (worth < blocks.size() && is_quicker(blocks[worth])) ++worth;
  return static_cast<int>(worth);
}

TieredScheduler::TieredScheduler(TieredManager& manager, const SchedulerOptions& options,
                                 LoadPolicy policy)
    : Scheduler(manager, options), manager_(&manager), policy_(policy) {}

const SchedulerOutput& TieredScheduler::schedule() {
  manager_->finish_moves();
  finish_loads();
  return Scheduler::schedule();
}

/// What was loaded is a chunk that has run.
void TieredScheduler::finish_loads() {
  for (auto next = loads_.begin(); next != loads_.end();) {
    const auto [id, load] = *next;
    const bool preempted = request(id).state != RequestState::kRunning;
    if (!preempted && !manager_->loaded(load.ticket)) {
      ++next;
      continue;
    }
    next = loads_.erase(next);
    if (preempted) continue;
    num_loaded_tokens_ += load.num_tokens;
    const Chunk its_load{.id = id, .num_tokens = load.num_tokens};
    update({&its_load, 1});
  }
}

void TieredScheduler::schedule_waiting(int& budget) {
  Queue& waiting = waiting_queue();
  for (auto next = waiting.begin();
       next != waiting.end() && budget > 0 && num_running() < options().max_running;) {
    const auto request = next++;
    FoundBlocks found = manager_->look_up(request->tokens, request->hashes,
                                          request->options.skip_reading_prefix_cache);
    found.below.resize(static_cast<size_t>(
        blocks_worth_loading(found.below, manager_->block_size(), policy_, rates_)));
    if (std::ranges::any_of(found.below, &TierBlock::on_its_way)) continue;
    if (fetch(request->id, found)) continue;
    if (!start(request, found, budget)) return;
  }
}

/// True: blocks are rising from a file, and the request waits for them. Only once: a host with
/// little room could lose them again and again.
bool TieredScheduler::fetch(int64_t id, FoundBlocks& found) {
  const auto further_down = [](const TierBlock& block) { return block.tier > 0; };
  const auto first = std::ranges::find_if(found.below, further_down);
  if (first == found.below.end()) return false;
  if (!fetched_.contains(id) && manager_->fetch(found) > 0) {
    fetched_.insert(id);
    return true;
  }
  found.below.erase(first, found.below.end());
  return false;
}

/// False: there is no room for it now, nor for those after it.
bool TieredScheduler::start(Queue::iterator request, const FoundBlocks& found, int& budget) {
  const int num_loaded = static_cast<int>(found.below.size()) * manager_->block_size();
  const int num_cached = found.computed.num_tokens + num_loaded;
  const int tokens = chunk_of(*request, num_cached, budget);
  const int rest = static_cast<int>(request->tokens.size()) - num_cached;
  const int must_fit = options().full_sequence_must_fit ? rest : tokens;
  if (tokens == 0) return false;
  if (num_loaded == 0) {
    if (!manager_->allocate_slots(request->id, tokens, found.computed, must_fit)) return false;
    Scheduler::start(request, num_cached);
    add_chunk(*request, tokens, budget);
  } else {
    const auto ticket = manager_->load(request->id, found, must_fit);
    if (!ticket) return false;
    loads_[request->id] = {.ticket = *ticket, .num_tokens = num_loaded};
    Scheduler::start(request, found.computed.num_tokens);
    request->num_cached = num_cached;
  }
  num_found_tokens_ += found.computed.num_tokens;
  fetched_.erase(request->id);
  return true;
}

int TieredScheduler::chunk_of(const ScheduledRequest& request, int num_computed, int budget) const {
  return is_loading(request.id) ? 0 : Scheduler::chunk_of(request, num_computed, budget);
}

bool TieredScheduler::finish(int64_t id) {
  loads_.erase(id);
  fetched_.erase(id);
  return Scheduler::finish(id);
}

}  // namespace lesson11
