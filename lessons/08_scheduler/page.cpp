#include "viz/page.h"

#include <fmt/format.h>

#include <algorithm>

#include "page_scheduler.h"

namespace lesson08 {

constexpr int kSharedTokens = 16;  // every prompt begins with them

SchedulerPage::SchedulerPage()
    : Page({.lesson = "08",
            .title = "The scheduler",
            .summary = "Requests wait, run, and give way. Every pass has a budget of tokens, and "
                       "all of them share one pool."}) {
  declare(
      {{"submit",
        {viz::word("NAME"), viz::number("PROMPT", 1, 4096).field("prompt", "24"),
         viz::number("MAX", 1, 4096).field("to generate", "24"),
         viz::number("PRIORITY", -9, 9).or_else("0")},
        "request NAME comes: a prompt of PROMPT, MAX to generate; all prompts begin with the same "
        "16 tokens, and the smallest priority is the most important",
        [this](auto& w) { return submit(w[0].text, w[1].number, w[2].number, w[3].number); },
        [this](auto& w) {
          const int needed =
              lesson03::blocks_for(w[1].number + w[2].number - 1, settings_.block_size);
          if (needed > settings_.num_blocks) {
            return fmt::format("it needs {}, the pool has {}", kv::count_of(needed, "block"),
                               settings_.num_blocks);
          }
          return seen_.why_not_add(w[0].text);
        }},
       {"step",
        {viz::number("PASSES", 1, 1000).or_else("1")},
        "passes that run now: PASSES",
        [this](auto& w) {
          std::string story;
          for (int i = 0; i < w[0].number && !scheduler_->idle(); ++i) story = pass();
          return story;
        },
        [this](auto&) { return scheduler_->idle() ? "there is nothing to do" : ""; },
        true},
       {"kill",
        {viz::word("NAME")},
        "NAME ends now, whatever it does: its blocks are free at once",
        [this](auto& w) { return kill(w[0].text); },
        [this](auto& w) { return seen_.at(w[0].text).ended ? "it has ended already" : ""; }}});
  declare_pools();
  reset();
}

void SchedulerPage::declare_pools() {
  declare({{"shrink",
            {viz::number("BLOCKS", 1, 4096)},
            "take free blocks away, BLOCKS: who grows next may have to preempt somebody",
            [this](auto& w) {
              manager_->allocate_slots(kBallast, w[0].number * settings_.block_size);
              return fmt::format("{} taken away: {} free", kv::count_of(w[0].number, "block"),
                                 pool_->num_free());
            },
            [this](auto& w) {
              const int num_free = pool_->num_free();
              return w[0].number > num_free ? kv::count_of(num_free, "block") + " free" : "";
            }},
           {"grow",
            {},
            "the pool has all its blocks again",
            [this](auto&) {
              manager_->free(kBallast);
              return "the pool has all its blocks again";
            },
            [this](auto&) { return manager_->holds(kBallast) ? "" : "no block was taken away"; }},
           {"forget",
            {},
            "the cache is forgotten, as after a change of the weights; whoever runs is preempted",
            [this](auto&) {
              scheduler_->reset_prefix_cache(true);
              return "nothing can be found any more; all that ran wait";
            },
            [this](auto&) {
              return manager_->holds(kBallast) ? "blocks are taken away: give them back first" : "";
            }},
           {"pool",
            {viz::number("BLOCKS", 1, 1024), viz::number("SIZE", 1, 64),
             viz::number("BUDGET", 1, 4096)},
            "start anew with BLOCKS x SIZE tokens in the pool, and up to BUDGET in a pass",
            [this](auto& w) {
              PageSettings settings = settings_;
              settings.num_blocks = w[0].number;
              settings.block_size = w[1].number;
              settings.budget = w[2].number;
              return restart(settings);
            }},
           {"order",
            {viz::choice("first|priority")},
            "start anew: whoever came first goes first, or the most important",
            [this](auto& w) {
              PageSettings settings = settings_;
              settings.order = w[0].text == "first" ? Order::kFirstCome : Order::kPriority;
              return restart(settings);
            }},
           {"gate",
            {viz::choice("on|off")},
            "start anew: a request starts only if all its tokens fit, or if its first chunk does",
            [this](auto& w) {
              PageSettings settings = settings_;
              settings.gate = w[0].text == "on";
              return restart(settings);
            }}});
}

std::string SchedulerPage::restart(const PageSettings& settings) {
  settings_ = settings;
  scheduler_.reset();
  pool_ = std::make_unique<BlockPool>(settings.num_blocks, settings.block_size);
  manager_ = std::make_unique<KvCacheManager>(*pool_);
  scheduler_ = std::make_unique<Scheduler>(*manager_,
                                           SchedulerOptions{.max_tokens_per_pass = settings.budget,
                                                            .full_sequence_must_fit = settings.gate,
                                                            .order = settings.order});
  seen_.clear();
  last_ = {};
  num_passes_ = 0;
  next_token_ = 1000;
  return fmt::format(
      "{} of {}, {} a pass, {}{}", kv::count_of(settings.num_blocks, "block"), settings.block_size,
      kv::count_of(settings.budget, "token"),
      settings.order == Order::kPriority ? "the most important first" : "first come, first served",
      settings.gate ? "" : ", no admission gate");
}

std::string SchedulerPage::submit(const std::string& name, int prompt, int max_tokens,
                                  int priority) {
  const auto id = static_cast<int>(seen_.size());
  std::vector<int32_t> tokens;
  for (int i = 0; i < prompt; ++i) {
    tokens.push_back(i < kSharedTokens ? i : id * 10'000 + 100 + i);
  }
  scheduler_->submit(id, tokens, max_tokens, {.priority = priority});
  Seen& seen = seen_.add(name, {{}, max_tokens});
  seen.marks.assign(static_cast<size_t>(num_passes_), kAbsent);
  return fmt::format("{}: {}, {} to generate; it waits", name, kv::count_of(prompt, "token"),
                     max_tokens);
}

std::string SchedulerPage::names_of(const std::vector<int64_t>& ids) const {
  std::string names;
  for (const int64_t id : ids) names += " " + std::ranges::find(seen_, id, &Seen::hue)->name;
  return names;
}

int SchedulerPage::mark_of(const Seen& seen) const {
  if (seen.ended) return kEnded;
  const ScheduledRequest& request = scheduler_->request(seen.hue);
  const auto chunk = std::ranges::find(last_.chunks, seen.hue, &Chunk::id);
  if (chunk != last_.chunks.end()) {
    const bool decode = chunk->num_tokens == 1 && request.num_computed >= request.num_prompt;
    return decode ? kDecodes : kPrompt;
  }
  if (request.state != RequestState::kWaiting) return kAbsent;
  return request.num_preemptions > 0 ? kPreempted : kWaits;
}

std::string SchedulerPage::pass() {
  last_ = scheduler_->schedule();
  ++num_passes_;
  for (Seen& seen : seen_) seen.marks.push_back(mark_of(seen));
  scheduler_->update(last_.chunks);
  std::string ended;
  for (Seen& seen : seen_) {
    if (seen.ended || !scheduler_->wants_token(seen.hue)) continue;
    scheduler_->add_token(seen.hue, next_token_++);
    if (++seen.generated < seen.max_tokens) continue;
    scheduler_->finish(seen.hue);
    seen.ended = true;
    ended += " " + seen.name;
  }
  std::string story =
      fmt::format("pass {}: {} of {}", num_passes_, kv::count_of(num_rows(), "token"),
                  kv::count_of(std::ssize(last_.chunks), "request"));
  if (!last_.started.empty()) story += "; started:" + names_of(last_.started);
  if (!last_.resumed.empty()) story += "; resumed:" + names_of(last_.resumed);
  if (!last_.preempted.empty()) story += "; preempted:" + names_of(last_.preempted);
  if (!ended.empty()) story += "; ended:" + ended;
  return story;
}

std::string SchedulerPage::kill(const std::string& name) {
  Seen& seen = seen_.at(name);
  scheduler_->finish(seen.hue);
  seen.ended = true;
  std::erase_if(last_.chunks, [&](const Chunk& chunk) { return chunk.id == seen.hue; });
  return fmt::format("{} is gone, and its blocks are free", name);
}

int SchedulerPage::num_rows() const {
  int rows = 0;
  for (const Chunk& chunk : last_.chunks) rows += chunk.num_tokens;
  return rows;
}

std::vector<viz::Counter> SchedulerPage::counters() const {
  const BlockPool& pool = *pool_;
  const lesson06::PrefixCacheStats& stats = manager_->prefix_cache_stats();
  std::vector<viz::Counter> all{
      {"passes", num_passes_, "passes", "Forward passes so far."},
      {"running", std::ssize(scheduler_->running()), "running", "Requests that hold blocks."},
      {"waiting", std::ssize(scheduler_->waiting()), "waiting",
       "Requests that hold none: new ones, and preempted ones."},
      {"free", pool.num_free(), "free", "Blocks in the free queue.",
       fmt::format("{} / {}", pool.num_free(), pool.num_blocks())},
      {"rows", num_rows(), "budget", "Tokens of the last pass, of those that a pass may have.",
       fmt::format("{} / {}", num_rows(), settings_.budget)},
      {"preemptions", scheduler_->num_preemptions(), "preemptions",
       "Running requests that had to give way."},
      {"found", stats.hits, "found", "Tokens that came from the cache when a request started.",
       fmt::format("{} / {}", stats.hits, stats.queries)},
      {"ended", std::ranges::count(seen_, true, &Seen::ended)},
      {"total", pool.num_blocks()},
  };
  for (const Seen& seen : seen_) {
    const int preempted = seen.ended ? 0 : scheduler_->request(seen.hue).num_preemptions;
    all.push_back({seen.name + ".generated", seen.generated});
    all.push_back({seen.name + ".ended", seen.ended});
    all.push_back({seen.name + ".preempted", preempted});
  }
  return all;
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext&) {
  return std::make_unique<SchedulerPage>();
}

}  // namespace lesson08
