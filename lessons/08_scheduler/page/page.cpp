#include "viz/page.h"

#include <fmt/format.h>

#include "page.h"

namespace lesson08 {

SchedulerPage::SchedulerPage(const viz::PageContext& context)
    : PoolPage({.lesson = "08",
                .title = "The scheduler",
                .summary = "Requests wait, run, and give way: all of them share one pool.",
                .opening = {"submit A 24 20", "submit B 24 20", "submit C 56 32", "submit D 88 20",
                            "pass 4"},
                .tall = 780},
               context) {
  declare_own(requests());
  declare_own(pools());
  declare_own(
      {fresh("pool",
             {viz::number("BLOCKS", 1, 1024), viz::power_of_two("SIZE", 64),
              viz::number("BUDGET", 1, 4096)},
             "start over with BLOCKS x SIZE tokens in the pool, and up to BUDGET in a pass",
             &PageSettings::num_blocks, &PageSettings::block_size, &PageSettings::budget),
       fresh("order", {viz::choice("first|priority")},
             "start over: requests go in the order in which they came, or the most important first",
             &PageSettings::order),
       fresh("gate", {viz::choice("on|off")},
             "start over: a request starts only if all its tokens fit, or if its first chunk does",
             &PageSettings::no_gate)});
  declare_steps({"pass",
                 {viz::number("PASSES", 1, 1000).or_else("1")},
                 "passes that run now: PASSES",
                 [this](auto& w) { return passes(w[0].number); },
                 [this](auto&) { return scheduler_->idle() ? "there is nothing to do" : ""; }});
  reset();
}

/// Commands that are refused while the engine runs.
std::vector<viz::Verb> SchedulerPage::requests() {
  return {
      {"submit",
       {viz::word("NAME"), viz::number("PROMPT", 1, 4096).field("prompt tokens", "24"),
        viz::number("MAX", 1, 4096).field("to generate", "24"),
        viz::number("PRIORITY", -9, 9).or_else("0"), viz::number("SHARED", 0, 4096).or_else("16")},
       "request NAME comes: a prompt of PROMPT, MAX to generate; the smallest PRIORITY is the most "
       "important, and the first tokens of its prompt, SHARED, are those of all others",
       [this](auto& w) { return submit(w); },
       [this](auto& w) {
         const std::string why =
             viz::too_large(w[1].number, w[2].number, settings_.block_size, settings_.num_blocks);
         return why.empty() ? shown_.seen.why_not_add(w[0].text) : why;
       }},
      {"kill",
       {viz::word("NAME")},
       "NAME ends now, whatever it does: its blocks are free at once",
       [this](auto& w) { return kill(w[0].text); },
       [this](auto& w) { return shown_.seen.at(w[0].text).ended ? "it has ended already" : ""; }},
      {"live",
       {viz::text("PROMPT").field("prompt", "Once upon a time"),
        viz::number("TOKENS", 1, 400).or_else("24")},
       "the engine serves 4 requests that begin with PROMPT, up to TOKENS each, one pass at a time",
       [this](auto& w) { return live(w[0].text, w[1].number); }}};
}

std::vector<viz::Verb> SchedulerPage::pools() {
  return {
      {"shrink",
       {viz::number("BLOCKS", 1, 4096)},
       "take free blocks away, BLOCKS: the next request that grows may have to preempt another",
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
       "the cache is forgotten, as after a change of the weights; running requests are preempted",
       [this](auto&) {
         scheduler_->reset_prefix_cache(true);
         return "nothing can be found any more; all that ran wait";
       },
       [this](auto&) {
         return manager_->holds(kBallast) ? "blocks are taken away: give them back first" : "";
       }}};
}

std::string SchedulerPage::begin() {
  scheduler_.reset();
  pool_ = std::make_unique<BlockPool>(settings_.num_blocks, settings_.block_size);
  manager_ = std::make_unique<KvCacheManager>(*pool_);
  scheduler_ = std::make_unique<Scheduler>(*manager_, settings_.scheduler());
  shown_ = {};
  next_token_ = 1000;
  look();
  return fmt::format("{} of {}, {} a pass", kv::count_of(settings_.num_blocks, "block"),
                     settings_.block_size, kv::count_of(settings_.budget, "token"));
}

std::string SchedulerPage::submit(const viz::Words& words) {
  const int num_prompt = words[1].number, max_tokens = words[2].number, shared = words[4].number;
  Seen& seen = shown_.seen.add(words[0].text, {});
  seen.id = seen.hue;
  seen.num_prompt = num_prompt;
  seen.max_tokens = max_tokens;
  seen.marks.resize(shown_.num_passes);
  std::vector<int32_t> tokens;
  for (int i = 0; i < num_prompt; ++i) {
    tokens.push_back(i < shared ? i : (seen.hue + 1) * 10'000 + i);
  }
  scheduler_->submit(seen.id, tokens, max_tokens, {.priority = words[3].number});
  return fmt::format("{} comes with a prompt of {}, {} to generate, and waits", seen.name,
                     kv::count_of(num_prompt, "token"), max_tokens);
}

std::string SchedulerPage::kill(const std::string& name) {
  scheduler_->finish(shown_.seen.at(name).hue);
  return fmt::format("{} is gone, and its blocks are free", name);
}

void SchedulerPage::check_invariants() const {
  manager().check();
  if (const Scheduler* of = scheduler()) of->check();
}

std::vector<viz::Counter> SchedulerPage::counters() const {
  const BlockPool& pool = this->pool();
  const int rows = viz::num_rows(shown_.last);
  std::vector<viz::Counter> all{
      {"passes", shown_.num_passes, "passes", "Forward passes so far."},
      {"running", std::ssize(shown_.running), "running", "Requests that hold blocks."},
      {"waiting", std::ssize(shown_.waiting), "waiting",
       "Requests that hold none: new ones, and preempted ones."},
      viz::free_counter(pool),
      {"rows", rows},
      {"preemptions", num_preemptions()},
      {"found", shown_.num_found},
      {"ended", std::ranges::count(shown_.seen, true, &Seen::ended)},
  };
  for (const Seen& seen : shown_.seen) {
    all.push_back({seen.name + ".ended", seen.ended});
    all.push_back({seen.name + ".preempted", seen.num_preemptions});
  }
  return all;
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<SchedulerPage>(context);
}

}  // namespace lesson08
