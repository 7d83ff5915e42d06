#include "viz/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "eviction.h"
#include "pool.h"
#include "viz/ui.h"

namespace lesson07 {
namespace {

constexpr std::array kTexts{
    "you are a kind guide tell me of paris", "the sun was low and the sea was still",
    "once upon a time there was a dog", "count from one to ten and then back",
    "why is the sky dark when it rains"};

/// "3, 2, 1", or the first few of many.
std::string listed(std::span<const int32_t> ids) {
  const size_t shown = std::min<size_t>(ids.size(), 8);
  return fmt::format("{}{}", fmt::join(ids.first(shown), ", "), shown < ids.size() ? " .." : "");
}

/// Why blocks leave the queue: a lookup finds them, or the request needs room.
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
    : PoolPage({.lesson = "07",
                .title = "LRU eviction",
                .summary = "Freed blocks keep their words and wait: the one in front goes first.",
                .opening = {fmt::format("ask A \"{}\"", kTexts[0]), "free A",
                            fmt::format("ask B \"{}\"", kTexts[1])},
                .tall = 700},
               context) {
  const viz::Argument name = viz::word("NAME");
  const viz::Argument words = viz::text("WORDS").field("words", kTexts[0]);
  declare_own(
      {{"ask",
        {name, words, viz::word("SALT").or_else("")},
        "request NAME: look its beginning up, compute the rest, cache what has become full; "
        "requests with one salt meet only their own kind",
        [this](auto& w) { return ask(w[0].text, w[1].text, w[2].text); },
        [this](auto& w) { return asked_.why_not_ask(w[0].text, w[1].text); }},
       {"free",
        {name},
        "NAME ends; what its full blocks hold stays until the room is needed",
        [this](auto& w) { return free({w[0].text}); }},
       {"free all",
        {},
        "all requests end, the oldest first",
        [this](auto&) { return free(asked_.all().names()); },
        [this](auto&) { return asked_.all().empty() ? "no request runs" : ""; }}});
  declare_pool();
  declare(live_.verbs(
      "the engine answers the prompt, then another one, then the first one again",
      [this](const std::string& prompt, int tokens) { start_live(prompt, tokens); },
      [this] { return live_story(); }, "Once upon a time there was a little dog"));
  reset();
}

void EvictionPage::declare_pool() {
  declare_own(
      {fresh("order", {viz::choice("append|unhashed")},
             "an empty pool that appends every freed block, or puts those in front that no lookup "
             "can find",
             &PageSettings::order),
       fresh("resize", {viz::number("BLOCKS", 1, 1024), viz::power_of_two("SIZE", 64)},
             "an empty pool of BLOCKS x SIZE tokens", &PageSettings::num_blocks,
             &PageSettings::block_size),
       {"forget",
        {},
        "reset the cache",
        [this](auto&) {
          manager_->reset_prefix_cache();
          return reason_ = "The cache is empty: no block can be found any more.";
        },
        [this](auto&) {
          const int used = pool_->num_used();
          return used > 0 ? kv::count_of(used, "block") + " in use" : "";
        }}});
}

std::string EvictionPage::begin() {
  asked_ = Requests(8);
  evicted_.clear();
  pool_ = std::make_unique<BlockPool>(settings_.num_blocks, settings_.block_size, settings_.order);
  pool_->set_event_sink([this](const CacheEvent& event) {
    if (event.kind == CacheEvent::Kind::kRemoved) evicted_.push_back(event.block_id);
  });
  manager_ = std::make_unique<KvCacheManager>(*pool_);
  reason_ = "Every block is free. Ask something: blocks are taken in front.";
  return fmt::format("an empty pool: {} of {}", kv::count_of(settings_.num_blocks, "block"),
                     settings_.block_size);
}

/// "; 2 blocks found in the queue; overwritten: 7, 6". Keeps the reason for the picture.
std::string EvictionPage::what_happened(const std::string& name, int64_t revived_before) {
  const std::vector<int32_t> evicted = std::exchange(evicted_, {});
  const int64_t revived = pool_->metrics().num_revived - revived_before;
  reason_ = reason(name, revived, std::ssize(evicted));
  std::string story;
  if (revived > 0) story += fmt::format("; {} found in the queue", kv::count_of(revived, "block"));
  if (!evicted.empty()) story += "; overwritten: " + listed(evicted);
  return story;
}

std::string EvictionPage::ask(const std::string& name, const std::string& text,
                              const std::string& salt) {
  ExtraKeys keys;
  if (!salt.empty()) keys.push_back({ExtraKey::Kind::kSalt, salt});
  const int64_t revived_before = pool_->metrics().num_revived;
  const Requests::Request& request =
      asked_.ask(*manager_, name, vocabulary_.tokens(text), BlockHashes(std::move(keys)),
                 [](const auto&, const auto&, const auto&) {});
  return fmt::format("{} finds {} of its {} in the cache{}", name, request.num_cached_tokens,
                     kv::count_of(std::ssize(request.tokens), "token"),
                     what_happened(name, revived_before));
}

std::string EvictionPage::free(const std::vector<std::string>& names) {
  const int used = pool_->num_used();
  for (const std::string& name : names) asked_.free(*manager_, name);
  reason_ = fmt::format("{} blocks go to the back, the tail first. Full blocks keep their words.",
                        names.size() == 1 ? names[0] + " ends: its" : "All end: their");
  return kv::count_of(used - pool_->num_used(), "block") + " given back";
}

/// The second request shares nothing with the first; the third repeats the first.
void EvictionPage::start_live(const std::string& prompt, int max_tokens) {
  const lesson03::PagedOptions options{.block_size = settings_.block_size,
                                       .num_blocks = settings_.num_blocks};
  const kv::Request first = live_.request(prompt, max_tokens);
  told_ = {};
  live_.start_in_turn(std::make_unique<CachingEngine>(live_.model(), options),
                      {first, live_.request("The sun was", max_tokens), first});
}

std::string EvictionPage::live_story() {
  const CacheMetrics& now = pool().metrics();
  if (live_.finished()) return reason_ = "All have ended. What the queue holds can be found.";
  const viz::LiveRun::Token& token = live_.generated().back();
  const std::string name = viz::letters(static_cast<int>(token.request));
  const int64_t revived = now.num_revived - told_.num_revived;
  const int64_t evicted = now.num_evicted - told_.num_evicted;
  const std::string drawn = fmt::format("{} draws \"{}\".", name, live_.text(token.id));
  reason_ = revived + evicted > 0 ? reason(name, revived, evicted) : drawn;
  return fmt::format("{} {} found in the queue, {} overwritten", drawn, revived, evicted);
}

Shown EvictionPage::look() {
  told_ = pool().metrics();
  Shown shown{.pool = pool_view(pool()), .queue = {}, .tables = {}, .num_found = {}};
  shown.pool.show_refs = false;
  for (viz::BlockView& block : shown.pool.blocks) {
    if (pool().block(block.id).is_cached) block.tokens = words(pool().index().tokens(block.id));
  }
  for (const KvBlock* block : pool().queue().all()) shown.queue.push_back(block->id);
  for (const Requests::Request& request : requests()) {
    const auto ids = manager().table(request.id).block_ids();
    const int found = request.num_cached_tokens / pool().block_size();
    shown.tables.push_back(shown.pool.add(request, ids, manager().table(request.id).num_tokens(),
                                          [&](int t) { return word(request.tokens[t]); }));
    shown.num_found.push_back(found);
    for (const int32_t id : ids.first(found)) {
      shown.pool.at(id).state = viz::State::kFound;
    }
  }
  return shown;
}

void EvictionPage::refused(const viz::Command& command, const std::string& why) {
  PoolPage::refused(command, why);
  reason_ = "Refused: " + why + ".";
}

viz::Scene EvictionPage::scene(const viz::Room& room) {
  return queue_scene(room, before_, now_, reason_,
                     {{viz::State::kInUse, "held by a request"},
                      {viz::State::kFound, "found"},
                      {viz::State::kCached, "free, can be found", viz::kNoHue},
                      {viz::State::kFree, "free, holds nothing"},
                      {viz::State::kEvicted, "evicted"}});
}

std::vector<viz::Counter> EvictionPage::counters() const {
  const BlockPool& pool = this->pool();
  const bool none = pool.queue().empty();
  const lesson06::PrefixCacheStats& stats = manager().prefix_cache_stats();
  std::vector<viz::Counter> all{
      {"total", pool.num_blocks()},
      viz::free_counter(pool),
      {"used", pool.num_used()},
      {"cached", pool.num_cached(), "cached", "Blocks that can be found, used or free."},
      {"revived", pool.metrics().num_revived, "revived",
       "Free blocks that a hit took out of the queue."},
      {"evicted", pool.metrics().num_evicted, "evicted",
       "Blocks that lost what they held, as room was needed."},
      {"asked", stats.queries},
      {"found", stats.hits},
      viz::share("hit_permille", stats.hits, stats.queries, "", ""),
      {"requests", std::ssize(requests())},
      {"front", none ? -1 : pool.queue().all().front()->id},
      {"back", none ? -1 : pool.queue().all().back()->id},
      {"live", live_.running()},
      {"generated", std::ssize(live_.generated())},
  };
  Requests::add_counters(all, requests());
  return all;
}

std::vector<viz::Button> EvictionPage::actions() const {
  if (live_.running()) return live_.steps();
  const auto& all = asked_.all();
  const std::string next = all.free_name();
  const bool found = pool_->metrics().num_revived > 0;
  const auto ask = [&](const char* name, const char* label, const char* words, char key,
                       bool asked) {
    return viz::Button{name, label, viz::Command{.verb = "ask", .args = {next, words}}.text(),
                       "",   key,   asked};
  };
  std::vector<viz::Button> row{
      ask("ask same", "Again", kTexts[0], 'A', all.empty() && !found),
      ask("ask other", "Other",
          kTexts[1 + manager_->prefix_cache_stats().queries % (kTexts.size() - 1)], 'O',
          all.empty() && found)};
  if (all.empty()) return row;
  const std::string name = chosen(all);
  row.push_back({name + "/free", "Free " + name, "free " + name, "", 'E', true});
  row.push_back({"free all", "Free all", "free all", "", 'L'});
  return row;
}

void EvictionPage::draw(viz::Ui& ui) {
  const std::string name = asked_.all().free_name(), words = field(ui, "ask", "WORDS");
  buttons(ui, {{"ask", "Ask", viz::Command{.verb = "ask", .args = {name, words}}.text()},
               {"ask salted", "with a salt",
                viz::Command{.verb = "ask", .args = {name, words, "s"}}.text()},
               {"forget", "Forget all", "forget"}});
  choice(ui, "Taken first",
         {{"order unhashed", "what holds nothing", "order unhashed"},
          {"order append", "what was freed first", "order append"}});
  choice(ui, "Blocks in the pool",
         viz::one_of("resize", {8, 16, 64}, fmt::format(" {}", settings_.block_size)));
  form(ui, {"live/start", "Watch the engine", "live"});
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<EvictionPage>(context);
}

}  // namespace lesson07
