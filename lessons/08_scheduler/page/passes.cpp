#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "common/table.h"
#include "page.h"

namespace lesson08 {

void LiveServing::serve(const PageSettings& settings, const std::string& prompt, int max_tokens) {
  std::vector<kv::Request> requests(kRequests, request(prompt, max_tokens));
  std::vector<Arrival> arrivals;
  for (int i = 0; i < kRequests; ++i) {
    auto& sampling = requests[static_cast<size_t>(i)].sampling;
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

const KvCacheManager& SchedulerPage::manager() const {
  return live_.running() ? *live_.serving().manager() : *manager_;
}

const Scheduler* SchedulerPage::scheduler() const {
  return live_.running() ? live_.scheduler() : scheduler_.get();
}

Seen& SchedulerPage::seen_of(int64_t id) { return *std::ranges::find(seen_, id, &Seen::hue); }
const Seen& SchedulerPage::seen_of(int64_t id) const {
  return *std::ranges::find(seen_, id, &Seen::hue);
}

std::string SchedulerPage::names_of(const std::vector<int64_t>& ids) const {
  std::string names;
  for (const int64_t id : ids) names += " " + seen_of(id).name;
  return names;
}

int SchedulerPage::num_rows() const {
  int rows = 0;
  for (const Chunk& chunk : last_.chunks) rows += chunk.num_tokens;
  return rows;
}

std::string SchedulerPage::live(const std::string& prompt, int max_tokens) {
  live_.serve(settings_, prompt, max_tokens);  // may refuse
  begin();
  note_pass(*live_.scheduler(), live_.output());
  return fmt::format("{} begin with \"{}\"", kv::count_of(LiveServing::kRequests, "request"),
                     prompt);
}

std::string SchedulerPage::passes(int count) {
  std::vector<std::string> ended;
  for (int i = 0; i < count && scheduler() != nullptr && !(scheduler_->idle() && !live_.running());
       ++i) {
    const size_t ended_before = ended_.size();
    run_pass();
    ended.clear();
    for (size_t k = ended_before; k < ended_.size(); ++k) {
      ended.push_back(seen_of(ended_[k]).name);
    }
  }
  std::string story =
      fmt::format("pass {}: {} of {}", num_passes_, kv::count_of(num_rows(), "token"),
                  kv::count_of(std::ssize(last_.chunks), "request"));
  if (!last_.started.empty()) story += "; started:" + names_of(last_.started);
  if (!last_.resumed.empty()) story += "; resumed:" + names_of(last_.resumed);
  if (!last_.preempted.empty()) story += "; preempted:" + names_of(last_.preempted);
  if (!ended.empty()) story += fmt::format("; ended: {}", fmt::join(ended, " "));
  return story;
}

/// One pass: of the engine, or of the page's scheduler without a model.
void SchedulerPage::run_pass() {
  if (live_.running()) {
    live_.step();
    if (!live_.finished()) note_pass(*live_.scheduler(), live_.output());
    look();
    return;
  }
  note_pass(*scheduler_, scheduler_->schedule());
  scheduler_->update(last_.chunks);
  for (Seen& seen : seen_) {
    if (seen.ended || !scheduler_->wants_token(seen.hue)) continue;
    scheduler_->add_token(seen.hue, next_token_++);
    if (++seen.generated == seen.max_tokens) scheduler_->finish(seen.hue);
  }
  look();
}

/// A pass is composed; `seen_` has how it was before.
void SchedulerPage::note_pass(const Scheduler& of, const SchedulerOutput& output) {
  last_ = output;
  ++num_passes_;
  note_arrivals(of);
  note_ends(&of);
  for (const auto* ids : {&last_.started, &last_.resumed}) {
    for (const int64_t id : *ids) {
      num_found_ += of.request(id).num_cached;
      num_looked_up_ += std::ssize(of.request(id).tokens);
    }
  }
  if (!last_.preempted.empty()) shortage_ = shortage_in(of);
  for (Seen& seen : seen_) seen.marks.push_back(mark_of(of, seen));
  used_.push_back(manager().pool().num_used());
}

/// Of a live run: what has come before this pass.
void SchedulerPage::note_arrivals(const Scheduler& of) {
  if (!live_.running()) return;
  for (int64_t id = std::ssize(seen_); id < LiveServing::kRequests && is_there(&of, id); ++id) {
    const ScheduledRequest& request = of.request(id);
    Seen& seen = seen_.add(seen_.free_name(), {});
    seen.num_prompt = request.num_prompt;
    seen.max_tokens = live_.requests()[static_cast<size_t>(id)].max_tokens;
    seen.marks.assign(static_cast<size_t>(num_passes_ - 1), std::nullopt);
  }
}

void SchedulerPage::note_ends(const Scheduler* of) {
  for (Seen& seen : seen_) {
    if (seen.ended || is_there(of, seen.hue)) continue;
    seen.ended = true;
    seen.ids.clear();
    ended_.push_back(seen.hue);
  }
}

bool SchedulerPage::is_there(const Scheduler* of, int64_t id) {
  if (of == nullptr) return false;
  const std::vector<int64_t> waiting = of->waiting(), running = of->running();
  return std::ranges::count(waiting, id) + std::ranges::count(running, id) > 0;
}

/// Takes over how all requests are now.
Shown SchedulerPage::look() {
  const Scheduler* const of = scheduler();
  note_ends(of);
  waiting_ = of != nullptr ? of->waiting() : std::vector<int64_t>();
  running_ = of != nullptr ? of->running() : std::vector<int64_t>();
  for (Seen& seen : seen_) {
    if (live_.running()) {
      const std::vector<int32_t>& answer = live_.answers()[static_cast<size_t>(seen.hue)];
      for (; seen.generated < std::ssize(answer); ++seen.generated) {
        seen.words += live_.text(answer[static_cast<size_t>(seen.generated)]);
      }
    }
    if (seen.ended) continue;
    seen.num_preemptions = of->request(seen.hue).num_preemptions;
    seen.num_computed = 0;
    seen.ids.clear();
    if (!manager().holds(seen.hue)) continue;
    const BlockTable& table = manager().table(seen.hue);
    seen.num_computed = table.num_tokens();
    seen.ids.assign(table.block_ids().begin(), table.block_ids().end());
  }
  return {.seen = seen_, .running = running_, .num_passes = num_passes_};
}

std::optional<viz::State> SchedulerPage::mark_of(const Scheduler& of, const Seen& seen) const {
  if (seen.ended) return std::nullopt;
  const ScheduledRequest& request = of.request(seen.hue);
  const auto chunk = std::ranges::find(last_.chunks, seen.hue, &Chunk::id);
  if (chunk != last_.chunks.end()) {
    const bool decode = chunk->num_tokens == 1 && request.num_computed >= request.num_prompt;
    return decode ? viz::State::kDecode : viz::State::kPrompt;
  }
  if (request.state != RequestState::kWaiting) return std::nullopt;
  return request.num_preemptions > 0 ? viz::State::kPreempted : viz::State::kFree;
}

/// The first that gets no block, when those that ran before the pass ask one after the other.
std::optional<Shortage> SchedulerPage::shortage_in(const Scheduler& of) const {
  std::map<int32_t, int> holders;  // by block
  for (const Seen& seen : seen_) {
    for (const int32_t id : seen.ids) ++holders[id];
  }
  const auto taken_away = manager().holds(kBallast) ? manager().table(kBallast).num_blocks() : 0;
  Shortage shortage{
      .pass = num_passes_,
      .num_free = pool().num_blocks() - static_cast<int>(holders.size()) - taken_away};
  for (const int64_t victim : last_.preempted) {
    shortage.num_given += static_cast<int>(
        std::ranges::count_if(seen_of(victim).ids, [&](int32_t id) { return holders[id] == 1; }));
  }
  int budget = settings_.budget;
  for (const int64_t id : running_) {
    const Seen& seen = seen_of(id);
    if (seen.ended) continue;
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
  if (waiting_.empty()) return std::nullopt;
  const Scheduler& of = *scheduler();
  const ScheduledRequest& request = of.request(waiting_.front());
  lesson06::BlockHashes hashes = request.hashes;  // a look changes nothing
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
