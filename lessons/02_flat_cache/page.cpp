// The page of lesson 02: slabs that are reserved in full, what they waste, and holes that do not
// add up.

#include "viz/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "common/base/error.h"
#include "engine.h"
#include "page_memory.h"
#include "viz/live.h"
#include "viz/live_controls.h"
#include "viz/ui.h"
#include "viz/widgets.h"

namespace lesson02 {
namespace {

constexpr int kSlabs = 4;
constexpr int kSlots = 1024;

class FlatCachePage : public viz::Page {
 public:
  explicit FlatCachePage(const viz::PageContext& context) : model_(context) { reset(); }

  viz::PageInfo info() const override;
  void reset() override;
  std::string apply(const viz::Command& command) override;
  std::optional<int64_t> counter(std::string_view name) const override;
  std::vector<std::string> counter_names() const override {
    return {"slabs",    "slots",      "reserved",   "used", "wasted",   "waste_permille",
            "requests", "range_free", "range_hole", "live", "generated"};
  }
  std::string next_step() const override { return live_ && !live_->finished() ? "step" : ""; }
  void check_invariants() const override;
  void draw(viz::Ui& ui) override;

 private:
  std::string simulate(const viz::Command& command);
  std::string start(const viz::Command& command);
  std::string story();
  void draw_slabs(viz::Ui& ui);
  void draw_range(viz::Ui& ui);
  void draw_live(viz::Ui& ui);
  /// The cache that is shown: the engine's, or the simulator's.
  const FlatKvCache& cache() const { return live_ ? *engine_->cache() : slabs_->cache(); }

