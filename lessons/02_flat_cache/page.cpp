// The page of lesson 02: slabs that are reserved in full, what they waste, and holes that do not
// add up.

#include "viz/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <stdexcept>

#include "engine.h"
#include "page_memory.h"
#include "viz/live.h"
#include "viz/ui.h"
#include "viz/widgets.h"

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
  void draw(viz::Ui& ui) override;

 private:
  std::string story();
  void draw_slabs(viz::Ui& ui);
  void draw_range(viz::Ui& ui);
  void draw_live(viz::Ui& ui);
  /// The cache that is shown: the engine's, or the simulator's.
  const FlatKvCache& cache() const {
    return live_.running() ? *live_.engine<FlatCacheEngine>().cache() : slabs_->cache();
  }

  viz::Live live_;
  std::unique_ptr<SlabSimulator> slabs_;
  std::unique_ptr<Reservations> range_;
};

FlatCachePage::FlatCachePage(const viz::PageContext& context)
    : Page({.lesson = "02",
            .title = "A flat cache",
            .summary = "A slab for each sequence, reserved in full before the first token comes."}),
      live_(context) {
  const viz::Argument slab = viz::number("SLAB", 0, kMostSlabs - 1);
  declare(live_.without_run(
      {{"append",
        {slab, viz::number("TOKENS", 1, 1 << 20)},
        "slab SLAB gets TOKENS more, where it has been waiting for them",
        [this](auto& w) { return slabs_->append(w[0].number, w[1].number); },
        [this](auto& w) { return slabs_->why_not_append(w[0].number, w[1].number); }},
       {"clear",
        {slab},
        "the sequence in slab SLAB ends; its slots stay reserved",
        [this](auto& w) { return slabs_->clear(w[0].number); },
        [this](auto& w) { return slabs_->why_not_clear(w[0].number); }},
       {"resize",
        {viz::number("SLABS", 1, kMostSlabs).field("slabs", "4"),
         viz::number("SLOTS", 1, kMostSlots).field("slots each", "1024")},
        "another cache, empty and reserved: SLABS x SLOTS slots",
        [this](auto& w) {
          slabs_ = std::make_unique<SlabSimulator>(w[0].number, w[1].number);
          return fmt::format("{} of {}, reserved and empty", kv::count_of(w[0].number, "slab"),
                             kv::count_of(w[1].number, "slot"));
        }},
       {"reserve",
        {viz::word("NAME"), viz::number("SLOTS", 1, Reservations::kCapacity).field("slots", "896")},
        "NAME gets SLOTS slots in one piece: the first hole that is large enough",
        [this](auto& w) { return range_->reserve(w[0].text, w[1].number); },
        [this](auto& w) { return range_->why_not_reserve(w[0].text, w[1].number); }},
       {"release",
        {viz::word("NAME")},
        "the slots of NAME become a hole, or a part of one",
        [this](auto& w) { return range_->release(w[0].text); }}}));
  declare(live_.verbs(
      "watch the engine continue the prompt, and its first half with half of the tokens",
      [this](const std::string& prompt, int tokens) {
        live_.start(make_engine(live_.model(), {}), live_.prompt_and_half(prompt, tokens));
      },
      [this] { return story(); }));
  reset();
}

void FlatCachePage::reset() {
  live_.stop();
  slabs_ = std::make_unique<SlabSimulator>(4, 1024);
  range_ = std::make_unique<Reservations>();
}

std::string FlatCachePage::story() {
  if (live_.finished()) return "the run has ended; its slabs stay reserved for the next one";
  const viz::LiveRun::Token& token = live_.generated().back();
  const auto slab = static_cast<int>(token.request);
  return fmt::format("slab {}: {} of {} filled; draws \"{}\"", slab, cache().position(slab),
                     kv::count_of(cache().max_seq_len(), "slot"), live_.text(token.id));
}

