#include "viz/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "page_tiers.h"

namespace lesson11 {
namespace {

constexpr int kOwnTokens = 10'000;  // that a conversation may have

}  // namespace

TiersPage::TiersPage(const viz::PageContext& context)
    : Page({.lesson = "11",
            .title = "Evicted is not lost",
            .summary = "Blocks sink to the host's memory and to a file before they are evicted. "
                       "Who needs them again lets them rise, while others run."}),
      live_(context) {
  declare_requests();
  declare_pools();
  declare_settings();
  declare_live();
  reset();
}

void TiersPage::declare_requests() {
  const viz::Argument name = viz::word("NAME");
  declare(live_.without_run(
      {{"submit",
        {name, viz::number("PROMPT", 1, 256).field("prompt", "16"),
         viz::number("MAX", 1, 256).field("to generate", "4"), viz::word("OTHER").or_else("none"),
         viz::number("TOKENS", 0, 256).or_else("0")},
        "a request of NAME's comes: the first PROMPT tokens of its text, MAX to generate; a new "
        "text may begin with the first TOKENS of OTHER's",
        [this](auto& w) { return submit(w); },
        [this](auto& w) { return why_not_submit(w); }},
       {"finish",
        {name},
        "NAME's request ends now; what its full blocks hold can be found",
        [this](auto& w) {
          const Asked& asked = shown_.asked.at(w[0].text);
          scheduler_->finish(asked.id);
          look();
          shown_.reason = asked.name + " has ended: its full blocks can be found, and sink in time";
          return fmt::format("{} has ended", asked.name);
        },
        [this](auto& w) {
          return shown_.asked.at(w[0].text).is_there() ? "" : "it has ended already";
        }}}));
}

void TiersPage::declare_pools() {
  declare(live_.without_run(
      {{"restart",
        {},
        "the program ends and starts again: the device and the host forget, the file does not",
        [this](auto&) { return restart(); }},
       {"flush",
        {},
        "all that nobody holds sinks now, as before an orderly end",
        [this](auto&) { return flush(); }},
       {"flip",
        {viz::word("BLOCK")},
        "a bit of BLOCK's record in the file flips (A0 is the first of A's blocks), as on a worn "
        "disk",
        [this](auto& w) { return flip(*record_of(w[0].text)); },
        [this](auto& w) {
          return record_of(w[0].text) ? "" : "the file has no block " + w[0].text;
        }},
       {"pool",
        {viz::number("DEVICE", 2, 32), viz::number("HOST", 1, 64), viz::number("FILE", 0, 96)},
        "start anew with blocks on the device, in host memory and in a file (0: there is none)",
        [this](auto& w) {
          PageSettings settings = settings_;
          settings.device = w[0].number;
          settings.host = w[1].number;
          settings.file = w[2].number;
          return clear(settings);
        }}}));
}

/// But for the first one and the rates, each of these begins anew.
void TiersPage::declare_settings() {
  declare(live_.without_run(
      {{"copies",
        {viz::number("BLOCKS", 1, 64)},
        "from now on BLOCKS go from pool to pool during a pass",
        [this](auto& w) {
          settings_.copies = w[0].number;
          return fmt::format("{} a pass", kv::count_of(w[0].number, "block"));
        }},
       {"rates",
        {viz::number("TOKEN", 0, 100'000), viz::number("HOST", 0, 100'000),
         viz::number("FILE", 0, 100'000)},
        "microseconds from now on: to compute a token, to load a block from the host, and to "
        "bring one there from the file",
        [this](auto& w) {
          settings_.token = w[0].number;
          settings_.host_block = w[1].number;
          settings_.file_block = w[2].number;
          scheduler_->set_rates(settings_.rates());
          return fmt::format("{} us a token; a block {} us from the host, {} us from the file",
                             w[0].number, w[1].number, w[2].number);
        }},
       {"policy",
        {viz::choice("quicker|always|never")},
        "start anew, and load what is loaded in less time than it is computed in, or all, or none",
        [this](auto& w) {
          PageSettings settings = settings_;
          settings.policy = static_cast<LoadPolicy>(w[0].number);
          return clear(settings);
        }},
       {"min_hits",
        {viz::number("HITS", 0, 9)},
        "start anew: a block of the device sinks if HITS requests have found it",
        [this](auto& w) {
          PageSettings settings = settings_;
          settings.min_hits = w[0].number;
          return clear(settings);
        }},
       {"ahead",
        {viz::number("BLOCKS", 0, 64)},
        "start anew: of the BLOCKS that are overwritten next each pool has copies below",
        [this](auto& w) {
          PageSettings settings = settings_;
          settings.ahead = w[0].number;
          return clear(settings);
        }},
       {"budget",
        {viz::number("TOKENS", 1, 256)},
        "start anew, up to TOKENS in a pass",
        [this](auto& w) {
          PageSettings settings = settings_;
          settings.budget = w[0].number;
          return clear(settings);
        }}}));
}

void TiersPage::declare_live() {
  declare(live_.without_run(
      {{"live",
        {viz::text("PROMPT").field("prompt", "had a red ball and a little dog"),
         viz::number("TOKENS", 1, 100).or_else("8")},
        "the engine serves 4 conversations that go on with PROMPT, and then all of them again; a "
        "pass at a time",
        [this](auto& w) { return live(w[0].text, w[1].number); }}}));
  declare({{"pass",
            {viz::number("COUNT", 1, 1000).or_else("1")},
            "passes that run now, with copies beside them: COUNT",
            [this](auto& w) { return passes(w[0].number); },
            [this](auto&) {
              if (live_.finished()) return "the run has ended; `stop` leads back";
              return has_work() ? "" : "there is nothing to do";
            },
            true},
           {"stop",
            {},
            "end the live run; empty pools are left",
            [this](auto&) {
              live_.stop();
              return clear(settings_);
            },
            [this](auto&) { return live_.running() ? "" : "there is no live run"; }}});
}

void TiersPage::reset() {
  live_.stop();
  clear({});
  changed();
}

/// Nobody has come yet, and nothing is known, in the file neither.
std::string TiersPage::clear(const PageSettings& settings) {
  settings_ = settings;
  scheduler_.reset();
  manager_.reset();
  memory_.reset();
  file_.remove();
  make_pools();
  names_.clear();
  coming_.clear();
  next_id_ = 0;
  shown_ = {};
  shown_.traffic.resize(static_cast<size_t>(manager().num_tiers()));
  look();
  const char* const policies[] = {"what is quicker is loaded", "all is loaded",
                                  "nothing is loaded"};
  return fmt::format("{} on the device, {} in host memory, {} in the file; {}",
                     kv::count_of(settings.device, "block"), settings.host, settings.file,
                     policies[static_cast<int>(settings.policy)]);
}

/// Pools with nothing in them, but for what the file holds.
void TiersPage::make_pools() {
  scheduler_.reset();
  manager_.reset();
  memory_.reset();  // closes the file
  memory_ = std::make_unique<PageMemory>(
      MemorySizes{settings_.device, settings_.host, settings_.file}, file_.path());
  pool_ = std::make_unique<BlockPool>(settings_.device, kBlockSize);
  manager_ = std::make_unique<TieredManager>(*pool_, memory_->take_tiers(), CacheManagerOptions{},
                                             settings_.tiers(), memory_->first_prefix());
  scheduler_ =
      std::make_unique<TieredScheduler>(*manager_, settings_.scheduler(), settings_.policy);
  scheduler_->set_rates(settings_.rates());
  last_ = {};
  num_damaged_ = 0;
}

std::string TiersPage::restart() {
  make_pools();
  look();
  shown_.reason = "a restart: the device and the host have forgotten all";
  if (settings_.file > 0) {
    shown_.reason += fmt::format(", the file has {}", kv::count_of(pool(2).num_cached(), "block"));
    shown_.points_at = "shelf 2";
  }
  return shown_.reason;
}

std::string TiersPage::flush() {
  manager_->flush();
  look();
  shown_.reason = "all that nobody holds has sunk, as far as there was room";
  return shown_.reason;
}

/// Of the file, the one that holds this block.
std::optional<int32_t> TiersPage::record_of(const std::string& block) const {
  if (settings_.file == 0) return std::nullopt;
  const std::vector<Cell>& cells = shown_.shelves.at(2).cells;
  for (size_t id = 1; id < cells.size(); ++id) {
    if (cells[id].cached && cells[id].name == block) return static_cast<int32_t>(id);
  }
  return std::nullopt;
}

std::string TiersPage::flip(int32_t record) {
  memory_->flip(record);
  shown_.reason = fmt::format("a bit of record {} flips, and nobody knows yet", record);
  shown_.points_at = fmt::format("2/block {}", record);
  return shown_.reason;
}

std::string TiersPage::why_not_submit(const viz::Words& words) const {
  const std::string& name = words[0].text;
  const Asked* const known = shown_.asked.find(name);
  if (known != nullptr && known->is_there()) return "a request of " + name + " is there already";
  const int needed = lesson03::blocks_for(words[1].number + words[2].number - 1, kBlockSize);
  if (needed > settings_.device) {
    return fmt::format("it needs {}, the device has {}", kv::count_of(needed, "block"),
                       settings_.device);
  }
  if (words[3].text != "none" && shown_.asked.find(words[3].text) == nullptr) {
    return "there was no conversation " + words[3].text;
  }
  return known == nullptr ? shown_.asked.why_not_add(name) : "";
}

std::string TiersPage::submit(const viz::Words& words) {
  const std::string& name = words[0].text;
  if (shown_.asked.find(name) == nullptr) {
    std::vector<int32_t> text;
    if (words[3].text != "none") {
      text = shown_.asked.at(words[3].text).text;
      text.resize(std::min(text.size(), static_cast<size_t>(words[4].number)));
    }
    shown_.asked.add(name, {}).text = std::move(text);
  }
  Asked& asked = shown_.asked.at(name);
  asked.id = next_id_++;
  asked.num_prompt = words[1].number;
  asked.max_tokens = words[2].number;
  asked.generated = 0;
  asked.doing = Doing::kWaits;
  while (std::ssize(asked.text) < asked.num_prompt + asked.max_tokens) {
    asked.text.push_back(asked.hue * kOwnTokens + static_cast<int32_t>(asked.text.size()) + 1);
  }
  const auto prompt = std::span(asked.text).first(static_cast<size_t>(asked.num_prompt));
  scheduler_->submit(asked.id, prompt, asked.max_tokens);
  asked.found = found_now(prompt);
  look();
  shown_.reason = told_of_found(asked);
  shown_.points_at = "request " + name;
  return shown_.reason;
}

void TiersPage::changed() {
  before_ = std::exchange(now_, shown_);
  shown_.has_passed = false;
  shown_.reason.clear();
  shown_.points_at.clear();
}

void TiersPage::refused(const viz::Command&, const std::string& why) {
  now_.reason = "refused: " + why;
  now_.points_at.clear();
  before_ = now_;
}

void TiersPage::check_invariants() const {
  manager().check_tiers();
  if (scheduler() != nullptr) scheduler()->check();
  if (!live_.running()) memory_->check(*manager_);
}

std::vector<viz::Counter> TiersPage::counters() const {
  const BlockPool& device = pool(0);
  const Shown& now = shown_;
  std::vector<viz::Counter> all{
      {"passes", now.num_passes, "passes", "Forward passes so far."},
      {"free", device.num_free(), "free", "Blocks of the device that nobody holds.",
       fmt::format("{} / {}", device.num_free(), device.num_blocks())},
      {"hit.device", now.hits[0], "found: device", "Tokens that the device still had."},
      {"hit.host", now.hits[1], "found: host", "Tokens that were loaded from host memory."},
      {"hit.file", now.hits[2], "found: file", "Tokens that came from the file."},
      {"computed", now.computed, "computed", "Tokens that passes have computed."},
      {"lost", now.lost, "lost", "Blocks of which no pool has a copy any more."},
      {"evicted", device.metrics().num_evicted},
      {"moving", std::ssize(now.moving)},
      {"rows", now.num_rows},
  };
  for (int tier = 0; tier < manager().num_tiers(); ++tier) {
    const std::string name = tier == 0 ? "host" : "file";
    const TierMetrics& metrics = manager().tier_metrics(tier);
    all.push_back({name + ".cached", manager().tier_pool(tier).num_cached()});
    all.push_back({name + ".sunk", metrics.num_sunk});
    all.push_back({name + ".risen", metrics.num_risen});
    all.push_back({name + ".damaged", metrics.num_damaged});
  }
  for (const Asked& asked : now.asked) {
    const auto passes = [&](Doing doing) { return std::ranges::count(asked.marks, doing); };
    all.push_back({asked.name + ".generated", asked.generated});
    all.push_back({asked.name + ".ended", asked.doing == Doing::kEnded});
    all.push_back({asked.name + ".cached", asked.num_cached});
    all.push_back({asked.name + ".fetched", passes(Doing::kFetches)});
    all.push_back({asked.name + ".loaded", passes(Doing::kLoads)});
    all.push_back({asked.name + ".ran", passes(Doing::kPrompt) + passes(Doing::kDecodes)});
  }
  return all;
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<TiersPage>(context);
}

}  // namespace lesson11
