#include "viz/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "viz/ui.h"
#include "windows.h"

namespace lesson10 {

constexpr int kMostEntries = 64;  // of a table
// The words with which a request goes on: number n follows its n-th token, and after the last word
// the first comes again.
constexpr const char* kStory[] = {"and", "so",  "it",  "was", "one", "day", "we",  "had",
                                  "the", "sea", "at",  "our", "own", "but", "as",  "the",
                                  "sun", "set", "in",  "the", "fog", "no",  "man", "saw",
                                  "how", "far", "off", "it",  "lay", "to",  "us",  "all"};

WindowsPage::WindowsPage(const viz::PageContext& context)
    : PoolPage({.lesson = "10",
                .title = "Windows",
                .summary = "Some layers see only the last tokens. Their blocks fall out of the "
                           "window, and go back to the pool that all layers share.",
                .opening = {"new A \"we sat by the sea and the sun was low\"", "append A 4"}},
               context) {
  declare_own(requests());
  declare_own(
      {fresh("groups", {viz::number("COUNT", 0, 3)},
             "start over, with COUNT sliding groups of layers beside that of full attention",
             &PageSettings::num_sliding),
       fresh("pool", {viz::number("BLOCKS", 1, 128), viz::power_of_two("SIZE", 16)},
             "start over with BLOCKS of SIZE tokens, for all groups together",
             &PageSettings::num_blocks, &PageSettings::block_size),
       {"live",
        {viz::text("PROMPT").field("prompt", "Once upon a time there was a little dog"),
         viz::number("TOKENS", 1, 200).or_else("30")},
        "the engine goes on with PROMPT, TOKENS at most; some layers of the model get the window",
        [this](auto& w) { return live(w[0].text, w[1].number); }}});
  declare_steps({"step",
                 {viz::number("COUNT", 1, 1000).or_else("1")},
                 "let the engine draw COUNT tokens",
                 [this](auto& w) {
                   for (int i = 0; i < w[0].number && live_.step(); ++i) follow_engine();
                   return shown_.reason;
                 },
                 [](auto&) { return "there is no live run; `live` begins one"; }});
  reset();
}

std::vector<viz::Verb> WindowsPage::requests() {
  const viz::Argument name = viz::word("NAME");
  return {
      {"new",
       {name, viz::text("PROMPT").field("prompt", kPrompt)},
       "request NAME comes with PROMPT, a word a token: what all groups have of it is found, the "
       "rest computed in one pass",
       [this](auto& w) { return add(w[0].text, vocabulary_.tokens(w[1].text)); },
       [this](auto& w) { return why_not_add(w[0].text, viz::words_of(w[1].text).size()); }},
      {"continue",
       {name, viz::word("OTHER"), viz::text("WORDS"), viz::number("TOKENS", 0, 1024).or_else("0")},
       "request NAME comes with the first TOKENS that OTHER had, or with all of them if it is 0, "
       "and then WORDS",
       [this](auto& w) { return add(w[0].text, begun(w[1].text, w[3].number, w[2].text)); },
       [this](auto& w) {
         if (!said_.contains(w[1].text)) return "there was no request " + w[1].text;
         return why_not_add(w[0].text, begun(w[1].text, w[3].number, w[2].text).size());
       }},
      {"append",
       {name, viz::number("TOKENS", 1, 1024)},
       "NAME grows by TOKENS in one pass; what fell out of its windows goes back first",
       [this](auto& w) { return append(w[0].text, w[1].number); },
       [this](auto& w) { return too_long(shown_.asked.at(w[0].text).num_tokens() + w[1].number); }},
      {"free",
       {name},
       "NAME ends; what its full blocks hold can be found until they are taken",
       [this](auto& w) {
         manager_->free(shown_.asked.at(w[0].text).id);
         shown_.asked.erase(w[0].text);
         return tell(w[0].text + " ends: its full blocks can be found until they are taken");
       }}};
}

std::string WindowsPage::begin() {
  std::vector<KvCacheGroup> groups;
  for (int g = 0; g <= settings_.num_sliding; ++g) {
    groups.push_back({.window = g == 0 ? 0 : settings_.window, .layers = {g}});
  }
  pool_ = std::make_unique<BlockPool>(settings_.num_blocks, settings_.block_size);
  manager_ = std::make_unique<KvCacheCoordinator>(*pool_, std::move(groups));
  said_.clear();
  shown_ = {};
  shown_.blocks.resize(static_cast<size_t>(settings_.num_blocks) + 1);
  look();
  return fmt::format("{} of {}, for full attention and {} with a window of {}",
                     kv::count_of(settings_.num_blocks, "block"), settings_.block_size,
                     kv::count_of(settings_.num_sliding, "group"), settings_.window);
}

/// Why the page has no room for tables of num_tokens tokens; empty if it has.
std::string WindowsPage::too_long(int num_tokens) const {
  const int entries = lesson03::blocks_for(num_tokens, settings_.block_size);
  if (entries <= kMostEntries) return {};
  return fmt::format("its tables would have {} entries, and the page has room for {}", entries,
                     kMostEntries);
}

std::string WindowsPage::why_not_add(const std::string& name, size_t num_tokens) const {
  if (num_tokens == 0) return "there are no words";
  const std::string why = too_long(static_cast<int>(num_tokens));
  return why.empty() ? shown_.asked.why_not_add(name) : why;
}

/// The first num_tokens tokens of another request (0 means all), and then these words.
std::vector<int32_t> WindowsPage::begun(const std::string& other, int num_tokens,
                                        const std::string& words) {
  std::vector<int32_t> tokens = said_.at(other);
  if (num_tokens > 0) tokens.resize(std::min<size_t>(tokens.size(), num_tokens));
  const std::vector<int32_t> rest = vocabulary_.tokens(words);
  tokens.insert(tokens.end(), rest.begin(), rest.end());
  return tokens;
}

std::string WindowsPage::add(const std::string& name, std::vector<int32_t> tokens) {
  Asked asked{{}, next_id_++, 0, std::move(tokens)};
  const ComputedBlocks computed = manager_->get_computed_blocks(asked.tokens, asked.hashes);
  asked.num_found = computed.num_tokens;
  Lookup lookup = look_up(asked, computed);
  if (!manager_->allocate_slots(asked.id, asked.num_tokens() - computed.num_tokens, computed)) {
    viz::too_few_blocks("new " + name, pool_->num_free());
  }
  manager_->cache_blocks(asked.id, asked.tokens, asked.hashes, asked.num_tokens());
  const Asked& added = shown_.asked.add(name, std::move(asked));
  said_[name] = added.tokens;
  lookup.request = added;
  shown_.lookup = std::move(lookup);
  return tell(told_of(shown_.lookup));
}

std::string WindowsPage::append(const std::string& name, int num_tokens) {
  Asked& asked = shown_.asked.at(name);
  if (!manager_->allocate_slots(asked.id, num_tokens)) {
    viz::too_few_blocks("append " + name, pool_->num_free());
  }
  for (int i = 0; i < num_tokens; ++i) {
    asked.tokens.push_back(vocabulary_.tokens(kStory[asked.tokens.size() % std::size(kStory)])[0]);
  }
  manager_->cache_blocks(asked.id, asked.tokens, asked.hashes, asked.num_tokens());
  said_[name] = asked.tokens;
  look();
  return tell_fallen(asked);
}

/// Tells which blocks left the tables just now, and which blocks of the past are taken again.
std::string WindowsPage::tell_fallen(const Asked& asked) {
  const std::string& name = asked.name;
  const std::vector<std::vector<int32_t>>& was = now_.asked.at(name).tables;
  std::vector<int32_t> fallen, again;
  for (size_t g = 0; g < asked.tables.size(); ++g) {
    for (size_t i = 0; i < asked.tables[g].size(); ++i) {
      const int32_t old = i < was[g].size() ? was[g][i] : BlockPool::kNullBlock;
      const int32_t now = asked.tables[g][i];
      if (old == now) continue;
      if (old != BlockPool::kNullBlock) fallen.push_back(old);
      if (now != BlockPool::kNullBlock && shown_.block(now).times_taken > 1) again.push_back(now);
    }
  }
  const bool all_free =
      std::ranges::all_of(fallen, [&](int32_t id) { return shown_.block(id).hues.empty(); });
  const auto named = [](std::vector<int32_t> ids) {
    std::ranges::sort(ids);
    if (ids.size() > 3) return kv::count_of(std::ssize(ids), "block");
    return fmt::format("{} {}", ids.size() == 1 ? "block" : "blocks", fmt::join(ids, ", "));
  };
  const auto is = [](const std::vector<int32_t>& ids) { return ids.size() == 1 ? "is" : "are"; };
  if (!fallen.empty()) {
    std::string words = named(fallen) + " fell out of the window";
    if (all_free) words += fmt::format(", and {} free", is(fallen));
    if (!again.empty()) words += fmt::format("; {} {} taken again", named(again), is(again));
    return tell(words, fmt::format("{}/1/null {}", name, manager_->first_block(asked.id, 1) - 1));
  }
  int waiting = 0;  // blocks
  for (int group = 1; group < manager_->num_groups(); ++group) {
    waiting += num_skipped(asked) / settings_.block_size - manager_->first_block(asked.id, group);
  }
  if (waiting == 0) return tell(name + "'s window still sees a part of every block.");
  return tell(fmt::format("{}'s window has left {} behind: {} back with the next token.", name,
                          kv::count_of(waiting, "block"), waiting == 1 ? "it goes" : "they go"));
}

/// With one sliding group each second layer forgets, with more two of three do. The model's own
/// number of layers says how many groups that makes.
std::string WindowsPage::live(const std::string& prompt, int max_tokens) {
  kv::Request request = live_.request(prompt, max_tokens);
  const int num_tokens = static_cast<int>(request.prompt.size()) + max_tokens;
  if (const std::string why = too_long(num_tokens); !why.empty()) {
    kv::user_error("live: {}; nothing has changed", why);
  }
  const int every = std::min(settings_.num_sliding, 2) + 1;
  std::vector<int> windows;
  for (int layer = 1; layer <= live_.model().config().num_layers; ++layer) {
    windows.push_back(layer % every == 0 ? 0 : settings_.window);
  }
  live_.model().set_windows(std::move(windows));
  auto engine = std::make_unique<WindowsEngine>(
      live_.model(),
      PagedOptions{.block_size = settings_.block_size, .num_blocks = settings_.num_blocks});
  live_.start(std::move(engine), {std::move(request)});  // may refuse
  settings_.num_sliding = static_cast<int>(make_groups(live_.model().config()).size()) - 1;
  begin();
  shown_.asked.add("A", {});
  follow_engine();
  return fmt::format("the engine begins with \"{}\"", prompt);
}

std::vector<viz::Counter> WindowsPage::counters() const {
  const BlockPool& pool = manager().pool();
  std::vector<viz::Counter> all{
      {"held", shown_.held, "blocks held", "Blocks that some table holds."},
      {"full", shown_.full, "if none forgot",
       "Blocks that would be held if every layer had full attention."},
      viz::share("saved_permille", shown_.full - shown_.held, shown_.full, "saved",
                 "Of these, the part that need not be held."),
      {"peak", shown_.peak, "most held",
       "Blocks that were held at once at most, in the middle of a pass."},
      viz::free_counter(pool),
      {"cached", pool.num_cached(), "can be found", "Blocks with known tokens, held or free."},
      {"evicted", pool.metrics().num_evicted},
      {"generated", std::ssize(live_.generated())},
      {"hit", int64_t{shown_.lookup.num_hit} * settings_.block_size},
  };
  for (size_t g = 0; g < shown_.lookup.alone.size(); ++g) {
    all.push_back(
        {fmt::format("alone.{}", g), int64_t{shown_.lookup.alone[g]} * settings_.block_size});
  }
  for (const Asked& asked : shown_.asked) {
    all.push_back({asked.name + ".tokens", asked.num_tokens()});
    all.push_back({asked.name + ".found", asked.num_found});
    for (size_t g = 0; g < asked.tables.size(); ++g) {
      const auto null = std::ranges::count(asked.tables[g], BlockPool::kNullBlock);
      all.push_back(
          {fmt::format("{}.blocks.{}", asked.name, g), std::ssize(asked.tables[g]) - null});
      all.push_back({fmt::format("{}.null.{}", asked.name, g), null});
    }
  }
  return all;
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<WindowsPage>(context);
}

}  // namespace lesson10
