#include "viz/page.h"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "cli/forgery.h"
#include "cli/hashers.h"
#include "prefix.h"
#include "viz/ui.h"

namespace lesson06 {
namespace {

constexpr const char* kBeginning = "you are a helpful guide who replies briefly ";
constexpr std::array kQuestions{"what is a page", "how are you", "where is the cat",
                                "who is there"};

/// The prompt of a forged request: a block that both have, and then its own block of the pair.
std::vector<int32_t> forged_prompt(const std::vector<int32_t>& own) {
  std::vector<int32_t> tokens(16);
  std::iota(tokens.begin(), tokens.end(), 200'000);
  tokens.insert(tokens.end(), own.begin(), own.end());
  tokens.push_back(200'100);
  return tokens;
}

}  // namespace

PrefixPage::PrefixPage(const viz::PageContext& context)
    : PoolPage({.lesson = "06",
                .title = "Prefix hashing",
                .summary = "A block's name is a hash of its tokens and of its parent's name. Equal "
                           "names are candidates, and no more.",
                .opening = {fmt::format("ask A \"{}{}\"", kBeginning, kQuestions[0]),
                            fmt::format("ask B \"{}{}\"", kBeginning, kQuestions[1])}},
               context) {
  declare_own(
      {{"ask",
        {viz::word("NAME"),
         viz::text("WORDS").field("words",
                                  "you are a helpful guide who replies briefly what is a page")},
        "request NAME: look its beginning up, compute the rest, cache what has become full",
        [this](auto& w) { return ask(w[0].text, vocabulary_.tokens(w[1].text)); },
        [this](auto& w) { return asked_.why_not_ask(w[0].text, w[1].text); }},
       {"free",
        {viz::word("NAME")},
        "request NAME ends; its full blocks can be found until they are overwritten",
        [this](auto& w) {
          asked_.free(*manager_, w[0].text);
          return tell(w[0].text + " ends. What its full blocks hold can still be found.");
        }},
       {"forge",
        {viz::word("NAME"), viz::word("OTHER")},
        "two requests that differ in their second block, whose hashes are equal",
        [this](auto& w) {
          const std::string first = ask(w[0].text, forged_prompt(kForgedA));
          return first + "; " + ask(w[1].text, forged_prompt(kForgedB));
        },
        [this](auto& w) { return why_not_forge(w[0].text, w[1].text); }},
       fresh("bits", {viz::number("BITS", 0, 64).field("bits", "3")},
             "an empty pool with BITS bits a hash: with few there are collisions, but no wrong hit",
             &PageSettings::bits),
       fresh("check", {viz::choice("exact|hash")},
             "an empty pool that compares tokens and parents, or trusts the hash",
             &PageSettings::trust_hash),
       fresh("resize", {viz::number("BLOCKS", 1, 1024), viz::power_of_two("SIZE", 64)},
             "an empty pool of BLOCKS x SIZE tokens", &PageSettings::num_blocks,
             &PageSettings::block_size)});
  declare(live_.verbs(
      "the engine answers the prompt; then comes the next turn: all of that and more words",
      [this](const std::string& prompt, int tokens) { start_live(prompt, tokens); },
      [this] { return live_story(); }, "Once upon a time there was a little dog"));
  reset();
}

std::string PrefixPage::begin() {
  pool_ = std::make_unique<BlockPool>(
      settings_.num_blocks, settings_.block_size,
      settings_.trust_hash ? PrefixIndex::Check::kHashOnly : PrefixIndex::Check::kExact);
  manager_ = std::make_unique<KvCacheManager>(
      *pool_, CacheManagerOptions{.hasher = narrow_hasher(settings_.bits)});
  asked_ = Requests(8);
  written_.assign(settings_.num_blocks, {});
  lookup_ = {};
  num_refused_ = 0;
  tell(settings_.trust_hash ? "From now on an equal hash is enough."
                            : "Nothing is cached. Ask something.");
  return fmt::format("an empty pool: {} of {}, a hash of {}, {}",
                     kv::count_of(settings_.num_blocks, "block"), settings_.block_size,
                     kv::count_of(settings_.bits, "bit"),
                     settings_.trust_hash ? "the hash trusted" : "tokens and parent compared");
}

std::string PrefixPage::why_not_forge(const std::string& first, const std::string& second) const {
  if (settings_.block_size != 16) return "the pair was made for blocks of 16";
  const int num_free = pool_->num_free();
  if (num_free < 6) return fmt::format("it needs 6 free blocks, {} are free", num_free);
  return asked_.all().why_not_add(std::vector{first, second});
}

std::string PrefixPage::ask(const std::string& name, std::vector<int32_t> tokens) {
  const int wrong_before = num_wrong();
  Lookup lookup;
  const Requests::Request& request =
      asked_.ask(*manager_, name, std::move(tokens), {},
                 [&](const auto& wanted, const auto& hashes, const auto& computed) {
                   lookup = walk(wanted, hashes, computed);  // candidates may be overwritten later
                 });
  lookup_ = std::move(lookup);
  num_refused_ += lookup_.num_refused;
  asked_now_ = true;
  const auto ids = manager_->table(request.id).block_ids();
  const auto found = ids.first(lookup_.num_found);
  for (size_t i = found.size(); i < ids.size(); ++i) {
    const auto held = beginning(request, i);
    written_[ids[i]].assign(held.begin(), held.end());
  }
  const int wrong = num_wrong() - wrong_before;
  std::string story =
      fmt::format("{} finds {} of its {} in the cache", name, request.num_cached_tokens,
                  kv::count_of(std::ssize(request.tokens), "token"));
  std::string reason = name + " finds nothing: all of it is computed.";
  if (!found.empty()) {
    story += fmt::format(", in blocks {}", fmt::join(found, ", "));
    reason = fmt::format("{} finds {}, and computes the rest.", name,
                         kv::count_of(std::ssize(found), "block"));
  }
  if (lookup_.num_refused > 0) {
    reason += " Another block has the wanted hash: compared, refused.";
  }
  if (wrong > 0) {
    story += fmt::format("; {} of them hold K and V of another prefix!", wrong);
    reason = name + " was given a block for its hash: K and V are of other words!";
  }
  tell(std::move(reason));
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
    return tell("Both turns have ended. Their full blocks can be found.");
  }
  const viz::LiveRun::Token& token = live_.generated().back();
  const Requests::Request request = requests()[0];
  std::string story = fmt::format("{} draws \"{}\".", request.name, live_.text(token.id));
  const bool is_first = request.tokens.size() == live_.requests()[token.request].prompt.size() + 1;
  if (is_first) {
    story += fmt::format(" {} of its tokens were found.", request.num_cached_tokens);
    asked_now_ = true;
  }
  return tell(story);
}

void PrefixPage::refused(const viz::Command& command, const std::string& why) {
  PoolPage::refused(command, why);
  now_.asked = false;
}

void PrefixPage::check_invariants() const {
  manager().check();
  if (lookup_.num_others != lookup_.num_refused) {
    throw std::logic_error("the walk meets other candidates than the lookup");
  }
  if (!settings_.trust_hash && num_wrong() > 0) {
    throw std::logic_error("a request reads K and V of another prefix");
  }
}

std::vector<viz::Counter> PrefixPage::counters() const {
  const KvCacheManager& manager = this->manager();
  const PrefixCacheStats& stats = manager.prefix_cache_stats();
  std::vector<viz::Counter> all{
      {"total", manager.pool().num_blocks()},
      viz::free_counter(manager.pool()),
      {"used", manager.pool().num_used()},
      {"cached", manager.pool().index().size(), "can be found",
       "Full blocks whose K and V are written, free or not."},
      {"asked", stats.queries},
      {"found", stats.hits, "from cache",
       "Tokens that were not computed, of all that were asked for.",
       fmt::format("{} / {}", stats.hits, stats.queries)},
      viz::share("hit_permille", stats.hits, stats.queries, "", ""),
      {"refused", num_refused_, "refused", "Candidates with the right hash and another content."},
      {"wrong", num_wrong()},
      {"bits", settings_.bits},
      {"exact", !settings_.trust_hash},
      {"requests", std::ssize(requests())},
      {"live", live_.running()},
      {"generated", std::ssize(live_.generated())},
  };
  Requests::add_counters(all, requests());
  return all;
}

/// Requests that begin as the first one did, or in another way.
std::vector<viz::Button> PrefixPage::actions() const {
  if (live_.running()) return live_.steps();
  const auto& all = asked_.all();
  const size_t count = all.size();
  const auto ask = [&](const char* name, const char* label, const std::string& beginning,
                       size_t end, char key, bool asked) {
    const std::string words = beginning + kQuestions[end % kQuestions.size()];
    return viz::Button{
        name, label, viz::Command{.verb = "ask", .args = {all.free_name(), words}}.text(),
        "",   key,   asked};
  };
  std::vector<viz::Button> row{
      ask("ask alike", "Same start", kBeginning, count, 'S', count < 2),
      ask("ask same", "Again", kBeginning, 0, 'A', false),
      ask("ask other", "Other start", "Once upon a time there was a dog ", count, 'O', count == 2)};
  if (count == 0) return row;
  const std::string name = chosen(all);
  row.push_back({name + "/free", "Free " + name, "free " + name, "", 'E', count > 2});
  return row;
}

void PrefixPage::draw(viz::Ui& ui) {
  const std::vector<std::string> names = asked_.all().free_names(2);
  form(ui, {"ask", "Ask", "ask " + names[0]});
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
