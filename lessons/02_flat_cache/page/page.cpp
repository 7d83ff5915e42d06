// The page of lesson 02: slabs that are reserved in full, what they waste, and holes that do not
// add up.

#include "viz/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <utility>

#include "common/table.h"
#include "engine.h"
#include "memory.h"
#include "scene.h"
#include "viz/live.h"
#include "viz/ui.h"

namespace lesson02 {
namespace {

constexpr int kMostSlabs = 16;
constexpr int kMostSlots = 8192;

class FlatCachePage : public viz::Page {
 public:
  explicit FlatCachePage(const viz::PageContext& context);

  void reset() override;
  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override;
  viz::Scene scene(const viz::Room& room) override;
  std::vector<viz::Button> actions() const override;
  void draw(viz::Ui& ui) override;

 protected:
  void changed() override;

 private:
  enum View { kSlabs, kRange };
  void declare_slabs();
  void declare_range();
  std::string story();
  std::vector<viz::Button> slab_actions() const;
  std::vector<viz::Button> range_actions() const;
  int room(int slab) const { return cache().max_seq_len() - cache().position(slab); }
  /// The cache that is shown: the engine's, or the simulator's.
  const FlatKvCache& cache() const {
    return live_.running() ? *live_.engine<FlatCacheEngine>().cache() : slabs_->cache();
  }