std::vector<viz::Counter> FlatCachePage::counters() const {
  int64_t used = 0;
  for (int slab = 0; slab < cache().batch(); ++slab) used += cache().position(slab);
  const int64_t reserved = int64_t{cache().batch()} * cache().max_seq_len();
  return {
      {"slabs", cache().batch()},
      {"slots", cache().max_seq_len()},
      {"reserved", reserved, "slots reserved", "Slabs times slots: what was allocated."},
      {"used", used, "hold a token", "Slots whose K and V somebody computed."},
      {"wasted", reserved - used, "empty", "Slots that are reserved and hold nothing."},
      viz::share("waste_permille", reserved - used, reserved, "wasted",
                 "Empty slots as a share of those reserved.", 1),
      {"requests", std::ssize(range_->all().names())},
      {"range_free", range_->arena().total_free()},
      {"range_hole", range_->arena().largest_hole()},
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
  if (live_.running()) return draw_live(ui);
  draw_slabs(ui);
  draw_range(ui);
  ui.heading("Watch the engine");
  form(ui, {"live/start", "Generate two at once", "live"});
}

void FlatCachePage::draw_slabs(viz::Ui& ui) {
  const int slots = cache().max_seq_len();
  ui.heading(
      fmt::format("{} of {}", kv::count_of(cache().batch(), "slab"), kv::count_of(slots, "slot")));
  for (int slab = 0; slab < cache().batch(); ++slab) {
    const std::string id = fmt::format("slab {}", slab);
    const int used = cache().position(slab);
    viz::slabs(ui, id, {{.sequence = {id, slab}, .used = used, .reserved = slots}});
    std::vector<viz::Button> row;
    for (const int n : {1, 16, 200, 512}) {
      row.push_back({fmt::format("{}/append {}", id, n), fmt::format("+{}", n),
                     fmt::format("append {} {}", slab, n)});
    }
    row.push_back(
        {id + "/fill", "fill", fmt::format("append {} {}", slab, std::max(slots - used, 1))});
    row.push_back({id + "/clear", "clear", fmt::format("clear {}", slab)});
    buttons(ui, row);
  }
  form(ui, {"resize", "New cache", "resize"});
}

void FlatCachePage::draw_range(viz::Ui& ui) {
  ui.heading("Or: one range, and each request reserves just what it will need, first fit");
  viz::StripView view{.capacity = Reservations::kCapacity, .ranges = {}};
  std::vector<viz::Button> releases;
  for (const Reservations::Reservation& one : range_->all()) {
    view.ranges.push_back({one, one.range.begin, one.range.size});
    releases.push_back({"release/" + one.name, "release " + one.name, "release " + one.name});
  }
  std::ranges::sort(view.ranges, {}, &viz::StripView::Range::begin);
  viz::strip(ui, "range", view);
  const ReservationArena& arena = range_->arena();
  ui.label(fmt::format("{} free, the largest hole has {}", kv::count_of(arena.total_free(), "slot"),
                       arena.largest_hole()));
  form(ui, {"reserve", "Reserve", "reserve " + range_->all().free_name()});
  ui.same_line();
  buttons(ui, releases);
}

void FlatCachePage::draw_live(viz::Ui& ui) {
  viz::Live::draw_steps(ui, *this);
  ui.heading(fmt::format("The engine's cache: {} of {}", kv::count_of(cache().batch(), "slab"),
                         kv::count_of(cache().max_seq_len(), "slot")));
  std::vector<int64_t> drawn(live_.requests().size());
  for (const viz::LiveRun::Token& token : live_.generated()) ++drawn[token.request];
  for (size_t i = 0; i < drawn.size(); ++i) {
    const auto slab = static_cast<int>(i);
    const bool active = !live_.finished() && drawn[i] < live_.requests()[i].max_tokens;
    const std::string id = fmt::format("slab {}", i);
    viz::slabs(ui, id,
               {{.sequence = {active ? id : id + ", done", slab},
                 .used = cache().position(slab),
                 .reserved = cache().max_seq_len(),
                 .active = active}});
    std::vector<viz::TokenView> chips;
    for (const int32_t token : live_.tokens(i)) {
      const auto t = static_cast<int>(chips.size());
      const bool computed = t < cache().position(slab);
      chips.push_back({.text = live_.text(token),
                       .hue = slab,
                       .strength = computed ? 0.9f : 0.0f,
                       .tooltip = computed ? fmt::format("token {}: slot {} of the slab", t, t)
                                           : fmt::format("token {}: drawn, not run yet", t)});
    }
    viz::token_row(ui, id + "/tokens", chips);
  }
  ui.hint("A request that is done keeps its slab until the last one is: nobody else may use it.");
}

}  // namespace

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<FlatCachePage>(context);
}

}  // namespace lesson02
