// The page of lesson 08: requests over time, two queues, a budget, one pool.

#include "viz/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "kv_cache_manager.h"
#include "scheduler.h"
#include "viz/ui.h"
#include "viz/widgets.h"

namespace lesson08 {
namespace {

constexpr int64_t kBallast = -1;  // blocks that `shrink` takes away
constexpr size_t kMostRequests = 16;
constexpr size_t kMostColumns = 90;
constexpr int kSharedTokens = 16;  // every prompt begins with them

struct Settings {
  int num_blocks = 32;
  int block_size = 4;
  int budget = 16;
  Order order = Order::kFirstCome;
};

/// A request on the page, also after its end.
struct Seen {
  std::string name;
  int64_t id = 0;
  int hue = 0;
  int max_tokens = 0;
  int generated = 0;
  bool ended = false;
  std::vector<int> marks;  // of each pass: kinds of the grid
};
enum Kind { kAbsent, kWaits, kPrompt, kDecodes, kPreempted, kEnded };

class SchedulerPage : public viz::Page {
 public:
  SchedulerPage() { reset(); }

  viz::PageInfo info() const override;
  void reset() override { restart({}); }
  std::string apply(const viz::Command& command) override;
  std::optional<int64_t> counter(std::string_view name) const override;
  std::vector<std::string> counter_names() const override;
  std::string next_step() const override { return scheduler_->idle() ? "" : "step"; }
  void check_invariants() const override { scheduler_->check(); }
  void draw(viz::Ui& ui) override;

 private:
  void restart(const Settings& settings);
  std::string submit(const viz::Command& command);
  std::string pass();
  std::string kill(const std::string& name);
  std::string shrink(int blocks);
  std::string settings(const viz::Command& command);
  Seen& find(const std::string& name);
  Seen& by_id(int64_t id);
  std::string free_name() const;

  void draw_controls(viz::Ui& ui);
  void draw_grid(viz::Ui& ui);
  void draw_pass(viz::Ui& ui);
  void draw_pool(viz::Ui& ui);