  viz::LiveModel model_;
  std::unique_ptr<SlabSimulator> slabs_;
  std::unique_ptr<Reservations> range_;
  std::unique_ptr<FlatCacheEngine> engine_;
  std::unique_ptr<viz::LiveRequests> live_;  // borrows the engine
  // What the fields hold.
  int new_slabs_ = kSlabs, new_slots_ = kSlots, reserve_ = 896;
  viz::LiveFields live_fields_;
};

viz::PageInfo FlatCachePage::info() const {
  return {
      .lesson = "02",
      .title = "A flat cache",
      .summary = "A slab for each sequence, reserved in full before the first token comes.",
      .commands = {"append SLAB N            N more tokens in a slab",
                   "clear SLAB               its sequence has ended",
                   "resize SLABS SLOTS       another cache: SLABS slabs of SLOTS slots",
                   "reserve NAME N           N slots in one piece, in the range below",
                   "release NAME             give them back",
                   "live \"PROMPT\" [TOKENS]   watch the engine: the prompt, and its first half",
                   "step [N]                 N more tokens of the live run",
                   "stop                     back from the live run"}};
}

void FlatCachePage::reset() {
  live_.reset();
  engine_.reset();
  slabs_ = std::make_unique<SlabSimulator>(kSlabs, kSlots);
  range_ = std::make_unique<Reservations>();
}

std::string FlatCachePage::apply(const viz::Command& command) {
  if (command.verb == "live") return start(command);
  if (command.verb == "step") {
    viz::run_steps(live_.get(), command);
    return story();
  }
  if (command.verb == "stop") {
    command.check_count(0, 0);
    if (!live_) kv::user_error("stop: there is no live run");
    live_.reset();
    engine_.reset();
    return "the live run is over; the slabs are as they were";
  }
  return simulate(command);
}

std::string FlatCachePage::simulate(const viz::Command& command) {
  const std::string& verb = command.verb;
  if (verb != "append" && verb != "clear" && verb != "resize" && verb != "reserve" &&
      verb != "release") {
    kv::user_error(
        "{}: no such command; there are append, clear, resize, reserve, release, live, step, stop",
        verb);
  }
  if (live_) kv::user_error("{}: the engine is running; `stop` leads back", verb);
  const bool two = verb == "append" || verb == "resize" || verb == "reserve";
  command.check_count(two ? 2 : 1, two ? 2 : 1);
  if (verb == "reserve") {
    const auto size = command.number(1, "a number of slots", 1, Reservations::kCapacity);
    return range_->reserve(command.word(0, "a name"), size);
  }
  if (verb == "release") return range_->release(command.word(0, "a name"));
  if (verb == "resize") {
    const auto slabs = command.number(0, "a number of slabs", 1, SlabSimulator::kMaxSlabs);
    const auto slots = command.number(1, "slots of a slab", 1, SlabSimulator::kMaxSlots);
    slabs_ = std::make_unique<SlabSimulator>(static_cast<int>(slabs), static_cast<int>(slots));
    return fmt::format("{} slabs of {} slots, reserved and empty", slabs, slots);
  }
  const auto slab = static_cast<int>(command.number(0, "a slab", 0, slabs_->cache().batch() - 1));
  if (verb == "clear") return slabs_->clear(slab);
  return slabs_->append(slab,
                        static_cast<int>(command.number(1, "a number of tokens", 1, 1 << 20)));
}

std::string FlatCachePage::start(const viz::Command& command) {
  command.check_count(1, 2);
  if (live_) kv::user_error("live: the engine is running already; `stop` ends it");
  const auto tokens = static_cast<int>(
      command.args.size() < 2 ? 40 : command.number(1, "a number of tokens", 1, 400));
  const std::string& prompt = command.word(0, "a prompt");
  // Two requests of unequal length share the batch: the prompt, and its first half.
  std::vector<kv::Request> requests{model_.request(prompt, tokens)};
  requests.push_back(requests[0]);
  requests[1].prompt.resize((requests[0].prompt.size() + 1) / 2);
  requests[1].max_tokens = (tokens + 1) / 2;
  auto engine =
      std::make_unique<FlatCacheEngine>(model_.model(), kv::EngineOptions{.max_seq_len = 0});
  live_ = std::make_unique<viz::LiveRequests>(*engine, std::move(requests));
  engine_ = std::move(engine);
  return story();
}

std::string FlatCachePage::story() {
  if (live_->finished()) return "the run has ended; its slabs stay reserved for the next one";
  const viz::LiveRun::Token& token = live_->generated().back();
  const auto slab = static_cast<int>(token.request);
  return fmt::format("slab {}: {} of {} slots hold a token; draws \"{}\"", slab,
                     cache().position(slab), cache().max_seq_len(),
                     viz::token_text(model_.tokenizer(), token.id));
}

std::optional<int64_t> FlatCachePage::counter(std::string_view name) const {
  int64_t used = 0;
  for (int slab = 0; slab < cache().batch(); ++slab) used += cache().position(slab);
  const int64_t reserved = int64_t{cache().batch()} * cache().max_seq_len();
  if (name == "slabs") return cache().batch();
  if (name == "slots") return cache().max_seq_len();
  if (name == "reserved") return reserved;
  if (name == "used") return used;
  if (name == "wasted") return reserved - used;
  if (name == "waste_permille") return (1000 * (reserved - used) + reserved / 2) / reserved;
  if (name == "requests") return static_cast<int64_t>(range_->named().size());
  if (name == "range_free") return range_->arena().total_free();
  if (name == "range_hole") return range_->arena().largest_hole();
  if (name == "live") return live_ ? 1 : 0;
  if (name == "generated") return live_ ? static_cast<int64_t>(live_->generated().size()) : 0;
  return std::nullopt;
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
  const auto count = [&](const char* name) { return fmt::format("{}", *counter(name)); };
  viz::counters(
      ui, "counters",
      {{"slots reserved", count("reserved"), "Slabs times slots: what was allocated."},
       {"hold a token", count("used"), "Slots whose K and V somebody computed."},
       {"empty", count("wasted"), "Slots that are reserved and hold nothing."},
       {"wasted", fmt::format("{:.1f} %", static_cast<double>(*counter("waste_permille")) / 10),
        "Empty slots as a share of those reserved."}});
  if (live_) return draw_live(ui);
  draw_slabs(ui);
  draw_range(ui);
  ui.heading("Watch the engine");
  viz::draw_live_start(ui, live_fields_, "Generate two at once",
                       "Two requests: this prompt, and its first half with half of the tokens.");
}

void FlatCachePage::draw_slabs(viz::Ui& ui) {
  ui.heading(fmt::format("{} slabs of {} slots", cache().batch(), cache().max_seq_len()));
  for (int slab = 0; slab < cache().batch(); ++slab) {
    const std::string id = fmt::format("slab {}", slab);
    viz::slabs(ui, id,
               {{.sequence = {id, slab},
                 .used = cache().position(slab),
                 .reserved = cache().max_seq_len()}});
    for (const int n : {1, 16, 200, 512}) {
      ui.button(fmt::format("{}/append {}", id, n), fmt::format("+{}", n),
                fmt::format("append {} {}", slab, n),
                fmt::format("{} more tokens. They go where the slab has been waiting.", n),
                slabs_->why_not_append(slab, n));
      ui.same_line();
    }
    const int room = cache().max_seq_len() - cache().position(slab);
    ui.button(id + "/fill", "fill", fmt::format("append {} {}", slab, std::max(room, 1)),
              "Tokens up to its last slot.", room == 0 ? "it is full" : "");
    ui.same_line();
    ui.button(id + "/clear", "clear", fmt::format("clear {}", slab),
              "The sequence ends. Its slots stay reserved.",
              cache().position(slab) == 0 ? "it is empty" : "");
  }
  ui.number("slabs", "slabs", &new_slabs_, 1, SlabSimulator::kMaxSlabs, "Of the next cache.");
  ui.same_line();
  ui.number("slots", "slots each", &new_slots_, 1, SlabSimulator::kMaxSlots,
            "Of each slab of the next cache: the longest sequence it can hold.");
  ui.same_line();
  ui.button("resize", "New cache", fmt::format("resize {} {}", new_slabs_, new_slots_),
            "Drop all sequences and reserve again.");
}

void FlatCachePage::draw_range(viz::Ui& ui) {
  ui.heading("Or: one range, and each request reserves just what it will need, first fit");
  viz::StripView view{.capacity = Reservations::kCapacity, .ranges = {}};
  for (const auto& [name, named] : range_->named()) {
    view.ranges.push_back({{name, named.hue}, named.range.begin, named.range.size});
  }
  std::sort(view.ranges.begin(), view.ranges.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  viz::strip(ui, "range", view);
  const ReservationArena& arena = range_->arena();
  ui.label(fmt::format("{} slots free, the largest hole has {}", arena.total_free(),
                       arena.largest_hole()));
  const std::string name = range_->free_name();
  ui.number("reserve/slots", "slots", &reserve_, 1, static_cast<int>(Reservations::kCapacity),
            "What the next request reserves.");
  ui.same_line();
  ui.button("reserve", "Reserve", fmt::format("reserve {} {}", name.empty() ? "?" : name, reserve_),
            "Takes the first hole that is large enough.",
            name.empty() ? "there are no names left" : range_->why_not_reserve(reserve_));
  for (const auto& [owner, named] : range_->named()) {
    ui.same_line();
    ui.button("release/" + owner, "release " + owner, "release " + owner,
              "Its slots become a hole, or a part of one.");
  }
}

void FlatCachePage::draw_live(viz::Ui& ui) {
  viz::draw_live_steps(ui, live_->finished());
  ui.heading(fmt::format("The engine's cache: {} slabs of {} slots", cache().batch(),
                         cache().max_seq_len()));
  std::vector<int64_t> drawn(live_->size());
  for (const viz::LiveRun::Token& token : live_->generated()) ++drawn[token.request];
  for (size_t i = 0; i < live_->size(); ++i) {
    const auto slab = static_cast<int>(i);
    const bool active = !live_->finished() && drawn[i] < live_->requests()[i].max_tokens;
    const std::string id = fmt::format("slab {}", i);
    viz::slabs(ui, id,
               {{.sequence = {active ? id : id + ", done", slab},
                 .used = cache().position(slab),
                 .reserved = cache().max_seq_len(),
                 .active = active}});
    std::vector<viz::TokenView> chips;
    const std::vector<int32_t> tokens = live_->tokens(i);
    for (size_t t = 0; t < tokens.size(); ++t) {
      const bool computed = static_cast<int>(t) < cache().position(slab);
      chips.push_back({.text = viz::token_text(model_.tokenizer(), tokens[t]),
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
