#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/table.h"
#include "page.h"

namespace lesson11 {
namespace {

// Of a live run's two rounds.
constexpr const char* kNames[LiveTier::kConversations] = {"Tom", "Lily", "Ben", "Mia"};
constexpr int kPassesBetween = 2, kSecondRound = 1000;  // what is idle is skipped

}  // namespace

void LiveTier::serve(const PageSettings& settings, const std::string& prompt, int max_tokens) {
  std::vector<kv::Request> requests;
  std::vector<lesson08::Arrival> arrivals;
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
                      .offload_ahead = settings.ahead,
                      .min_hits_to_offload = settings.min_hits});
  LiveServer::serve(std::move(engine), std::move(requests), std::move(arrivals));
}

bool HostTierPage::has_work() const {
  if (live_.running()) return !live_.finished();
  return !scheduler_->idle() || !shown_.moving.empty();
}

std::string HostTierPage::passes(int count) {
  for (int i = 0; i < count; ++i) {
    const Shown was = shown_;
    if (live_.running()) {
      if (!live_.step()) break;
      note_live_pass();
    } else {
      if (i > 0 && !has_work()) break;
      run_pass();
    }
    tell_pass(was);
  }
  if (live_.finished()) {
    shown_.reason = "the run has ended: what it leaves can be found, on the device or in the host";
    shown_.points_at.clear();
    return shown_.reason;
  }
  return fmt::format("pass {}: {} of {}", shown_.num_passes, kv::count_of(shown_.num_rows, "token"),
                     kv::count_of(std::ssize(last_.chunks), "request"));
}

/// Without a model: what a pass computes of a token is its number and its place.
void HostTierPage::run_pass() {
  const Traffic was = memory_->traffic();
  if (is_worth_loading(settings_.policy, settings_.rates(), kBlockSize)) {
    load_waiting(*scheduler_, *manager_);
  }
  last_ = scheduler_->schedule();
  const Job first = manager_->take_write_job();
  waited_ = first > memory_->copies().completed();
  memory_->copies().wait(first);
  note_pass();
  for (const lesson08::Chunk& chunk : last_.chunks) write(chunk);
  memory_->copies().step(settings_.copies);
  const Traffic& now = memory_->traffic();
  shown_.traffic.push_back({now.offloaded - was.offloaded, now.loaded - was.loaded});
  scheduler_->update(last_.chunks);
  for (Asked& asked : shown_.asked) {
    if (!asked.is_there() || !scheduler_->wants_token(asked.id)) continue;
    const int next = asked.num_prompt + asked.generated;
    scheduler_->add_token(asked.id, asked.text[static_cast<size_t>(next)]);
    if (++asked.generated == asked.max_tokens) scheduler_->finish(asked.id);
  }
  manager_->offload(settings_.ahead, settings_.min_hits);
  manager_->complete();  // what has been loaded is seen at once
  look();
}

void HostTierPage::write(const lesson08::Chunk& chunk) {
  const lesson08::ScheduledRequest& request = scheduler_->request(chunk.id);
  const auto blocks = manager_->table(chunk.id).block_ids();
  for (int i = request.num_computed; i < request.num_computed + chunk.num_tokens; ++i) {
    memory_->write(blocks[static_cast<size_t>(i / kBlockSize)], i % kBlockSize,
                   request.tokens[static_cast<size_t>(i)], i);
  }
}

/// A pass is composed.
void HostTierPage::note_pass() {
  shown_.has_passed = true;
  ++shown_.num_passes;
  shown_.num_rows = 0;
  for (const lesson08::Chunk& chunk : last_.chunks) shown_.num_rows += chunk.num_tokens;
  shown_.computed += shown_.num_rows;
  for (Asked& asked : shown_.asked) {
    const auto is_in = [&](const std::vector<int64_t>& ids) {
      return std::ranges::count(ids, asked.id) > 0;
    };
    asked.doing = doing_of(asked);
    if (asked.is_there() && (is_in(last_.started) || is_in(last_.resumed))) note_start(asked);
    asked.marks.resize(static_cast<size_t>(shown_.num_passes - 1), Doing::kNothing);
    asked.marks.push_back(asked.doing);
  }
}

/// What it begins with nobody computes again.
void HostTierPage::note_start(const Asked& asked) {
  const int num_blocks = scheduler()->request(asked.id).num_cached / kBlockSize;
  for (size_t i = 0; i < static_cast<size_t>(num_blocks); ++i) {
    const int shelf = i < asked.found.size() ? asked.found[i] : 0;
    shown_.hits.at(static_cast<size_t>(shelf)) += kBlockSize;
  }
}

std::string HostTierPage::live(const std::string& prompt, int max_tokens) {
  live_.serve(settings_, prompt, max_tokens);  // may refuse
  clear(settings_);
  for (const char* name : kNames) shown_.asked.add(name, {});
  note_live_pass();
  tell_pass(shown_);
  return fmt::format("{} come, and later they come again",
                     kv::count_of(LiveTier::kConversations, "conversation"));
}

/// The engine stands still before a pass, or has ended.
void HostTierPage::note_live_pass() {
  if (live_.finished()) return look();
  last_ = live_.output();
  note_arrivals();
  note_pass();
  look();
  Traffic now{manager().metrics().num_offloaded, manager().metrics().num_loaded};
  for (const Traffic& pass : shown_.traffic) {
    now.offloaded -= pass.offloaded;
    now.loaded -= pass.loaded;
  }
  shown_.traffic.push_back(now);
}

/// Requests that have come since the pass before.
void HostTierPage::note_arrivals() {
  for (int64_t id = 0; id < std::ssize(live_.requests()); ++id) {
    const std::string name = kNames[id % LiveTier::kConversations];
    Asked& asked = shown_.asked.at(name);
    const kv::Request& request = live_.requests()[static_cast<size_t>(id)];
    if (id > asked.id && is_there(id)) {
      asked.id = id;
      asked.num_prompt = static_cast<int>(request.prompt.size());
      asked.max_tokens = request.max_tokens;
      asked.generated = 0;
      asked.found = coming_[name];
      asked.doing = Doing::kWaits;
    }
    if (id > asked.id) coming_[name] = found_now(request.prompt);
  }
}

}  // namespace lesson11
