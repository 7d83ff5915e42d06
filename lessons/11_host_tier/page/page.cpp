#include "viz/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "page.h"

namespace lesson11 {
namespace {

constexpr int kOwnTokens = 10'000;  // that a conversation may have

}  // namespace

HostTierPage::HostTierPage(const viz::PageContext& context)
    : Page({.lesson = "11",
            .title = "Evicted is not lost",
            .summary = "Blocks are copied to the host's memory before they are evicted. A request "
                       "that needs them again loads them, while others run."}),
      live_(context) {
  declare_requests();
  declare_pools();
  declare_settings();
  declare_live();
  reset();
}

void HostTierPage::declare_requests() {
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
          shown_.reason =
              asked.name + " has ended: its full blocks can be found, and are offloaded in time";
          return fmt::format("{} has ended", asked.name);
        },
        [this](auto& w) {
          return shown_.asked.at(w[0].text).is_there() ? "" : "it has ended already";
        }}}));
}

void HostTierPage::declare_pools() {
  declare(live_.without_run({{"pool",
                              {viz::number("DEVICE", 2, 32), viz::number("HOST", 1, 64)},
                              "start anew with blocks on the device and in the host's memory",
                              [this](auto& w) {
                                PageSettings settings = settings_;
                                settings.device = w[0].number;
                                settings.host = w[1].number;
                                return clear(settings);
                              }}}));
}

/// But for the first one and the rates, each of these begins anew.
void HostTierPage::declare_settings() {
  declare(live_.without_run(
      {{"copies",
        {viz::number("BLOCKS", 1, 64)},
        "from now on BLOCKS are copied beside a pass",
        [this](auto& w) {
          settings_.copies = w[0].number;
          return fmt::format("{} a pass", kv::count_of(w[0].number, "block"));
        }},
       {"rates",
        {viz::number("TOKEN", 0, 100'000), viz::number("BLOCK", 0, 100'000)},
        "microseconds from now on: to compute a token, and to load a block",
        [this](auto& w) {
          settings_.token = w[0].number;
          settings_.block = w[1].number;
          return fmt::format("{} us to compute a token, {} us to load a block", w[0].number,
                             w[1].number);
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
        "start anew: a block is offloaded if HITS requests have found it",
        [this](auto& w) {
          PageSettings settings = settings_;
          settings.min_hits = w[0].number;
          return clear(settings);
        }},
       {"ahead",
        {viz::number("BLOCKS", 0, 64)},
        "start anew: the BLOCKS that are overwritten next have copies in the host",
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

void HostTierPage::declare_live() {
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

void HostTierPage::reset() {
  live_.stop();
  clear({});
  changed();
}

std::string HostTierPage::clear(const PageSettings& settings) {
  settings_ = settings;
  make_pools();
  names_.clear();
  coming_.clear();
  next_id_ = 0;
  shown_ = {};
  look();
  const char* const policies[] = {"what is quicker is loaded", "all is loaded",
                                  "nothing is loaded"};
  return fmt::format("{} on the device, {} in the host; {}", kv::count_of(settings.device, "block"),
                     settings.host, policies[static_cast<int>(settings.policy)]);
}

void HostTierPage::make_pools() {
  scheduler_.reset();
  manager_.reset();  // before what it borrows
  memory_ = std::make_unique<PageMemory>(settings_.device, settings_.host);
  pool_ = std::make_unique<BlockPool>(settings_.device, kBlockSize);
  host_pool_ = std::make_unique<BlockPool>(settings_.host, kBlockSize);
  manager_ = std::make_unique<HostTierManager>(*pool_, *host_pool_, memory_->copies());
  scheduler_ = std::make_unique<Scheduler>(*manager_, settings_.scheduler());
  last_ = {};
}

std::string HostTierPage::why_not_submit(const viz::Words& words) const {
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

std::string HostTierPage::submit(const viz::Words& words) {
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

void HostTierPage::changed() {
  before_ = std::exchange(now_, shown_);
  shown_.has_passed = false;
  shown_.reason.clear();
  shown_.points_at.clear();
}

void HostTierPage::refused(const viz::Command&, const std::string& why) {
  now_.reason = "refused: " + why;
  now_.points_at.clear();
  before_ = now_;
}

void HostTierPage::check_invariants() const {
  manager().check();
  if (scheduler() != nullptr) scheduler()->check();
  if (!live_.running()) memory_->check(*manager_);
}

std::vector<viz::Counter> HostTierPage::counters() const {
  const BlockPool& device = pool(0);
  const Shown& now = shown_;
  std::vector<viz::Counter> all{
      {"passes", now.num_passes, "passes", "Forward passes so far."},
      {"free", device.num_free(), "free", "Blocks of the device that nobody holds.",
       fmt::format("{} / {}", device.num_free(), device.num_blocks())},
      {"hit.device", now.hits[0], "found: device", "Tokens that the device still had."},
      {"hit.host", now.hits[1], "found: host", "Tokens that were loaded from the host."},
      {"computed", now.computed, "computed", "Tokens that passes have computed."},
      {"lost", now.lost, "lost", "Blocks of which no pool has a copy any more."},
      {"evicted", device.metrics().num_evicted},
      {"moving", std::ssize(now.moving)},
      {"rows", now.num_rows},
  };
  all.push_back({"host.cached", manager().host().num_cached()});
  all.push_back({"host.offloaded", manager().metrics().num_offloaded});
  all.push_back({"host.loaded", manager().metrics().num_loaded});
  for (const Asked& asked : now.asked) {
    const auto passes = [&](Doing doing) { return std::ranges::count(asked.marks, doing); };
    all.push_back({asked.name + ".generated", asked.generated});
    all.push_back({asked.name + ".ended", asked.doing == Doing::kEnded});
    all.push_back({asked.name + ".cached", asked.num_cached});
    all.push_back({asked.name + ".loaded", passes(Doing::kLoads)});
    all.push_back({asked.name + ".ran", passes(Doing::kPrompt) + passes(Doing::kDecodes)});
  }
  return all;
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<HostTierPage>(context);
}

}  // namespace lesson11
