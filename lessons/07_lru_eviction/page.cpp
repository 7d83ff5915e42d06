#include "viz/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "page_eviction.h"
#include "page_pool.h"
#include "viz/ui.h"

namespace lesson07 {
namespace {

/// "3, 2, 1", or the first few of many.
std::string listed(std::span<const int32_t> ids) {
  const size_t shown = std::min<size_t>(ids.size(), 8);
  return fmt::format("{}{}", fmt::join(ids.first(shown), ", "), shown < ids.size() ? " .." : "");
}

/// Who needs what, and who gives it.
std::string reason(const std::string& name, int64_t revived, int64_t evicted) {
  std::string text;
  if (revived > 0) {
    text = fmt::format("{} finds its words: {} out of the queue as {}. ", name,
                       revived == 1 ? "a block comes" : "blocks come",
                       revived == 1 ? "it is" : "they are");
  }
  if (evicted > 0) {
    text += fmt::format("{} needs room: {} used longest ago {}.", name,
                        evicted == 1 ? "the block" : "blocks", evicted == 1 ? "goes" : "go");
  }
  return text.empty() ? name + " takes what stands in front." : text;
}

}  // namespace

EvictionPage::EvictionPage(const viz::PageContext& context)
    : Page({.lesson = "07",
            .title = "LRU eviction",
            .summary = "A freed block keeps what it holds, and waits at the end of the queue. Who "
                       "stands in front goes first."}),
      live_(context),
      model_dir_(context.model_dir) {
  const viz::Argument name = viz::word("NAME");
  const viz::Argument words =
      viz::text("WORDS").field("words", "you are a kind guide tell me of paris");
  declare(pools_only(
      {{"ask",
        {name, words, viz::word("SALT").or_else("")},
        "request NAME: look its beginning up, compute the rest, cache what has become full; "
        "requests with one salt meet only their own kind",
        [this](auto& w) { return ask(w[0].text, w[1].text, w[2].text); },
        [this](auto& w) {
          if (viz::words_in(w[1].text) == 0) return std::string("there are no words");
          return asked_.why_not_add(w[0].text);
        }},
       {"more",
        {name, words},
        "the answer of NAME goes on: WORDS",
        [this](auto& w) { return more(w[0].text, w[1].text); },
        [this](auto& w) { return why_not_more(w[0].text, viz::words_in(w[1].text)); }},
       {"free",
        {name},
        "NAME ends; what its full blocks hold stays as long as nobody needs the room",
        [this](auto& w) { return free({w[0].text}); }},
       {"free all",
        {},
        "all requests end, the oldest first",
        [this](auto&) { return free(asked_.names()); },
        [this](auto&) { return asked_.empty() ? "no request runs" : ""; }}}));
  declare_pools();
  declare_live();
  declare_watch();
  reset();
}

void EvictionPage::declare_pools() {
  declare(pools_only(
      {{"order",
        {viz::choice("append|unhashed")},
        "an empty pool that appends every freed block, or puts those nobody can find in front",
        [this](auto& w) {
          const bool append = w[0].text == "append";
          return restart({settings_.num_blocks, settings_.block_size,
                          append ? FreeOrder::kAppend : FreeOrder::kUnhashedFirst});
        }},
       {"resize",
        {viz::number("BLOCKS", 1, 1024), viz::power_of_two("SIZE", 64)},
        "an empty pool of BLOCKS x SIZE tokens",
        [this](auto& w) {
          return restart({w[0].number, w[1].number, settings_.order});
        }},
       {"forget",
        {},
        "reset the cache",
        [this](auto&) {
          manager_->reset_prefix_cache();
          reason_ = "The cache is empty: no block can be found any more.";
          return "the cache is empty";
        },
        [this](auto&) {
          const int used = pool_->num_used();
          return used > 0 ? kv::count_of(used, "block") + " in use" : "";
        }}}));
}

void EvictionPage::declare_live() {
  declare(unwatched(live_.verbs(
      "the engine answers the prompt, then another one, then the first one again",
      [this](const std::string& prompt, int tokens) { start_live(prompt, tokens); },
      [this] { return live_story(); }, "Once upon a time there was a little dog")));
}

/// Rows that are refused while a server's cache is watched.
std::vector<viz::Verb> EvictionPage::unwatched(std::vector<viz::Verb> verbs) const {
  return viz::unless(
      [this] { return watched_ ? "a server's cache is watched: leave it first" : ""; },
      std::move(verbs));
}

/// Rows for the pool of this page, which no engine and no server has taken the place of.
std::vector<viz::Verb> EvictionPage::pools_only(std::vector<viz::Verb> verbs) const {
  return unwatched(live_.without_run(std::move(verbs)));
}

void EvictionPage::reset() {
  live_.stop();
  watched_.reset();
  restart({});
  changed();
}

std::string EvictionPage::restart(const PageSettings& settings) {
  settings_ = settings;
  asked_.clear();
  evicted_.clear();
  next_id_ = 0;
  pool_ = std::make_unique<BlockPool>(settings.num_blocks, settings.block_size, settings.order);
  pool_->set_event_sink([this](const CacheEvent& event) {
    if (event.kind == CacheEvent::Kind::kRemoved) evicted_.push_back(event.block_id);
  });
  manager_ = std::make_unique<KvCacheManager>(*pool_);
  now_ = {};
  reason_ = "Every block is free. Ask something: blocks are taken in front.";
  return fmt::format("an empty pool: {} of {}", kv::count_of(settings.num_blocks, "block"),
                     settings.block_size);
}

const KvCacheManager& EvictionPage::manager() const {
  return live_.running() ? *live_.engine<CachingEngine>().manager() : *manager_;
}

/// "; 2 free blocks revived; evicted: 7, 6". Keeps the reason for the picture.
std::string EvictionPage::what_happened(const std::string& name, int64_t revived_before) {
  const std::vector<int32_t> evicted = std::exchange(evicted_, {});
  const int64_t revived = pool_->metrics().num_revived - revived_before;
  reason_ = reason(name, revived, std::ssize(evicted));
  std::string story;
  if (revived > 0) story += fmt::format("; {} revived", kv::count_of(revived, "free block"));
  if (!evicted.empty()) story += "; evicted: " + listed(evicted);
  return story;
}

std::string EvictionPage::why_not_more(const std::string& name, int num_tokens) const {
  const int num_free = pool_->num_free();
  const int needed = manager_->table(asked_.at(name).id).blocks_to_extend(num_tokens);
  if (num_tokens == 0) return "there are no words";
  return needed <= num_free ? "" : fmt::format("too few blocks are free ({})", num_free);
}

std::string EvictionPage::ask(const std::string& name, const std::string& text,
                              const std::string& salt) {
  std::vector<int32_t> tokens = vocabulary_.tokens(text);
  ExtraKeys keys;
  if (!salt.empty()) keys.push_back({ExtraKey::Kind::kSalt, salt});
  const int64_t revived_before = pool_->metrics().num_revived;
  BlockHashes hashes(std::move(keys));
  const auto computed = manager_->get_computed_blocks(tokens, hashes);
  const auto num_tokens = static_cast<int>(tokens.size());
  if (!manager_->allocate_slots(next_id_, num_tokens - computed.num_tokens, computed)) {
    kv::user_error("ask {}: too few blocks are free ({}); nothing has changed", name,
                   pool_->num_free());
  }
  manager_->cache_blocks(next_id_, tokens, hashes, num_tokens);
  asked_.add(name, {{}, next_id_++, computed.num_tokens, std::move(tokens), std::move(hashes)});
  return fmt::format("{}: {} of {} from the cache", name, computed.num_tokens,
                     kv::count_of(num_tokens, "token")) +
         what_happened(name, revived_before);
}

std::string EvictionPage::more(const std::string& name, const std::string& text) {
  Asked& request = asked_.at(name);
  const std::vector<int32_t> tokens = vocabulary_.tokens(text);
  const int64_t revived_before = pool_->metrics().num_revived;
  manager_->allocate_slots(request.id, static_cast<int>(tokens.size()));
  request.tokens.insert(request.tokens.end(), tokens.begin(), tokens.end());
  manager_->cache_blocks(request.id, request.tokens, request.hashes,
                         static_cast<int>(request.tokens.size()));
  return fmt::format("{}: {} more", name, kv::count_of(std::ssize(tokens), "token")) +
         what_happened(name, revived_before);
}

std::string EvictionPage::free(const std::vector<std::string>& names) {
  std::string story;
  for (const std::string& name : names) {
    const int64_t id = asked_.at(name).id;
    const auto ids = manager_->table(id).block_ids();
    const std::vector<int32_t> reversed(ids.rbegin(), ids.rend());
    manager_->free(id);
    asked_.erase(name);
    story += fmt::format("{}free {}: {} to the queue, the tail first", story.empty() ? "" : "; ",
                         name, listed(reversed));
  }
  reason_ = fmt::format("{} {}: their blocks go to the back, the tail first, and keep their words.",
                        names.size() == 1 ? names[0] : "All", names.size() == 1 ? "ends" : "end");
  return story;
}

/// The second one has nothing of the first; the third is the first again.
void EvictionPage::start_live(const std::string& prompt, int max_tokens) {
  auto engine = std::make_unique<CachingEngine>(
      live_.model(), lesson03::PagedOptions{.block_size = settings_.block_size,
                                            .num_blocks = settings_.num_blocks});
  CachingEngine& caching = *engine;
  std::vector<kv::Request> requests{live_.request(prompt, max_tokens),
                                    live_.request("The sun was", max_tokens)};
  requests.push_back(requests[0]);
  told_ = {};
  now_ = {};
  live_.start(std::move(engine), requests, [this, &caching](const kv::TokenCallback& on_token) {
    bool goes_on = true;
    for (size_t r = 0; r < live_.requests().size() && goes_on; ++r) {
      caching.generate({&live_.requests()[r], 1},
                       [&](size_t, int32_t token) { return goes_on = on_token(r, token); });
    }
  });
}

std::string EvictionPage::live_story() {
  const CacheMetrics now = pool().metrics(), before = std::exchange(told_, now);
  if (live_.finished()) {
    reason_ = "All have ended. What the queue holds can be found.";
    return "the run has ended: every block is free";
  }
  const viz::LiveRun::Token& token = live_.generated().back();
  const std::string name = viz::letters(static_cast<int>(token.request));
  const int64_t revived = now.num_revived - before.num_revived;
  const int64_t evicted = now.num_evicted - before.num_evicted;
  const std::string drawn = fmt::format("{} draws \"{}\".", name, live_.text(token.id));
  reason_ = revived + evicted > 0 ? reason(name, revived, evicted) : drawn;
  return fmt::format("{} {} revived, {} evicted", drawn, revived, evicted);
}

std::vector<Asked> EvictionPage::requests() const {
  if (!live_.running()) return {asked_.begin(), asked_.end()};
  if (live_.finished()) return {};
  const size_t running = live_.generated().back().request;  // its id is 0: it runs alone
  const auto hue = static_cast<int>(running);
  return {{{viz::letters(hue), hue},
           0,
           live_.engine<CachingEngine>().num_cached_tokens()[0],
           live_.tokens(running)}};
}

Shown EvictionPage::shown() {
  if (watched_) return watched_->shown();
  Shown shown{.pool = pool_view(pool()), .queue = {}, .tables = {}, .num_found = {}};
  shown.pool.show_refs = false;
  const int size = pool().block_size();
  const auto word = [&](int32_t token) {
    return live_.running() ? live_.text(token) : vocabulary_.word(token);
  };
  for (viz::BlockView& block : shown.pool.blocks) {
    if (!pool().block(block.id).is_cached) continue;
    for (const int32_t token : pool().index().tokens(block.id)) block.tokens.push_back(word(token));
  }
  for (const KvBlock* block : pool().queue().all()) shown.queue.push_back(block->id);
  for (const Asked& request : requests()) {
    const lesson03::BlockTable& table = manager().table(request.id);
    shown.tables.push_back(shown.pool.add(request, table.block_ids(), table.num_tokens()));
    shown.num_found.push_back(request.num_cached_tokens / size);
    for (int t = 0; t < table.num_tokens(); ++t) {
      viz::BlockView& block = shown.pool.at(static_cast<int32_t>(table.slot(t) / size));
      if (t < request.num_cached_tokens) block.state = viz::State::kFound;
      if (std::ssize(block.tokens) > t % size) continue;
      block.tokens.push_back(word(request.tokens[static_cast<size_t>(t)]));
    }
  }
  return shown;
}

void EvictionPage::refused(const viz::Command&, const std::string& why) {
  reason_ = "Refused: " + why + ".";
  before_ = now_;
}

void EvictionPage::changed() { before_ = std::exchange(now_, shown()); }

std::vector<viz::Counter> EvictionPage::counters() const {
  if (watched_) return watched_->counters();
  const BlockPool& pool = this->pool();
  const bool none = pool.queue().empty();
  const lesson06::PrefixCacheStats& stats = manager().prefix_cache_stats();
  std::vector<viz::Counter> all{
      {"total", pool.num_blocks()},
      {"free", pool.num_free(), "free", "Blocks in the queue.",
       fmt::format("{} / {}", pool.num_free(), pool.num_blocks())},
      {"used", pool.num_used(), "used", "Blocks in a table."},
      {"cached", pool.num_cached(), "cached", "Blocks that can be found, used or free."},
      {"revived", pool.metrics().num_revived, "revived",
       "Free blocks that a hit took out of the queue."},
      {"evicted", pool.metrics().num_evicted, "evicted",
       "Blocks that lost what they held, as room was needed."},
      {"asked", stats.queries},
      {"found", stats.hits},
      viz::share("hit_permille", stats.hits, stats.queries, "hit rate",
                 "Tokens from the cache, as a share of those asked for."),
      {"requests", std::ssize(requests())},
      {"front", none ? -1 : pool.queue().all().front()->id},
      {"back", none ? -1 : pool.queue().all().back()->id},
      {"live", live_.running()},
      {"generated", std::ssize(live_.generated())},
  };
  for (const Asked& request : requests()) {
    all.push_back({request.name + ".tokens", std::ssize(request.tokens)});
    all.push_back({request.name + ".cached", request.num_cached_tokens});
  }
  return all;
}

void EvictionPage::draw(viz::Ui& ui) {
  if (live_.running()) return viz::Live::draw_steps(ui, *this);
  if (watched_) {
    const bool is_live = watched_->is_live();
    return buttons(ui, {{"watch/next", is_live ? "What has come" : "Next batch", "next"},
                        {"watch/next 10", is_live ? "10 of it" : "Next 10", "next 10"},
                        {"watch/leave", "Leave", "leave"}});
  }
  const std::string name = asked_.free_name(), words = field(ui, "ask", "WORDS");
  buttons(ui, {{"ask", "Ask", viz::Command{.verb = "ask", .args = {name, words}}.text()},
               {"ask salted", "with a salt",
                viz::Command{.verb = "ask", .args = {name, words, "s"}}.text()},
               {"free all", "Free all", "free all"}});
  draw_request(ui);
  const bool append = settings_.order == FreeOrder::kAppend;
  std::vector<viz::Button> row{{"forget", "Forget all", "forget"},
                               {"order", append ? "Unhashed first" : "Append all",
                                append ? "order unhashed" : "order append"}};
  buttons(ui, row);
  row.clear();
  for (const int blocks : {8, 16, 64}) {
    row.push_back({fmt::format("pool {}", blocks), fmt::format("{} blocks", blocks),
                   fmt::format("resize {} {}", blocks, settings_.block_size)});
  }
  buttons(ui, row);
  form(ui, {"live/start", "Watch the engine", "live"});
  const std::string what = field(ui, "watch", "WHAT");
  ui.same_line();
  buttons(ui, {{"watch/start", "Watch", viz::Command{.verb = "watch", .args = {what}}.text()}});
}

/// Buttons for the request that was clicked, or came last.
void EvictionPage::draw_request(viz::Ui& ui) {
  if (asked_.empty()) return;
  const std::string name = asked_.find(selected()) ? selected() : asked_.names().back();
  buttons(ui, {{name + "/more", name + " goes on", fmt::format("more {} \"and so on\"", name)},
               {name + "/free", "Free " + name, "free " + name}});
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<EvictionPage>(context);
}

}  // namespace lesson07