  viz::Live live_;
  std::unique_ptr<SlabSimulator> slabs_;
  std::unique_ptr<Reservations> range_;
  int view_ = kSlabs;
  SlabsView shown_, before_;
};

FlatCachePage::FlatCachePage(const viz::PageContext& context)
    : Page({.lesson = "02",
            .title = "A flat cache",
            .summary = "A slab for each sequence, reserved in full before the first token comes.",
            .opening = {"append 0 1024", "append 1 512", "append 2 200", "append 3 512"},
            .tall = 560}),
      live_(context) {
  declare_slabs();
  declare_range();
  declare(live_.verbs(
      "watch the engine continue the prompt, and its first half with half of the tokens",
      [this](const std::string& prompt, int tokens) {
        live_.start(make_engine(live_.model(), {}), live_.prompt_and_half(prompt, tokens));
      },
      [this] { return story(); }));
  reset();
}

void FlatCachePage::declare_slabs() {
  const viz::Argument slab = viz::number("SLAB", 0, kMostSlabs - 1);
  declare(live_.without_run(
      {{"append",
        {slab, viz::number("TOKENS", 1, 1 << 20)},
        "slab SLAB gets TOKENS more, where it has been waiting for them",
        [this](auto& w) {
          view_ = kSlabs;
          return slabs_->append(w[0].number, w[1].number);
        },
        [this](auto& w) { return slabs_->why_not_append(w[0].number, w[1].number); }},
       {"resize",
        {viz::number("SLABS", 1, kMostSlabs).field("slabs", "4").follows([this] {
           return cache().batch();
         }),
         viz::number("SLOTS", 1, kMostSlots).field("slots each", "1024").follows([this] {
           return cache().max_seq_len();
         })},
        "another cache, empty and reserved: SLABS x SLOTS slots",
        [this](auto& w) {
          view_ = kSlabs;
          slabs_ = std::make_unique<SlabSimulator>(w[0].number, w[1].number);
          return fmt::format("{} of {}, reserved and empty.", kv::count_of(w[0].number, "slab"),
                             kv::count_of(w[1].number, "slot"));
        }}}));
}

void FlatCachePage::declare_range() {
  declare(live_.without_run(
      {{"reserve",
        {viz::word("NAME"),
         viz::number("SLOTS", 1, Reservations::kCapacity).field("slots", "1024")},
        "NAME gets SLOTS slots in one piece, the first hole that is large enough, or waits for one",
        [this](auto& w) {
          view_ = kRange;
          return range_->reserve(w[0].text, w[1].number);
        },
        [this](auto& w) { return range_->all().why_not_add(w[0].text); }},
       {"release",
        {viz::word("NAME")},
        "the slots of NAME become a hole, or a part of one",
        [this](auto& w) {
          view_ = kRange;
          return range_->release(w[0].text);
        }},
       {"show",
        {viz::choice("slabs|range")},
        "a slab for each sequence, or one range for all",
        [this](auto& w) {
          view_ = w[0].number;
          return view_ == kSlabs ? "A slab for each sequence." : "One range for all requests.";
        },
        [this](auto& w) { return view_ == w[0].number ? "you are looking at it" : ""; }}}));
}

void FlatCachePage::reset() {
  live_.stop();
  slabs_ = std::make_unique<SlabSimulator>(4, 1024);
  range_ = std::make_unique<Reservations>();
  view_ = kSlabs;
  changed();
}

void FlatCachePage::changed() {
  before_ = std::exchange(shown_, {.slots = cache().max_seq_len(), .slabs = {}});
  std::vector<int64_t> left;
  for (const kv::Request& request : live_.requests()) left.push_back(request.max_tokens);
  for (const viz::LiveRun::Token& token : live_.generated()) --left[token.request];
  for (int slab = 0; slab < cache().batch(); ++slab) {
    SlabView& view = shown_.slabs.emplace_back(SlabView{cache().position(slab), false, {}});
    if (!live_.running()) continue;
    const size_t request = slab;
    view.done = live_.finished() || left[request] == 0;
    for (const int32_t token : live_.tokens(request)) view.words.push_back(live_.word(token));
  }
}

viz::Scene FlatCachePage::scene(const viz::Room& room) {
  if (view_ == kRange && !live_.running()) return range_scene(room, *range_);
  return slabs_scene(room, shown_, before_);
}

std::string FlatCachePage::story() {
  if (live_.finished()) return "the run has ended; its slabs stay reserved for the next one";
  const viz::LiveRun::Token& token = live_.generated().back();
  const auto slab = static_cast<int>(token.request);
  return fmt::format("slab {}: {} of {} filled; draws \"{}\"", slab,
                     kv::with_commas(cache().position(slab)),
                     kv::count_of(cache().max_seq_len(), "slot"), live_.text(token.id));
}

std::vector<viz::Counter> FlatCachePage::counters() const {
  int64_t used = 0;
  for (int slab = 0; slab < cache().batch(); ++slab) used += cache().position(slab);
  const int64_t reserved = int64_t{cache().batch()} * cache().max_seq_len();
  const bool range = view_ == kRange && !live_.running();
  const auto label = [&](bool seen, const char* text) { return seen ? text : ""; };
  viz::Counter waste = viz::share("waste_permille", reserved - used, reserved, "wasted",
                                  "Empty slots as a share of those reserved.", 1);
  waste.label = label(!range, "wasted");
  return {
      {"slabs", cache().batch()},
      {"slots", cache().max_seq_len()},
      {"reserved", reserved, label(!range, "reserved"), "Slabs times slots: what was allocated."},
      {"used", used, label(!range, "hold a token"), "Slots whose K and V were computed."},
      {"wasted", reserved - used, label(!range, "empty"),
       "Slots that are reserved and hold nothing."},
      waste,
      {"requests", std::ssize(range_->all().names())},
      {"waiting", range_->num_waiting(), label(range, "waiting"), "Requests that fit nowhere."},
      {"range_free", range_->arena().total_free(), label(range, "slots free"),
       "Slots that no request has reserved."},
      {"range_hole", range_->arena().largest_hole(), label(range, "largest hole"),
       "The most that a request can get."},
      {"live", live_.running()},
      {"generated", std::ssize(live_.generated())},
  };
}

void FlatCachePage::check_invariants() const {
  const FlatKvCache& c = cache();
  const int64_t per_slot = c.bytes_reserved() / (int64_t{c.batch()} * c.max_seq_len());
  if (c.bytes_used() != *counter("used") * per_slot) {
    throw std::logic_error("the cache's bytes in use are not those of its positions");
  }
  int64_t slots = 0;
  for (const SlotRange& range : range_->arena().reserved()) slots += range.size;
  for (const SlotRange& hole : range_->arena().holes()) slots += hole.size;
  if (slots != Reservations::kCapacity) {
    throw std::logic_error("reservations and holes do not fill the range");
  }
}

std::vector<viz::Button> FlatCachePage::actions() const {
  if (live_.running()) return live_.steps();
  std::vector<viz::Button> row = view_ == kSlabs ? slab_actions() : range_actions();
  const bool all_full = std::ranges::count(row, true, &viz::Button::asked) == 0;
  row.push_back({"show/slabs", "Slabs", "show slabs", "", 'S'});
  row.push_back({"show/range", "Range", "show range", "", 'G', all_full});
  return row;
}

/// For the slab that was clicked, or the first one with room, until all are full.
std::vector<viz::Button> FlatCachePage::slab_actions() const {
  int slab = 0;
  while (slab + 1 < cache().batch() && room(slab) == 0) ++slab;
  for (int i = 0; i < cache().batch(); ++i) {
    if (selected() == fmt::format("slab {}", i)) slab = i;
  }
  const int left = room(slab);
  const std::string id = fmt::format("slab {}", slab);
  const std::string number = std::to_string(slab);
  return {viz::append(number, 1, 'A'),
          viz::append(number, 16, 'B'),
          viz::append(number, 200, 'C', left >= 200),
          {id + "/fill", "Fill " + id, fmt::format("append {} {}", slab, std::max(left, 1)), "",
           'F', left > 0 && left < 200}};
}

/// Requests come until one waits; then the one that was clicked, or the first one, goes.
std::vector<viz::Button> FlatCachePage::range_actions() const {
  const std::string next = range_->all().free_name();
  const bool waits = range_->num_waiting() > 0;
  std::vector<viz::Button> row{
      {"reserve 512", "New 512", fmt::format("reserve {} 512", next), "", 'A'},
      {"reserve 1024", "New 1,024", fmt::format("reserve {} 1024", next), "", 'B', !waits}};
  if (range_->all().empty()) return row;
  const std::string name =
      range_->all().find(selected()) ? selected() : range_->all().names().front();
  row.push_back({"release/" + name, "Release " + name, "release " + name, "", 'E', waits});
  return row;
}

void FlatCachePage::draw(viz::Ui& ui) {
  if (view_ == kSlabs) {
    form(ui, {"resize", "New cache", "resize"});
  } else {
    form(ui, {"reserve", "Reserve", "reserve " + range_->all().free_name()});
  }
  ui.heading("Watch the engine");
  form(ui, {"live/start", "Generate two at once", "live"});
}

}  // namespace

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<FlatCachePage>(context);
}

}  // namespace lesson02
