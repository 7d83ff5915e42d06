#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "common/table.h"
#include "page.h"

namespace lesson08 {

void LiveServing::serve(const PageSettings& settings, const std::string& prompt, int max_tokens) {
  std::vector<kv::Request> requests(kRequests, request(prompt, max_tokens));
  std::vector<kv::Arrival> arrivals;
  for (int i = 0; i < kRequests; ++i) {
    auto& sampling = requests[i].sampling;
    sampling.temperature = 0.8f;
    sampling.seed += static_cast<uint64_t>(i);
    arrivals.push_back({.pass = i * kPassesBetween});
  }
  auto engine = std::make_unique<ServingEngine>(
      model(),
      lesson03::PagedOptions{.block_size = settings.block_size, .num_blocks = settings.num_blocks},
      ServeOptions{.scheduler = settings.scheduler()});
  LiveServer::serve(std::move(engine), std::move(requests), std::move(arrivals));
}

std::string SchedulerPage::live(const std::string& prompt, int max_tokens) {
  live_.serve(settings_, prompt, max_tokens);  // may refuse
  begin();
  note_pass(*live_.scheduler(), live_.output());
  return fmt::format("{} begin with \"{}\"", kv::count_of(LiveServing::kRequests, "request"),
                     prompt);
}

std::string SchedulerPage::passes(int count) {
  const auto has_work = [&] { return live_.running() ? !live_.finished() : !scheduler_->idle(); };
  for (int i = 0; i < count && has_work(); ++i) run_pass();
  return viz::told_of(shown_.num_passes, shown_.seen, shown_.last);
}

/// One pass: of the engine, or of the page's scheduler without a model.
void SchedulerPage::run_pass() {
  if (live_.running()) {
    live_.step();
    if (!live_.finished()) note_pass(*live_.scheduler(), live_.output());
  } else {
    note_pass(*scheduler_, scheduler_->schedule());
    scheduler_->update(shown_.last.chunks);
    viz::answer(shown_.seen, *scheduler_, [&](const Seen&) { return next_token_++; });
  }
  look();
}

/// Notes a composed pass; `shown_.seen` still has the state before it.
void SchedulerPage::note_pass(const Scheduler& of, const SchedulerOutput& output) {
  shown_.last = output;
  ++shown_.num_passes;
  note_arrivals(of);
  for (const auto* ids : {&shown_.last.started, &shown_.last.resumed}) {
    for (const int64_t id : *ids) shown_.num_found += of.request(id).num_cached;
  }
  if (!shown_.last.preempted.empty()) shown_.shortage = shortage_in(of);
  for (Seen& seen : shown_.seen) {
    const bool is_there = viz::is_there(&of, seen.id);
    seen.marks.push_back(is_there ? viz::mark_of(of, shown_.last, seen.id) : std::nullopt);
  }
}

/// Adds the requests of a live run that have arrived before this pass.
void SchedulerPage::note_arrivals(const Scheduler& of) {
  if (!live_.running()) return;
  for (int64_t id = std::ssize(shown_.seen); id < LiveServing::kRequests && viz::is_there(&of, id);
       ++id) {
    const ScheduledRequest& request = of.request(id);
    Seen& seen = shown_.seen.add(shown_.seen.free_name(), {});
    seen.id = id;
    seen.num_prompt = request.num_prompt;
    seen.max_tokens = live_.requests()[id].max_tokens;
    seen.marks.resize(shown_.num_passes - 1);
  }
}

/// Copies the current state of all requests.
Shown SchedulerPage::look() {
  const Scheduler* const of = scheduler();
  shown_.waiting = of != nullptr ? of->waiting() : std::vector<int64_t>();
  shown_.running = of != nullptr ? of->running() : std::vector<int64_t>();
  for (Seen& seen : shown_.seen) {
    if (live_.running()) viz::follow_answer(seen, live_);
    viz::follow(seen, of, manager());
    if (seen.ended) continue;
    const bool holds = manager().holds(seen.id);
    seen.num_computed = holds ? manager().table(seen.id).num_tokens() : 0;  // those with a slot
  }
  return shown_;
}

/// The first request without a block, if those that ran before the pass ask one after the other.
std::optional<Shortage> SchedulerPage::shortage_in(const Scheduler& of) const {
  std::set<int32_t> held;
  for (const Seen& seen : shown_.seen) held.insert(seen.ids.begin(), seen.ids.end());
  const int taken_away = manager().holds(kBallast) ? manager().table(kBallast).num_blocks() : 0;
  const int num_held = static_cast<int>(held.size()) + taken_away;
  Shortage shortage{.pass = shown_.num_passes, .num_free = pool().num_blocks() - num_held};
  for (const int64_t victim : shown_.last.preempted) {
    shortage.num_given += shown_.of(victim).ids.size();
  }
  int budget = settings_.budget;
  for (const int64_t id : shown_.running) {
    const Seen& seen = shown_.of(id);
    if (!viz::is_there(&of, id)) continue;
    const int tokens = of.chunk_of(of.request(id), seen.num_computed, budget);
    const int wanted = lesson03::blocks_for(seen.num_computed + tokens, settings_.block_size) -
                       static_cast<int>(seen.ids.size());
    if (wanted > shortage.num_free) {
      shortage.id = id;
      shortage.num_wanted = wanted;
      return shortage;
    }
    shortage.num_free -= wanted;
    budget -= tokens;
  }
  return std::nullopt;
}

std::optional<FirstInLine> SchedulerPage::first_in_line() const {
  if (shown_.waiting.empty()) return std::nullopt;
  const Scheduler& of = *scheduler();
  const ScheduledRequest& request = of.request(shown_.waiting.front());
  lesson06::BlockHashes hashes = request.hashes;  // a copy: looking changes nothing
  const ComputedBlocks computed = manager().get_computed_blocks(request.tokens, hashes);
  const int known =
      !settings_.no_gate
          ? static_cast<int>(request.tokens.size())
          : computed.num_tokens + of.chunk_of(request, computed.num_tokens, settings_.budget);
  const auto held =
      std::ranges::count_if(computed.block_ids, [&](int32_t id) { return pool().ref_cnt(id) > 0; });
  return FirstInLine{
      .id = request.id,
      .num_needed = lesson03::blocks_for(known, settings_.block_size) - static_cast<int>(held),
      .num_free = pool().num_free()};
}

}  // namespace lesson08
