// The page of lesson 06: chains of hashes, hits, and what a hash that collides does to them.

#include "viz/page.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "page_cache.h"
#include "program/hashers.h"
#include "viz/ui.h"
#include "viz/widgets.h"

namespace lesson06 {
namespace {

class PrefixPage : public viz::Page {
 public:
  PrefixPage();

  void reset() override { cache_ = std::make_unique<WordCache>(WordCache::Settings{}); }
  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override { cache_->check(); }
  void draw(viz::Ui& ui) override;

 private:
  void declare_pools();
  std::string restart(const WordCache::Settings& settings);
  std::string why_not_forge(const std::string& first, const std::string& second) const;
  void draw_controls(viz::Ui& ui);
  void draw_pool(viz::Ui& ui);
  void draw_chain(viz::Ui& ui, const WordCache::Request& request);

  std::unique_ptr<WordCache> cache_;
};

PrefixPage::PrefixPage()
    : Page({.lesson = "06",
            .title = "Prefix hashing",
            .summary = "A block's name is a hash of its tokens and of its parent's name. Equal "
                       "names are candidates, and no more."}) {
  declare({{"ask",
            {viz::word("NAME"),
             viz::text("WORDS").field(
                 "words", "you are a helpful assistant who answers briefly what is a page")},
            "request NAME: look its beginning up, compute the rest, cache what has become full",
            [this](auto& w) { return cache_->ask(w[0].text, cache_->tokens(w[1].text)); },
            [this](auto& w) {
              if (viz::words_in(w[1].text) == 0) return std::string("there are no words");
              return cache_->requests().why_not_add(w[0].text);
            }},
           {"free",
            {viz::word("NAME")},
            "request NAME ends; its full blocks can be found until they are overwritten",
            [this](auto& w) { return cache_->free(w[0].text); }},
           {"forge",
            {viz::word("NAME"), viz::word("OTHER")},
            "two requests that differ in their second block, whose hashes are equal",
            [this](auto& w) {
              const std::string first = cache_->ask(w[0].text, forged_prompt(false));
              return first + "; " + cache_->ask(w[1].text, forged_prompt(true));
            },
            [this](auto& w) { return why_not_forge(w[0].text, w[1].text); }}});
  declare_pools();
  reset();
}

/// Each of these begins anew.
void PrefixPage::declare_pools() {
  declare({{"bits",
            {viz::number("BITS", 0, 64).field("bits", "3")},
            "an empty pool with BITS bits of hash: with few there are collisions, and no wrong hit",
            [this](auto& w) {
              const WordCache::Settings& now = cache_->settings();
              return restart({now.num_blocks, now.block_size, w[0].number, now.exact});
            }},
           {"check",
            {viz::choice("exact|hash")},
            "an empty pool that compares tokens and parents, or trusts the hash",
            [this](auto& w) {
              const WordCache::Settings& now = cache_->settings();
              return restart({now.num_blocks, now.block_size, now.bits, w[0].text == "exact"});
            }},
           {"resize",
            {viz::number("BLOCKS", 1, 1024), viz::power_of_two("SIZE", 64)},
            "an empty pool of BLOCKS x SIZE tokens",
            [this](auto& w) {
              const WordCache::Settings& now = cache_->settings();
              return restart({w[0].number, w[1].number, now.bits, now.exact});
            }}});
}

std::string PrefixPage::restart(const WordCache::Settings& settings) {
  cache_ = std::make_unique<WordCache>(settings);
  return fmt::format("an empty pool: {} of {}, a hash of {}, {}",
                     kv::count_of(settings.num_blocks, "block"), settings.block_size,
                     kv::count_of(settings.bits, "bit"),
                     settings.exact ? "tokens and parent compared" : "the hash trusted");
}

std::string PrefixPage::why_not_forge(const std::string& first, const std::string& second) const {
  if (cache_->settings().block_size != 16) return "the pair was made for blocks of 16";
  const int num_free = cache_->manager().pool().num_free();
  if (num_free < 6) return fmt::format("it needs 6 free blocks, {} are free", num_free);
  return cache_->requests().why_not_add(std::vector{first, second});
}

std::vector<viz::Counter> PrefixPage::counters() const {
  const KvCacheManager& manager = cache_->manager();
  const int64_t asked = cache_->num_tokens_asked(), found = cache_->num_tokens_found();
  std::vector<viz::Counter> all{
      {"total", manager.pool().num_blocks()},
      {"free", manager.pool().num_free(), "free", "Blocks that no table holds.",
       fmt::format("{} / {}", manager.pool().num_free(), manager.pool().num_blocks())},
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
      {"bits", cache_->settings().bits},
      {"exact", cache_->settings().exact},
      {"requests", std::ssize(cache_->requests().names())},
  };
  for (const WordCache::Request& request : cache_->requests()) {
    all.push_back({request.name + ".tokens", std::ssize(request.tokens)});
    all.push_back({request.name + ".cached", request.num_cached_tokens});
  }
  return all;
}

void PrefixPage::draw(viz::Ui& ui) {
  draw_controls(ui);
  ui.begin_columns({0.36f, 0.64f});
  draw_pool(ui);
  ui.next_column();
  ui.heading("Chains: each hash covers its tokens and the hash before it");
  if (cache_->requests().empty()) {
    ui.hint("No request yet. Press Ask, change the words, ask again.");
  }
  for (const WordCache::Request& request : cache_->requests()) draw_chain(ui, request);
  ui.end_columns();
}

void PrefixPage::draw_controls(viz::Ui& ui) {
  const std::vector<std::string> names = cache_->requests().free_names(2);
  form(ui, {"ask", "Ask", "ask " + names[0]});
  form(ui, {"set bits", "Weaken the hash", "bits"});
  ui.same_line();
  const bool exact = cache_->settings().exact;
  buttons(ui, {{"check", exact ? "Trust the hash" : "Compare again",
                exact ? "check hash" : "check exact"},
               cache_->settings().block_size == 16
                   ? viz::Button{"forge", "Forge", "forge " + names[0] + " " + names[1]}
                   : viz::Button{"blocks of 16", "Blocks of 16", "resize 24 16",
                                 "The forged pair needs them."}});
}

void PrefixPage::draw_pool(viz::Ui& ui) {
  const KvCacheManager& manager = cache_->manager();
  const auto& pool = manager.pool();
  viz::PoolView view = viz::pool_view(manager.block_size(), 0, pool.num_blocks(),
                                      [&](int32_t id) { return pool.ref_cnt(id); });
  for (viz::BlockView& block : view.blocks) {
    const CachedBlock* const cached = pool.index().block(block.id);
    if (cached == nullptr) continue;
    block.badge = fmt::format("#{:03x}", cached->hash & 0xFFF);
    block.filled = manager.block_size();
    for (const int32_t token : pool.index().tokens(block.id)) {
      block.tokens.push_back(cache_->vocabulary().word(token));
    }
  }
  for (const WordCache::Request& request : cache_->requests()) {
    const BlockTable& table = manager.table(request.id);
    view.add(request, table.block_ids(), table.num_tokens());
  }
  ui.heading(fmt::format("Pool: {} of {}; # is the end of a hash",
                         kv::count_of(pool.num_blocks(), "block"), manager.block_size()));
  viz::pool_grid(ui, "pool", view);
}

void PrefixPage::draw_chain(viz::Ui& ui, const WordCache::Request& request) {
  const KvCacheManager& manager = cache_->manager();
  const BlockTable& table = manager.table(request.id);
  const auto hashes =
      hash_chain(request.tokens, table.block_size(), narrow_hasher(cache_->settings().bits));
  viz::ChainView view{.sequence = request, .links = {}};
  for (int i = 0; i < table.num_blocks(); ++i) {
    const auto index = static_cast<size_t>(i);
    viz::ChainView::Link link;
    link.block_id = table.block_ids()[index];
    const int first = i * table.block_size();
    const int end = std::min(first + table.block_size(), static_cast<int>(request.tokens.size()));
    link.text = cache_->vocabulary().text(
        {request.tokens.data() + first, static_cast<size_t>(end - first)});
    link.hash = index < hashes.size() ? fmt::format("{:x}", hashes[index]) : "not full: no hash";
    link.mark = cache_->is_wrong(request, i)        ? viz::ChainView::Mark::kWrong
                : first < request.num_cached_tokens ? viz::ChainView::Mark::kHit
                                                    : viz::ChainView::Mark::kNone;
    link.tooltip = fmt::format("block {}\n{}\n{}", link.block_id, link.text, link.hash);
    if (link.mark == viz::ChainView::Mark::kWrong) {
      link.tooltip += "\nits K and V were computed for another prefix";
    } else if (link.mark == viz::ChainView::Mark::kHit) {
      link.tooltip += "\nfound in the cache";
    }
    view.links.push_back(std::move(link));
  }
  const std::string& name = request.name;
  viz::chain(ui, name + "/chain", view);
  buttons(ui, {{name + "/free", "free " + name, "free " + name}});
}

}  // namespace

std::unique_ptr<viz::Page> make_page(const viz::PageContext&) {
  return std::make_unique<PrefixPage>();
}

}  // namespace lesson06
