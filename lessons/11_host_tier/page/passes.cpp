#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "page.h"

namespace lesson11 {

// The two rounds of a live run.
constexpr int kPassesBetween = 2, kSecondRound = 1000;  // idle passes are skipped

void LiveTier::serve(const PageSettings& settings, const std::string& prompt, int max_tokens) {
  std::vector<kv::Request> requests;
  std::vector<kv::Arrival> arrivals;
  for (int i = 0; i < 2 * kConversations; ++i) {
    const int round = i / kConversations, one = i % kConversations;
    requests.push_back(request(fmt::format("{} {}", kNames[one], prompt), max_tokens));
    arrivals.push_back({.pass = round * kSecondRound + one * kPassesBetween});
  }
  auto engine = std::make_unique<HostTierEngine>(
      model(), PagedOptions{.block_size = kBlockSize, .num_blocks = settings.device},
      ServeOptions{.scheduler = settings.scheduler()},
      HostTierOptions{.host_blocks = settings.host,
                      .policy = settings.policy == LoadPolicy::kNever ? LoadPolicy::kNever
                                                                      : LoadPolicy::kAlways,
                      .offload_ahead = settings.ahead});
  LiveServer::serve(std::move(engine), std::move(requests), std::move(arrivals));
}

bool HostTierPage::has_work() const {
  if (live_.running()) return !live_.finished();
  return !scheduler_->idle() || !shown_.copies.empty();
}

std::string HostTierPage::passes(int count) {
  for (int i = 0; i < count && has_work(); ++i) {
    const Shown was = shown_;
    if (live_.running()) {
      live_.step();
      live_pass();
    } else {
      run_pass();
    }
    tell_pass(was);
  }
  if (live_.finished()) {
    return tell("the run has ended: what it leaves can be found, on the device or in the host");
  }
  return shown_.reason.empty() ? viz::told_of(shown_.num_passes, shown_.asked, last_)
                               : shown_.reason;
}

/// Runs a pass without a model: the page knows every text.
void HostTierPage::run_pass() {
  if (is_worth_loading(settings_.policy, settings_.rates(), kBlockSize)) {
    load_waiting(*scheduler_, *manager_);
    note_loads();
  }
  last_ = scheduler_->schedule();
  const Job first = manager_->take_write_job();
  waited_ = first > memory_->copies.completed();
  memory_->copies.wait(first);
  note_pass();
  for (const lesson08::Chunk& chunk : last_.chunks) {
    const lesson08::ScheduledRequest& request = scheduler_->request(chunk.id);
    memory_->write(manager_->table(chunk.id).block_ids(), request.tokens, request.num_computed,
                   request.num_computed + chunk.num_tokens);
  }
  memory_->copies.step(settings_.copies);
  scheduler_->update(last_.chunks);
  viz::answer(shown_.asked, *scheduler_, [](const Asked& asked) { return asked.next_token(); });
  manager_->offload(settings_.ahead);
  manager_->complete();  // what has been loaded is seen at once
  refresh();
}

/// Notes a pass that is composed.
void HostTierPage::note_pass() {
  ++shown_.num_passes;
  shown_.computed += viz::num_rows(last_);
  for (Asked& asked : shown_.asked) {
    asked.doing.reset();
    if (asked.id >= 0 && viz::is_there(scheduler(), asked.id)) {
      asked.doing = manager().is_loading(asked.id) ? viz::State::kReserved
                                                   : viz::mark_of(*scheduler(), last_, asked.id);
    }
    asked.marks.resize(shown_.num_passes - 1);
    asked.marks.push_back(asked.doing);
  }
}

std::string HostTierPage::live(const std::string& prompt, int max_tokens) {
  live_.serve(settings_, prompt, max_tokens);  // may refuse
  begin();
  for (const char* name : LiveTier::kNames) shown_.asked.add(name, {});
  live_pass();
  tell_pass(shown_);
  return fmt::format("{} come, and later they come again",
                     kv::count_of(LiveTier::kConversations, "conversation"));
}

/// Notes the pass before which the engine stands still, and the requests that have come since the
/// last one.
void HostTierPage::live_pass() {
  if (live_.finished()) return refresh();
  last_ = live_.output();
  for (int64_t id = 0; id < std::ssize(live_.requests()); ++id) {
    Asked& asked = shown_.asked.at(LiveTier::kNames[id % LiveTier::kConversations]);
    if (id <= asked.id || !viz::is_there(scheduler(), id)) continue;
    const kv::Request& request = live_.requests()[id];
    asked.id = id;
    asked.num_prompt = static_cast<int>(request.prompt.size());
    asked.max_tokens = request.max_tokens;
    asked.found = found_now(request.prompt);
  }
  note_pass();
  refresh();
  for (Asked& asked : shown_.asked) {  // the pass counts as run: its blocks are in the table
    for (const lesson08::Chunk& chunk : last_.chunks) {
      if (chunk.id == asked.id) asked.num_computed += chunk.num_tokens;
    }
  }
}

}  // namespace lesson11