  Settings settings_;
  std::unique_ptr<KvCacheManager> manager_;
  std::unique_ptr<Scheduler> scheduler_;  // borrows the manager
  std::vector<Seen> seen_;                // in the order of submission
  std::vector<Chunk> last_;               // chunks of the last pass
  int num_passes_ = 0;
  int64_t num_found_ = 0;
  int64_t next_id_ = 0;
  int32_t next_token_ = 1000;
  // What the fields hold.
  int prompt_ = 24, max_tokens_ = 24, priority_ = 0;
};

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

void SchedulerPage::restart(const Settings& settings) {
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
  Settings settings = settings_;
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
  if (name == "waiting") return static_cast<int64_t>(scheduler_->waiting().size());
  if (name == "running") return static_cast<int64_t>(scheduler_->running().size());
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

void SchedulerPage::draw(viz::Ui& ui) {
  const auto count = [&](const char* name) { return fmt::format("{}", *counter(name)); };
  viz::counters(
      ui, "counters",
      {{"passes", count("passes"), "Forward passes so far."},
       {"running", count("running"), "Requests that hold blocks."},
       {"waiting", count("waiting"), "Requests that hold none: new ones, and preempted ones."},
       {"free", count("free") + " / " + count("total"), "Blocks in the free queue."},
       {"budget", fmt::format("{} / {}", *counter("rows"), settings_.budget),
        "Tokens of the last pass, of those that a pass may have."},
       {"preemptions", count("preemptions"), "Running requests that had to give way."},
       {"found", count("found"), "Tokens that came from the cache when a request started."}});
  draw_controls(ui);
  draw_grid(ui);
  ui.begin_columns({0.4f, 0.6f});
  draw_pool(ui);
  ui.next_column();
  draw_pass(ui);
  ui.end_columns();
}

void SchedulerPage::draw_controls(viz::Ui& ui) {
  ui.number("prompt", "prompt", &prompt_, 1, 512, "Tokens of the next prompt.");
  ui.same_line();
  ui.number("max", "to generate", &max_tokens_, 1, 512, "Tokens of its answer.");
  ui.same_line();
  ui.number("priority", "priority", &priority_, -9, 9, "The smallest number first.");
  ui.same_line();
  const int slots = prompt_ + max_tokens_ - 1;
  const int needed = blocks_for(slots, settings_.block_size);
  std::string why;
  if (seen_.size() >= kMostRequests) why = "the page shows no more requests; start anew";
  if (needed > settings_.num_blocks) {
    why = fmt::format("it needs {} blocks, the pool has {}", needed, settings_.num_blocks);
  }
  ui.button("submit", "Submit",
            fmt::format("submit {} {} {} {}", free_name(), prompt_, max_tokens_, priority_),
            "A request comes. The first 16 tokens of all prompts are the same.", why);
  const char* idle = scheduler_->idle() ? "there is nothing to do" : "";
  ui.button("step", "Pass", "step", "One pass. Play and the Right arrow do this, too.", idle);
  ui.same_line();
  ui.button("step 10", "10 passes", "step 10", "Ten passes.", idle);
  ui.same_line();
  const int take = std::min(4, manager_->pool().num_free());
  ui.button("shrink", "Shrink the pool by 4", fmt::format("shrink {}", std::max(take, 1)),
            "Take free blocks away: who grows next may have to preempt somebody.",
            manager_->pool().num_free() == 0 ? "no block is free" : "");
  ui.same_line();
  ui.button("grow", "Give them back", "grow", "The pool has all its blocks again.",
            manager_->holds(kBallast) ? "" : "none was taken away");
  ui.same_line();
  const bool first = settings_.order == Order::kFirstCome;
  ui.button("order", first ? "By priority" : "First come", first ? "order priority" : "order first",
            "Start anew with the other order.");
}

void SchedulerPage::draw_grid(viz::Ui& ui) {
  ui.heading("Requests over time: a row for each, a column for each pass");
  if (seen_.empty()) {
    ui.hint("None yet. Press Submit a few times, then Pass, or Play.");
    return;
  }
  viz::StepGridView view;
  view.kinds = {{"not there", 7, 0.05f}, {"waits", 7, 0.35f},    {"prompt", 1, 0.9f},
                {"decodes", 0, 0.9f},    {"preempted", 4, 0.9f}, {"ended", 7, 0.08f}};
  const auto total = static_cast<size_t>(num_passes_);
  const size_t first = total > kMostColumns ? total - kMostColumns : 0;
  for (const Seen& seen : seen_) {
    viz::StepGridView::Row row{
        .label = fmt::format("{} {}/{}", seen.name, seen.generated, seen.max_tokens), .cells = {}};
    row.cells.assign(seen.marks.begin() + static_cast<std::ptrdiff_t>(first), seen.marks.end());
    view.rows.push_back(std::move(row));
  }
  viz::step_grid(ui, "grid", view);
}

void SchedulerPage::draw_pass(viz::Ui& ui) {
  ui.heading("The last pass");
  if (last_.empty()) {
    ui.hint("No pass has run.");
  } else {
    viz::PiecesView view;
    for (const Chunk& chunk : last_) {
      const Seen& seen = seen_.at(static_cast<size_t>(chunk.id));
      view.pieces.push_back({.label = fmt::format("{}: {}", seen.name, chunk.num_tokens),
                             .tooltip = fmt::format("{} tokens of {}", chunk.num_tokens, seen.name),
                             .group = 0});
    }
    view.done = static_cast<int>(view.pieces.size());
    viz::pieces(ui, "pass", view);
  }
  ui.heading("Block tables");
  for (const Seen& seen : seen_) {
    if (seen.ended || !manager_->holds(seen.id)) continue;
    const BlockTable& table = manager_->table(seen.id);
    viz::TableView view{.sequence = {seen.name, seen.hue},
                        .block_ids = {table.block_ids().begin(), table.block_ids().end()},
                        .ref_cnts = {},
                        .num_tokens = table.num_tokens(),
                        .block_size = table.block_size(),
                        .highlight_token = {}};
    for (const int32_t id : table.block_ids()) {
      view.ref_cnts.push_back(manager_->pool().block(id).ref_cnt);
    }
    viz::block_table(ui, seen.name + "/table", view);
  }
  ui.heading("Kill");
  bool one = false;
  for (const Seen& seen : seen_) {
    if (seen.ended) continue;
    if (one) ui.same_line();
    one = true;
    ui.button(seen.name + "/kill", seen.name, "kill " + seen.name,
              "It ends now, whatever it does: its blocks are free at once.");
  }
  if (!one) ui.hint("Nobody is there.");
}

void SchedulerPage::draw_pool(viz::Ui& ui) {
  const BlockPool& pool = manager_->pool();
  viz::PoolView view{.block_size = pool.block_size(), .sequences = {}, .blocks = {}};
  for (int32_t id = 1; id <= pool.num_blocks(); ++id) {
    viz::BlockView& block = view.blocks.emplace_back();
    block.id = id;
    block.ref_cnt = pool.block(id).ref_cnt;
    if (pool.block(id).is_cached) block.filled = pool.block_size();
  }
  const auto own = [&](int64_t id, int hue) {
    const BlockTable& table = manager_->table(id);
    for (int i = 0; i < table.num_blocks(); ++i) {
      viz::BlockView& block =
          view.blocks[static_cast<size_t>(table.block_ids()[static_cast<size_t>(i)] - 1)];
      block.owners.push_back(hue);
      const int fill = i + 1 < table.num_blocks() ? pool.block_size() : table.last_block_fill();
      block.filled = std::max(block.filled, fill);
    }
  };
  for (const Seen& seen : seen_) {
    view.sequences.push_back({seen.name, seen.hue});
    if (!seen.ended && manager_->holds(seen.id)) own(seen.id, seen.hue);
  }
  if (manager_->holds(kBallast)) own(kBallast, 7);
  ui.heading(fmt::format("Pool: {} blocks of {}; grey: free, still cached", pool.num_blocks(),
                         pool.block_size()));
  viz::pool_grid(ui, "pool", view);
}

}  // namespace

std::unique_ptr<viz::Page> make_page(const viz::PageContext&) {
  return std::make_unique<SchedulerPage>();
}

}  // namespace lesson08
