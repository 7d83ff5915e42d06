// The page of lesson 06: chains of hashes, hits, and what a hash that collides does to them.

#include "viz/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "page_prefix.h"
#include "viz/ui.h"

namespace lesson06 {
PrefixPage::PrefixPage(const viz::PageContext& context)
    : Page({.lesson = "06",
            .title = "Prefix hashing",
            .summary = "A block's name is a hash of its tokens and of its parent's name. Equal "
                       "names are candidates, and no more."}),
      live_(context) {
  declare(live_.without_run(
      {{"ask",
        {viz::word("NAME"),
         viz::text("WORDS").field(
             "words", "you are a helpful assistant who answers briefly what is a page")},
        "request NAME: look its beginning up, compute the rest, cache what has become full",
        [this](auto& w) { return ask(w[0].text, cache_->tokens(w[1].text)); },
        [this](auto& w) {
          if (viz::words_in(w[1].text) == 0) return std::string("there are no words");
          return cache_->requests().why_not_add(w[0].text);
        }},
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
        [this](auto& w) { return why_not_forge(w[0].text, w[1].text); }}}));
  declare_pools();
  declare_live();
  reset();
}

/// Each of these begins anew.
void PrefixPage::declare_pools() {
  declare(live_.without_run(
      {{"bits",
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
        }}}));
}

void PrefixPage::declare_live() {
  declare(live_.verbs(
      "the engine answers the prompt; then comes the next turn: all of that and more words",
      [this](const std::string& prompt, int tokens) { start_live(prompt, tokens); },
      [this] { return live_story(); }, "Once upon a time there was a little dog"));
}

void PrefixPage::reset() {
  live_.stop();
  restart({});
  changed();
}

void PrefixPage::check_invariants() const {
  cache_->check();
  manager().check();
}

std::string PrefixPage::restart(const WordCache::Settings& settings) {
  cache_ = std::make_unique<WordCache>(settings);
  now_ = {};
  reason_ =
      settings.exact ? "Nothing is cached. Ask something." : "From now on an equal hash is enough.";
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

std::string PrefixPage::ask(const std::string& name, std::vector<int32_t> tokens) {
  const int64_t refused = cache_->num_refused(), wrong = cache_->num_wrong();
  std::string story = cache_->ask(name, std::move(tokens));
  asked_ = name;
  const int found = cache_->requests().at(name).num_cached_tokens / manager().block_size();
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

const KvCacheManager& PrefixPage::manager() const {
  return live_.running() ? *live_.engine<PrefixEngine>().manager() : cache_->manager();
}

/// The next turn of a conversation repeats all that was said.
void PrefixPage::start_live(const std::string& prompt, int max_tokens) {
  const WordCache::Settings& settings = cache_->settings();
  auto engine = std::make_unique<PrefixEngine>(
      live_.model(),
      lesson03::PagedOptions{.block_size = settings.block_size, .num_blocks = settings.num_blocks});
  PrefixEngine& prefixes = *engine;
  const std::vector<kv::Request> requests{live_.request(prompt, max_tokens),
                                          live_.request(" And then", max_tokens)};
  now_ = {};
  live_.start(std::move(engine), requests, [this, &prefixes](const kv::TokenCallback& on_token) {
    bool goes_on = true;
    const auto turn = [&](size_t number, const kv::Request& request) {
      prefixes.generate({&request, 1},
                        [&](size_t, int32_t token) { return goes_on = on_token(number, token); });
    };
    turn(0, live_.requests()[0]);
    if (!goes_on) return;
    kv::Request next = live_.requests()[1];
    const std::vector<int32_t> said = live_.tokens(0);
    next.prompt.insert(next.prompt.begin(), said.begin(), said.end());
    turn(1, next);
  });
}

std::string PrefixPage::live_story() {
  if (live_.finished()) {
    reason_ = "Both turns have ended. Their full blocks can be found.";
    return "the run has ended: every block is free";
  }
  const viz::LiveRun::Token& token = live_.generated().back();
  const Request request = requests()[0];
  reason_ = fmt::format("{} draws \"{}\".", request.name, live_.text(token.id));
  const bool first = live_.generated().size() == 1 ||
                     live_.generated()[live_.generated().size() - 2].request != token.request;
  if (first) {
    reason_ += fmt::format(" {} of its tokens were found.", request.num_cached_tokens);
    asked_ = request.name;
  }
  return reason_;
}

std::vector<PrefixPage::Request> PrefixPage::requests() const {
  if (!live_.running()) return {cache_->requests().begin(), cache_->requests().end()};
  if (live_.finished()) return {};
  const size_t turn = live_.generated().back().request;  // its id is 0: it runs alone
  std::vector<int32_t> tokens = turn == 0 ? std::vector<int32_t>() : live_.tokens(0);
  const std::vector<int32_t> own = live_.tokens(turn);
  tokens.insert(tokens.end(), own.begin(), own.end());
  const auto hue = static_cast<int>(turn);
  return {{{viz::letters(hue), hue},
           0,
           live_.engine<PrefixEngine>().num_cached_tokens()[0],
           std::move(tokens)}};
}

void PrefixPage::changed() {
  const Shown before = std::exchange(now_, shown());
  for (Shown::Node& node : now_.nodes) {
    const auto block = static_cast<size_t>(node.id);
    node.is_new = std::ranges::count(before.nodes, node.id, &Shown::Node::id) == 0 ||
                  before.pool.blocks[block].tokens != now_.pool.blocks[block].tokens;
  }
  asked_.clear();
}

void PrefixPage::refused(const viz::Command&, const std::string& why) {
  reason_ = "Refused: " + why + ".";
  now_.asked = false;
  now_.num_looked_up = 0;
}

std::vector<viz::Counter> PrefixPage::counters() const {
  const KvCacheManager& manager = this->manager();
  const PrefixCacheStats& stats = manager.prefix_cache_stats();
  const int64_t asked = stats.queries, found = stats.hits;
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
      {"requests", std::ssize(requests())},
      {"live", live_.running()},
      {"generated", std::ssize(live_.generated())},
  };
  for (const Request& request : requests()) {
    all.push_back({request.name + ".tokens", std::ssize(request.tokens)});
    all.push_back({request.name + ".cached", request.num_cached_tokens});
  }
  return all;
}

void PrefixPage::draw(viz::Ui& ui) {
  if (live_.running()) return viz::Live::draw_steps(ui, *this);
  const std::vector<std::string> names = cache_->requests().free_names(2);
  form(ui, {"ask", "Ask", "ask " + names[0]});
  if (!cache_->requests().empty()) {
    const std::string name =
        cache_->requests().find(selected()) ? selected() : cache_->requests().names().back();
    buttons(ui, {{name + "/free", "Free " + name, "free " + name}});
  }
  form(ui, {"set bits", "Weaken the hash", "bits"});
  const bool exact = cache_->settings().exact;
  buttons(ui, {{"check", exact ? "Trust the hash" : "Compare again",
                exact ? "check hash" : "check exact"},
               cache_->settings().block_size == 16
                   ? viz::Button{"forge", "Forge", "forge " + names[0] + " " + names[1]}
                   : viz::Button{"blocks of 16", "Blocks of 16", "resize 24 16",
                                 "The forged pair needs them."}});
  form(ui, {"live/start", "Watch the engine", "live"});
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<PrefixPage>(context);
}

}  // namespace lesson06
