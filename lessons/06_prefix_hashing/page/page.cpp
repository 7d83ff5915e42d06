// The page of lesson 06: chains of hashes, hits, and what a hash that collides does to them.

#include "viz/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "cli/hashers.h"
#include "prefix.h"
#include "viz/ui.h"

namespace lesson06 {
namespace {

/// A hash as text; of a long one the end.
std::string short_hash(uint64_t hash) {
  return hash > 0xFFF ? fmt::format("#{:03x}", hash & 0xFFF) : fmt::format("#{:x}", hash);
}

}  // namespace

PrefixPage::PrefixPage(const viz::PageContext& context)
    : PoolPage({.lesson = "06",
                .title = "Prefix hashing",
                .summary = "A block's name is a hash of its tokens and of its parent's name. Equal "
                           "names are candidates, and no more."},
               context) {
  declare_own(
      {{"ask",
        {viz::word("NAME"),
         viz::text("WORDS").field("words",
                                  "you are a helpful guide who replies briefly what is a page")},
        "request NAME: look its beginning up, compute the rest, cache what has become full",
        [this](auto& w) { return ask(w[0].text, vocabulary_.tokens(w[1].text)); },
        [this](auto& w) { return cache_->asked().why_not_ask(w[0].text, w[1].text); }},
       {"free",
        {viz::word("NAME")},
        "request NAME ends; its full blocks can be found until they are overwritten",
        [this](auto& w) {
          reason_ = w[0].text + " ends. What its full blocks hold can still be found.";
          return cache_->free(w[0].text);
        }},
       {"forge",
        {viz::word("NAME"), viz::word("OTHER")},
        "two requests that differ in their second block, whose hashes are equal",
        [this](auto& w) {
          const std::string first = ask(w[0].text, forged_prompt(false));
          return first + "; " + ask(w[1].text, forged_prompt(true));
        },
        [this](auto& w) { return why_not_forge(w[0].text, w[1].text); }},
       anew("bits", {viz::number("BITS", 0, 64).field("bits", "3")},
            "an empty pool with BITS bits of hash: with few there are collisions, and no wrong hit",
            &CacheSettings::bits),
       anew("check", {viz::choice("exact|hash")},
            "an empty pool that compares tokens and parents, or trusts the hash",
            &CacheSettings::trust_hash),
       anew("resize", {viz::number("BLOCKS", 1, 1024), viz::power_of_two("SIZE", 64)},
            "an empty pool of BLOCKS x SIZE tokens", &CacheSettings::num_blocks,
            &CacheSettings::block_size)});
  declare(live_.verbs(
      "the engine answers the prompt; then comes the next turn: all of that and more words",
      [this](const std::string& prompt, int tokens) { start_live(prompt, tokens); },
      [this] { return live_story(); }, "Once upon a time there was a little dog"));
  reset();
}

std::string PrefixPage::begin() {
  cache_ = std::make_unique<WordCache>(settings_, vocabulary_);
  reason_ = settings_.trust_hash ? "From now on an equal hash is enough."
                                 : "Nothing is cached. Ask something.";
  return fmt::format("an empty pool: {} of {}, a hash of {}, {}",
                     kv::count_of(settings_.num_blocks, "block"), settings_.block_size,
                     kv::count_of(settings_.bits, "bit"),
                     settings_.trust_hash ? "the hash trusted" : "tokens and parent compared");
}

std::string PrefixPage::why_not_forge(const std::string& first, const std::string& second) const {
  if (settings_.block_size != 16) return "the pair was made for blocks of 16";
  const int num_free = cache_->manager().pool().num_free();
  if (num_free < 6) return fmt::format("it needs 6 free blocks, {} are free", num_free);
  return cache_->asked().all().why_not_add(std::vector{first, second});
}

std::string PrefixPage::ask(const std::string& name, std::vector<int32_t> tokens) {
  const int64_t refused = cache_->num_refused(), wrong = cache_->num_wrong();
  std::string story = cache_->ask(name, std::move(tokens));
  asked_ = name;
  const int found = cache_->asked().all().at(name).num_cached_tokens / manager().block_size();
  reason_ = found > 0 ? fmt::format("{} finds {}, and computes the rest.", name,
                                    kv::count_of(found, "block"))
                      : name + " finds nothing: all of it is computed.";
  if (cache_->num_refused() > refused) {
    reason_ += " Another block has the wanted hash: compared, refused.";
  }
  if (cache_->num_wrong() > wrong) {
    reason_ = name + " was given a block for its hash: K and V are of other words!";
  }
  return story;
}

/// The next turn of a conversation repeats all that was said.
void PrefixPage::start_live(const std::string& prompt, int max_tokens) {
  const lesson03::PagedOptions options{.block_size = settings_.block_size,
                                       .num_blocks = settings_.num_blocks};
  live_.start_in_turn(std::make_unique<PrefixEngine>(live_.model(), options),
                      {live_.request(prompt, max_tokens), live_.request(" And then", max_tokens)},
                      [this](size_t turn, kv::Request& request) {
                        if (turn == 0) return;
                        const std::vector<int32_t> said = live_.tokens(0);
                        request.prompt.insert(request.prompt.begin(), said.begin(), said.end());
                      });
}

std::string PrefixPage::live_story() {
  if (live_.finished()) {
    reason_ = "Both turns have ended. Their full blocks can be found.";
    return "the run has ended: every block is free";
  }
  const viz::LiveRun::Token& token = live_.generated().back();
  const WordCache::Request request = requests()[0];
  reason_ = fmt::format("{} draws \"{}\".", request.name, live_.text(token.id));
  const bool first = live_.generated().size() == 1 ||
                     live_.generated()[live_.generated().size() - 2].request != token.request;
  if (first) {
    reason_ += fmt::format(" {} of its tokens were found.", request.num_cached_tokens);
    asked_ = request.name;
  }
  return reason_;
}

Shown PrefixPage::look() {
  Shown shown;
  const auto& pool = manager().pool();
  shown.pool = viz::pool_view(manager().block_size(), 0, pool.num_blocks(),
                              [&](int32_t id) { return pool.ref_cnt(id); });
  shown.pool.show_refs = false;
  for (viz::BlockView& block : shown.pool.blocks) {
    if (pool.index().block(block.id) == nullptr) continue;
    block.tokens = words(pool.index().tokens(block.id));
    block.filled = manager().block_size();
    if (block.ref_cnt == 0) block.state = viz::State::kCached;
  }
  const std::vector<WordCache::Request> all = requests();
  for (const WordCache::Request& request : all) {
    const BlockTable& table = manager().table(request.id);
    shown.tables.push_back(
        shown.pool.add(request, table.block_ids(), table.num_tokens(),
                       [&](int t) { return word(request.tokens[static_cast<size_t>(t)]); }));
  }
  add_nodes(shown);
  const auto seen = std::ranges::find(all, selected(), &WordCache::Request::name);
  const bool selects = asked_.empty() && seen != all.end();
  if (!all.empty()) add_links(shown, selects ? *seen : all.back());
  if (!asked_.empty() && !live_.running()) shown.comparison = cache_->comparison();
  shown.reason = reason_;
  return shown;
}

/// A cached block comes after the block with its parent's prefix. A block that is not cached comes
/// after the one before it in its table.
void PrefixPage::add_nodes(Shown& shown) const {
  const PrefixIndex& index = manager().pool().index();
  const auto node_of = [&](auto matches) -> std::optional<size_t> {
    const auto node = std::ranges::find_if(shown.nodes, matches, &Shown::Node::id);
    if (node == shown.nodes.end()) return std::nullopt;
    return static_cast<size_t>(node - shown.nodes.begin());
  };
  std::vector<const CachedBlock*> cached;
  for (const viz::BlockView& block : shown.pool.blocks) {
    if (const CachedBlock* found = index.block(block.id)) cached.push_back(found);
  }
  std::ranges::sort(cached, {}, &CachedBlock::prefix);  // a parent's number is smaller
  for (const CachedBlock* block : cached) {
    shown.nodes.push_back({block->id, short_hash(block->hash), node_of([&](int32_t id) {
                             const CachedBlock* const other = index.block(id);
                             return block->parent && other->prefix == *block->parent;
                           })});
  }
  for (const viz::TableView& table : shown.tables) {
    for (size_t i = 0; i < table.block_ids.size(); ++i) {
      if (index.block(table.block_ids[i]) != nullptr) continue;
      shown.nodes.push_back({table.block_ids[i], "", node_of([&](int32_t id) {
                               return i > 0 && id == table.block_ids[i - 1];
                             })});
    }
  }
}

void PrefixPage::add_links(Shown& shown, const WordCache::Request& request) const {
  const auto size = static_cast<size_t>(manager().block_size());
  const BlockTable& table = manager().table(request.id);
  const auto hashes = hash_chain(request.tokens, table.block_size(),
                                 narrow_hasher(live_.running() ? 64 : settings_.bits));
  shown.asker = request.name;
  shown.hue = request.hue;
  for (size_t i = 0; i < table.block_ids().size(); ++i) {
    const size_t end = std::min((i + 1) * size, static_cast<size_t>(table.num_tokens()));
    shown.links.push_back(
        {.words = words(std::span(request.tokens).subspan(i * size, end - i * size)),
         .hash = i < hashes.size() ? short_hash(hashes[i]) : "",
         .id = table.block_ids()[i],
         .found = i * size < static_cast<size_t>(request.num_cached_tokens),
         .wrong = !live_.running() && cache_->is_wrong(request, static_cast<int>(i))});
  }
  if (asked_ != request.name) return;
  shown.asked = true;
  const size_t found = static_cast<size_t>(request.num_cached_tokens) / size;
  shown.num_looked_up = std::min(found + 1, (request.tokens.size() - 1) / size);
}

void PrefixPage::changed() {
  PoolPage::changed();
  for (Shown::Node& node : now_.nodes) {
    const auto block = static_cast<size_t>(node.id);
    node.is_new = std::ranges::count(before_.nodes, node.id, &Shown::Node::id) == 0 ||
                  before_.pool.blocks[block].tokens != now_.pool.blocks[block].tokens;
  }
  asked_.clear();
}

void PrefixPage::refused(const viz::Command& command, const std::string& why) {
  PoolPage::refused(command, why);
  now_.asked = false;
}

std::vector<viz::Counter> PrefixPage::counters() const {
  const KvCacheManager& manager = this->manager();
  const PrefixCacheStats& stats = manager.prefix_cache_stats();
  const int64_t asked = stats.queries, found = stats.hits;
  std::vector<viz::Counter> all{
      {"total", manager.pool().num_blocks()},
      viz::free_counter(manager.pool()),
      {"used", manager.pool().num_used()},
      {"cached", manager.pool().index().size(), "can be found",
       "Full blocks whose K and V are written, free or not."},
      {"asked", asked},
      {"found", found, "from the cache",
       "Tokens that were not computed, of all that were asked for.",
       fmt::format("{} / {}", found, asked)},
      viz::share("hit_permille", found, asked, "hit rate", "The same as a share."),
      {"refused", cache_->num_refused(), "refused",
       "Candidates with the right hash and another content."},
      {"wrong", cache_->num_wrong(), "wrong",
       "Blocks in a table that hold K and V of another prefix."},
      {"bits", settings_.bits},
      {"exact", !settings_.trust_hash},
      {"requests", std::ssize(requests())},
      {"live", live_.running()},
      {"generated", std::ssize(live_.generated())},
  };
  WordCache::Requests::add_counters(all, requests());
  return all;
}

void PrefixPage::draw(viz::Ui& ui) {
  if (live_.running()) return viz::Live::draw_steps(ui, *this);
  const std::vector<std::string> names = cache_->asked().all().free_names(2);
  form(ui, {"ask", "Ask", "ask " + names[0]});
  if (!cache_->asked().all().empty()) {
    const std::string name = chosen(cache_->asked().all());
    buttons(ui, {{name + "/free", "Free " + name, "free " + name}});
  }
  form(ui, {"set bits", "Weaken the hash", "bits"});
  choice(ui, "Lookup",
         {{"check exact", "Compare tokens", "check exact"},
          {"check hash", "Trust the hash", "check hash"}});
  buttons(ui, {settings_.block_size == 16
                   ? viz::Button{"forge", "Forge", "forge " + names[0] + " " + names[1]}
                   : viz::Button{"blocks of 16", "Blocks of 16", "resize 24 16",
                                 "The forged pair needs them."}});
  form(ui, {"live/start", "Watch the engine", "live"});
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<PrefixPage>(context);
}

}  // namespace lesson06
