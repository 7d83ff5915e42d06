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
  void draw(viz::Ui& ui) override;

 protected:
  void changed() override;

 private:
  enum View { kSlabs, kRange };
  void declare_slabs();
  void declare_range();
  std::string story();
  void draw_slabs(viz::Ui& ui);
  void draw_range(viz::Ui& ui);
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
            .opening = {"append 0 1024", "append 1 512", "append 2 200", "append 3 512"}}),
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
          return fmt::format("{} of {}, reserved and empty", kv::count_of(w[0].number, "slab"),
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
          return view_ == kSlabs ? "a slab for each sequence" : "one range for all requests";
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
      {"reserved", reserved, label(!range, "slots reserved"),
       "Slabs times slots: what was allocated."},
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

void FlatCachePage::draw(viz::Ui& ui) {
  if (live_.running()) {
    buttons(ui, viz::Live::steps());
    ui.hint("A request that is done keeps its slab until the last one is: no other may use it.");
    return;
  }
  buttons(ui, {{"show/slabs", "Slabs", "show slabs"}, {"show/range", "One range", "show range"}});
  view_ == kSlabs ? draw_slabs(ui) : draw_range(ui);
  ui.heading("Watch the engine");
  form(ui, {"live/start", "Generate two at once", "live"});
}

/// Buttons for the slab that was clicked, or the first one.
void FlatCachePage::draw_slabs(viz::Ui& ui) {
  int slab = 0;
  for (int i = 0; i < cache().batch(); ++i) {
    if (selected() == fmt::format("slab {}", i)) slab = i;
  }
  const std::string id = fmt::format("slab {}", slab);
  ui.heading(id);
  std::vector<viz::Button> row;
  for (const int n : {1, 16, 200, 512}) {
    row.push_back({fmt::format("{}/append {}", id, n), fmt::format("+{}", n),
                   fmt::format("append {} {}", slab, n)});
  }
  const int room = cache().max_seq_len() - cache().position(slab);
  row.push_back({id + "/fill", "fill", fmt::format("append {} {}", slab, std::max(room, 1))});
  buttons(ui, row);
  form(ui, {"resize", "New cache", "resize"});
}

/// Besides, a button for the request that was clicked, or the first one.
void FlatCachePage::draw_range(viz::Ui& ui) {
  form(ui, {"reserve", "Reserve", "reserve " + range_->all().free_name()});
  if (range_->all().empty()) return;
  const std::string name =
      range_->all().find(selected()) ? selected() : range_->all().names().front();
  buttons(ui, {{"release/" + name, "release " + name, "release " + name}});
}

}  // namespace

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<FlatCachePage>(context);
}

}  // namespace lesson02
