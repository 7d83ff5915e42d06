#include "viz/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/error.h"
#include "page_scheduler.h"

namespace lesson08 {

constexpr int kSharedTokens = 16;  // every prompt begins with them

viz::PageInfo SchedulerPage::info() const {
  return {.lesson = "08",
          .title = "The scheduler",
          .summary =
              "Requests wait, run, and give way. Every pass has a budget of tokens, and all "
              "of them share one pool.",
          .commands = {"submit NAME PROMPT MAX [PRIO]  a prompt of PROMPT tokens, MAX to generate",
                       "step [N]                 N passes",
                       "kill NAME                the request ends now",
                       "shrink BLOCKS            take free blocks away from the pool",
                       "grow                     give them back",
                       "pool BLOCKS SIZE BUDGET  start anew: blocks, tokens each, tokens a pass",
                       "order first|priority     start anew"}};
}

void SchedulerPage::restart(const PageSettings& settings) {
  settings_ = settings;
  scheduler_.reset();
  manager_ = std::make_unique<KvCacheManager>(KvCacheManager::Options{
      .num_blocks = settings.num_blocks, .block_size = settings.block_size});
  scheduler_ = std::make_unique<Scheduler>(
      *manager_, SchedulerOptions{.max_tokens_per_pass = settings.budget, .order = settings.order});
  seen_.clear();
  last_.clear();
  num_passes_ = 0;
  num_found_ = 0;
  next_id_ = 0;
  next_token_ = 1000;
}

std::string SchedulerPage::apply(const viz::Command& command) {
  const std::string& verb = command.verb;
  if (verb == "submit") return submit(command);
  if (verb == "step") {
    command.check_count(0, 1);
    const int64_t count = command.args.empty() ? 1 : command.number(0, "passes", 1, 1000);
    if (scheduler_->idle()) kv::user_error("step: there is nothing to do; submit a request");
    std::string story;
    for (int64_t i = 0; i < count && !scheduler_->idle(); ++i) story = pass();
    return story;
  }
  if (verb == "kill") {
    command.check_count(1, 1);
    return kill(command.word(0, "a name"));
  }
  if (verb == "shrink") {
    command.check_count(1, 1);
    return shrink(static_cast<int>(command.number(0, "blocks", 1, 4096)));
  }
  if (verb == "grow") {
    command.check_count(0, 0);
    if (!manager_->holds(kBallast)) kv::user_error("grow: no block was taken away");
    manager_->free(kBallast);
    return "the pool has all its blocks again";
  }
  if (verb == "pool" || verb == "order") return settings(command);
  kv::user_error("{}: no such command; there are submit, step, kill, shrink, grow, pool, order",
                 verb);
}

std::string SchedulerPage::settings(const viz::Command& command) {
  PageSettings settings = settings_;
  if (command.verb == "pool") {
    command.check_count(3, 3);
    settings.num_blocks = static_cast<int>(command.number(0, "blocks", 1, 1024));
    settings.block_size = static_cast<int>(command.number(1, "a block size", 1, 64));
    settings.budget = static_cast<int>(command.number(2, "a budget", 1, 4096));
  } else {
    command.check_count(1, 1);
    const std::string& how = command.word(0, "first or priority");
    if (how != "first" && how != "priority") {
      kv::user_error("order {}: wanted first or priority", how);
    }
    settings.order = how == "first" ? Order::kFirstCome : Order::kPriority;
  }
  restart(settings);
  return fmt::format(
      "{} blocks of {}, {} tokens a pass, {}", settings.num_blocks, settings.block_size,
      settings.budget,
      settings.order == Order::kPriority ? "the most important first" : "first come, first served");
}

std::string SchedulerPage::submit(const viz::Command& command) {
  command.check_count(3, 4);
  const std::string& name = command.word(0, "a name");
  const auto prompt = static_cast<int>(command.number(1, "tokens of a prompt", 1, 4096));
  const auto max_tokens = static_cast<int>(command.number(2, "tokens to generate", 1, 4096));
  const auto priority =
      command.args.size() > 3 ? static_cast<int>(command.number(3, "a priority", -9, 9)) : 0;
  if (name.empty() || name.size() > 8) kv::user_error("name \"{}\": wanted 1 to 8 letters", name);
  if (std::ranges::count(seen_, name, &Seen::name) > 0) {
    kv::user_error("there was a request {} already", name);
  }
  if (seen_.size() >= kMostRequests) {
    kv::user_error("the page shows {} requests at most; start anew", kMostRequests);
  }
  std::vector<int32_t> tokens;
  for (int i = 0; i < prompt; ++i) {
    tokens.push_back(i < kSharedTokens ? i : static_cast<int32_t>(next_id_ * 10'000) + 100 + i);
  }
  try {
    scheduler_->submit(next_id_, tokens, max_tokens, priority);
  } catch (const kv::UserError& error) {
    kv::user_error("{}: {}", name, error.what());
  }
  Seen seen{.name = name,
            .id = next_id_++,
            .hue = 0,
            .max_tokens = max_tokens,
            .generated = 0,
            .ended = false,
            .marks = {}};
  seen.hue = static_cast<int>(seen.id);
  seen.marks.assign(static_cast<size_t>(num_passes_), kAbsent);
  seen_.push_back(std::move(seen));
  return fmt::format("{}: {} tokens, {} to generate; it waits", name, prompt, max_tokens);
}

std::string SchedulerPage::pass() {
  const int64_t preempted_before = scheduler_->num_preemptions();
  last_ = scheduler_->schedule();
  ++num_passes_;
  for (Seen& seen : seen_) {
    int mark = seen.ended ? kEnded : kAbsent;
    if (!seen.ended) {
      const ScheduledRequest& request = scheduler_->request(seen.id);
      const auto chunk = std::ranges::find(last_, seen.id, &Chunk::id);
      if (chunk != last_.end()) {
        if (request.num_computed == request.num_cached) num_found_ += request.num_cached;
        const bool decode = chunk->num_tokens == 1 && request.num_computed >= request.num_prompt;
        mark = decode ? kDecodes : kPrompt;
      } else if (request.state == RequestState::kWaiting) {
        mark = request.num_preemptions > 0 ? kPreempted : kWaits;
      }
    }
    seen.marks.push_back(mark);
  }
  scheduler_->update(last_);
  std::string ended;
  for (const Chunk& chunk : last_) {
    if (!scheduler_->wants_token(chunk.id)) continue;
    Seen& seen = by_id(chunk.id);
    scheduler_->add_token(chunk.id, next_token_++);
    if (++seen.generated < seen.max_tokens) continue;
    scheduler_->finish(chunk.id);
    seen.ended = true;
    ended += " " + seen.name;
  }
  int rows = 0;
  for (const Chunk& chunk : last_) rows += chunk.num_tokens;
  std::string story = fmt::format("pass {}: {} tokens of {} {}", num_passes_, rows, last_.size(),
                                  last_.size() == 1 ? "request" : "requests");
  if (const int64_t n = scheduler_->num_preemptions() - preempted_before; n > 0) {
    story += fmt::format("; {} preempted", n);
  }
  if (!ended.empty()) story += "; ended:" + ended;
  return story;
}

std::string SchedulerPage::kill(const std::string& name) {
  Seen& seen = find(name);
  if (seen.ended) kv::user_error("{} has ended already", name);
  scheduler_->finish(seen.id);
  seen.ended = true;
  std::erase_if(last_, [&](const Chunk& chunk) { return chunk.id == seen.id; });
  return fmt::format("{} is gone, and its blocks are free", name);
}

std::string SchedulerPage::shrink(int blocks) {
  if (!manager_->allocate_slots(kBallast, blocks * settings_.block_size)) {
    kv::user_error("shrink {}: {} blocks are free", blocks, manager_->pool().num_free());
  }
  return fmt::format("{} blocks are taken away: {} are free", blocks, manager_->pool().num_free());
}

Seen& SchedulerPage::find(const std::string& name) {
  const auto found = std::ranges::find(seen_, name, &Seen::name);
  if (found == seen_.end()) kv::user_error("there is no request {}", name);
  return *found;
}

Seen& SchedulerPage::by_id(int64_t id) { return seen_.at(static_cast<size_t>(id)); }

std::string SchedulerPage::free_name() const {
  return std::string(1, static_cast<char>('A' + seen_.size()));
}

std::optional<int64_t> SchedulerPage::counter(std::string_view name) const {
  const BlockPool& pool = manager_->pool();
  if (name == "passes") return num_passes_;
  if (name == "waiting") return static_cast<int64_t>(scheduler_->num_waiting());
  if (name == "running") return static_cast<int64_t>(scheduler_->num_running());
  if (name == "ended") return std::ranges::count(seen_, true, &Seen::ended);
  if (name == "total") return pool.num_blocks();
  if (name == "free") return pool.num_free();
  if (name == "preemptions") return scheduler_->num_preemptions();
  if (name == "found") return num_found_;
  if (name == "rows") {
    int64_t rows = 0;
    for (const Chunk& chunk : last_) rows += chunk.num_tokens;
    return rows;
  }
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto seen = std::ranges::find(seen_, name.substr(0, dot), &Seen::name);
  if (seen == seen_.end()) return std::nullopt;
  if (name.substr(dot) == ".generated") return seen->generated;
  if (name.substr(dot) == ".ended") return seen->ended ? 1 : 0;
  if (name.substr(dot) == ".preempted") {
    return seen->ended ? 0 : scheduler_->request(seen->id).num_preemptions;
  }
  return std::nullopt;
}

std::vector<std::string> SchedulerPage::counter_names() const {
  std::vector<std::string> all{"passes", "waiting",     "running", "ended", "total",
                               "free",   "preemptions", "found",   "rows"};
  for (const Seen& seen : seen_) {
    for (const char* what : {".generated", ".ended", ".preempted"}) all.push_back(seen.name + what);
  }
  return all;
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext&) {
  return std::make_unique<SchedulerPage>();
}

}  // namespace lesson08
