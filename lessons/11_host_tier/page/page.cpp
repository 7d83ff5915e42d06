#include "page.h"

#include <fmt/format.h>

#include <algorithm>

#include "viz/ui.h"

namespace lesson11 {

HostTierPage::HostTierPage(const viz::PageContext& context)
    : PoolPage({.lesson = "11",
                .title = "Evicted is not lost",
                .summary = "Blocks are copied to the host's memory before they are evicted. A "
                           "request that needs them again loads them, while others run.",
                .opening = {"submit A 16 4", "submit B 12 24", "pass 8", "submit C 20 2", "pass 4",
                            "submit A 20 4"}},
               context) {
  declare_own(requests());
  declare_own(settings());
  declare_steps({"pass",
                 {viz::number("COUNT", 1, 1000).or_else("1")},
                 "passes that run now, with copies beside them: COUNT",
                 [this](auto& w) { return passes(w[0].number); },
                 [this](auto&) { return has_work() ? "" : "there is nothing to do"; }});
  reset();
}

/// Commands that are refused while the engine runs.
std::vector<viz::Verb> HostTierPage::requests() {
  return {
      {"submit",
       {viz::word("NAME"), viz::number("PROMPT", 1, 256).field("prompt tokens", "16"),
        viz::number("MAX", 1, 256).field("to generate", "4")},
       "a request of NAME's comes: the first PROMPT tokens of its text, MAX to generate",
       [this](auto& w) { return submit(w[0].text, w[1].number, w[2].number); },
       [this](auto& w) { return why_not_submit(w[0].text, w[1].number, w[2].number); }},
      {"live",
       {viz::text("PROMPT").field("text", "had a red ball and a little dog"),
        viz::number("TOKENS", 1, 100).or_else("8")},
       "the engine serves 4 conversations that go on with PROMPT, and then all of them again; a "
       "pass at a time",
       [this](auto& w) { return live(w[0].text, w[1].number); }}};
}

/// Commands that change a setting. All but the first two start over.
std::vector<viz::Verb> HostTierPage::settings() {
  return {
      setting(
          "copies", {viz::number("BLOCKS", 1, 64)}, "from now on BLOCKS are copied beside a pass",
          [](auto& w) { return kv::count_of(w[0].number, "block") + " a pass"; },
          &PageSettings::copies),
      setting(
          "rates", {viz::number("TOKEN", 0, 100'000), viz::number("BLOCK", 0, 100'000)},
          "microseconds from now on: to compute a token, and to load a block",
          [](auto& w) { return fmt::format("{} us a token, {} us a block", w[0].text, w[1].text); },
          &PageSettings::token, &PageSettings::block),
      fresh("pool", {viz::number("DEVICE", 2, 32), viz::number("HOST", 1, 64)},
            "start over with blocks on the device and in the host's memory", &PageSettings::device,
            &PageSettings::host),
      fresh("policy", {viz::choice("quicker|always|never")},
            "start over, and load what is quicker to load than to compute, or all, or none",
            &PageSettings::policy),
      fresh("ahead", {viz::number("BLOCKS", 0, 64)},
            "start over: the BLOCKS that are overwritten next have copies in the host",
            &PageSettings::ahead)};
}

std::string HostTierPage::begin() {
  scheduler_.reset();
  manager_.reset();  // before what it borrows
  memory_ = std::make_unique<PageMemory>(settings_.device, settings_.host);
  pool_ = std::make_unique<DevicePool>(settings_.device, kBlockSize);
  host_pool_ = std::make_unique<BlockPool>(settings_.host, kBlockSize);
  manager_ = std::make_unique<HostTierManager>(*pool_, *host_pool_, memory_->copies);
  scheduler_ = std::make_unique<Scheduler>(*manager_, settings_.scheduler());
  last_ = {};
  names_.clear();
  loads_.clear();
  next_id_ = 0;
  shown_ = {};
  refresh();
  return fmt::format("{} blocks on the device, {} in the host", settings_.device, settings_.host);
}

std::string HostTierPage::why_not_submit(const std::string& name, int num_prompt,
                                         int max_tokens) const {
  const std::string why =
      viz::too_large(num_prompt, max_tokens, kBlockSize, settings_.device, "the device");
  return why.empty() ? viz::why_not_come(shown_.asked, name) : why;
}

std::string HostTierPage::submit(const std::string& name, int num_prompt, int max_tokens) {
  if (shown_.asked.find(name) == nullptr) shown_.asked.add(name, {});
  Asked& asked = shown_.asked.at(name);
  asked.begin(next_id_++, num_prompt, max_tokens);
  asked.doing = viz::State::kFree;
  scheduler_->submit(asked.id, asked.prompt(), max_tokens);
  asked.found = found_now(asked.prompt());
  refresh();
  const auto num_found = std::ssize(asked.found), on_device = std::ranges::count(asked.found, 0);
  return tell(num_found == 0
                  ? name + " finds nothing: all of its prompt is computed"
                  : fmt::format("{} finds {}: {} on the device, {} in the host's memory", name,
                                kv::count_of(num_found, "block"), on_device, num_found - on_device),
              "request " + name);
}

void HostTierPage::check_invariants() const {
  manager().check();
  if (scheduler() != nullptr) scheduler()->check();
  if (!live_.running()) memory_->check(*manager_);
}

std::vector<viz::Counter> HostTierPage::counters() const {
  const TierMetrics& metrics = manager().metrics();
  std::vector<viz::Counter> all{
      {"passes", shown_.num_passes, "passes", "Forward passes so far."},
      viz::free_counter(manager().pool()),
      {"hit.device", metrics.num_hits_on_device * kBlockSize, "found: device",
       "Tokens that the device still had."},
      {"hit.host", metrics.num_hits_in_host * kBlockSize, "found: host",
       "Tokens that were loaded from the host."},
      {"computed", shown_.computed, "computed", "Tokens that passes have computed."},
      {"lost", shown_.lost, "lost", "Blocks of which no pool has a copy any more."},
      {"evicted", manager().pool().metrics().num_evicted},
      {"moving", std::ssize(shown_.copies)},
      {"host.cached", manager().host().num_cached()},
      {"host.offloaded", metrics.num_offloaded},
  };
  for (const Asked& asked : shown_.asked) {
    const auto passes = [&](std::optional<viz::State> doing) {
      return std::ranges::count(asked.marks, doing);
    };
    all.push_back({asked.name + ".generated", asked.generated});
    all.push_back({asked.name + ".ended", asked.ended});
    all.push_back({asked.name + ".cached", asked.num_cached});
    all.push_back({asked.name + ".loaded", passes(viz::State::kReserved)});
    all.push_back({asked.name + ".ran", passes(viz::State::kPrompt) + passes(viz::State::kDecode)});
  }
  return all;
}

/// The conversation whose last request came before those of all others that have none now; null if
/// all have one.
const Asked* HostTierPage::longest_away() const {
  const Asked* longest = nullptr;
  for (const Asked& one : shown_.asked) {
    if (one.is_there()) continue;
    if (longest == nullptr || one.id < longest->id) longest = &one;
  }
  return longest;
}

/// When nothing runs, long requests come until the host has blocks that the device has not: then
/// whose blocks they are comes again.
std::vector<viz::Button> HostTierPage::actions() const {
  if (live_.running()) return live_.steps("pass", "Pass", "10 passes");
  const std::string next = shown_.asked.free_name();
  const bool works = has_work(), full = !shown_.asked.why_not_add(next).empty();
  const Asked* const away = longest_away();
  const bool in_host = away != nullptr && std::ranges::count(found_now(away->prompt()), 1) > 0;
  const bool comes_again = !works && (in_host || full);
  std::vector<viz::Button> row{
      {"pass", "Pass", "pass", "", 'P', works},
      {"pass 10", "x10", "pass 10", "", 'X'},
      {"submit short", "Submit", fmt::format("submit {} 16 4", next), "", 'S'},
      {"submit long", "Submit long", fmt::format("submit {} 40 4", next), "", 'L',
       !works && !comes_again}};
  if (away != nullptr) {
    row.push_back({"again", away->name + " again",
                   fmt::format("submit {} {} 4", away->name, away->num_prompt), "", 'A',
                   comes_again});
  }
  return row;
}

void HostTierPage::draw(viz::Ui& ui) {
  std::string next = selected();  // the conversation whose request comes
  const Asked* asked = shown_.asked.find(next);
  if (asked == nullptr || asked->is_there()) {
    const auto idle = std::ranges::find(shown_.asked, false, &Asked::is_there);
    const bool is_full = !shown_.asked.why_not_add(shown_.asked.free_name()).empty();
    next = is_full && idle != shown_.asked.end() ? idle->name : shown_.asked.free_name();
  }
  form(ui, {"submit", "Submit " + next, "submit " + next});
  choice(ui, "Link: blocks a pass", viz::one_of("copies", {1, 2, 6}));
  choice(ui, "Load",
         {{"policy quicker", "if quicker", "policy quicker"},
          {"policy always", "always", "policy always"},
          {"policy never", "never", "policy never"}});
  choice(ui, "Blocks: device, host",
         {{"pool 12", "12, 16", "pool 12 16"}, {"pool 24", "24, 48", "pool 24 48"}});
  form(ui, {"live", "Live run", "live"});
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<HostTierPage>(context);
}

}  // namespace lesson11
