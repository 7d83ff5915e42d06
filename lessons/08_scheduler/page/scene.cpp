#include "lessons/07_lru_eviction/page/pool.h"
#include "picture.h"
#include "viz/drawing/text_room.h"
#include "viz/ui.h"

namespace lesson08 {
namespace {

std::string free_words(int count) {
  return count == 0 ? "none is free" : fmt::format("{} {} free", count, count == 1 ? "is" : "are");
}

}  // namespace

Areas::Areas(const viz::Room& room) {
  constexpr float kGap = 12;
  if (viz::is_narrow(room)) {  // from top to bottom
    float y = 0;
    const auto below = [&](float tall) {
      const Place at{0, y, room.w, tall};
      y = at.bottom() + 8;
      return at;
    };
    waiting = running = below(190);
    waiting.w = running.w = (room.w - 2 * kGap) / 2;
    running.x = waiting.right() + 2 * kGap;
    reason = below(54);
    pool = below(room.h - y - 282);
    pass = below(42);
    times = below(100);
    ended = below(64);
    legend = below(44);
    return;
  }
  const float tall = 0.37f * room.h, wide = 0.41f * room.w;
  waiting = {0, 0, wide, tall};
  running = {wide + 2 * kGap, 0, wide, tall};
  const float x = running.right() + kGap;
  ended = {x, 0, room.w - x, tall};
  reason = {0, tall + 6, room.w, 34};
  const float y = reason.bottom() + 6, left = 0.55f * room.w;
  legend = {0, room.h - 18, room.w, 18};
  const float h = legend.y - 6 - y;
  pass = {0, y, left, 42};
  times = {0, y + 50, left, h - 50};
  pool = {left + kGap, y, room.w - left - kGap, h};
}

Picture::Picture(const SchedulerPage& page, const viz::Room& room)
    : page_(page),
      now_(page.now_),
      before_(page.before_),
      scene_(room),
      areas_(room),
      ran_(now_.num_passes > before_.num_passes),
      preempts_(ran_ && now_.shortage && now_.shortage->pass == now_.num_passes) {
  const auto ends = [&](const Seen& seen) { return has_ended(seen); };
  if (ran_ && std::ranges::any_of(now_.seen, ends)) acts_ = kEnd;
  if (preempts_) acts_ = kPreemption;
}

viz::Scene Picture::drawn() {
  draw_pool();
  draw_lanes();
  draw_pass();
  if (areas_.times.h >= 60) draw_times();
  const auto [words, about] = reason();
  viz::reason(scene_, areas_.reason, words, about, preempts_ ? Span{0, 0.1f} : acts_.goes);
  if (preempts_) viz::during(scene_, "note/arrow", {acts_.goes.end, acts_.takes.begin + 0.1f});
  viz::legend(scene_, areas_.legend,
              {{State::kPrompt, "prompt"},
               {State::kDecode, "decode"},
               {State::kPreempted, "preempted"},
               {State::kReserved, "taken away"},
               {State::kCached, "free, can be found", viz::kNoHue},
               {State::kFound, "found"},
               {State::kFree, "free"}});
  const bool starts = !now_.last.started.empty() || !now_.last.resumed.empty();
  scene_.lasts(!ran_ ? 0.3f : starts ? std::max(1.2f, acts_.seconds) : acts_.seconds);
  return std::move(scene_);
}

/// Draws the blocks, and the requests that hold them.
void Picture::draw_pool() {
  const BlockPool& pool = page_.pool();
  viz::PoolView view = lesson07::pool_view(pool);
  view.show_refs = false;  // a block that is shared has several hues
  for (const int64_t id : now_.running) {
    const Seen& seen = now_.of(id);
    view.add(seen, seen.ids, seen.num_computed);
  }
  if (page_.manager().holds(kBallast)) {
    for (const int32_t id : page_.manager().table(kBallast).block_ids()) {
      view.at(id).state = State::kReserved;
    }
  }
  const Place& at = areas_.pool;
  viz::heading(scene_, "pool", {at.x, at.y, at.w, kHeading},
               fmt::format("the pool: {} of {} free", pool.num_free(),
                           kv::count_of(pool.num_blocks(), "block")));
  viz::pool(scene_, view, {at.x, at.y + kHeading + 2, at.w, at.h - kHeading - 2});
  draw_moves();
}

/// Blocks that were given back go from the cards to the pool.
void Picture::draw_moves() {
  for (const Seen& old : before_.seen) {
    const Seen* const now = now_.seen.find(old.name);
    const bool late = ran_ && now != nullptr && now->ended;
    const Span when = late ? Span{acts_.ends.begin - 0.15f, acts_.ends.end} : acts_.gives;
    const auto kept =
        now != nullptr ? std::span<const int32_t>(now->ids) : std::span<const int32_t>();
    viz::leave_table(scene_, old.name, old.ids, kept, when);
  }
}

/// The text that explains the picture, and the shape that it is about.
Picture::Reason Picture::reason() const {
  if (preempts_) return why_preempted();
  if (const Seen* seen = has_found()) {
    return {fmt::format("{} {}: {} of its tokens are found in the cache", seen->name,
                        seen->num_preemptions > 0 ? "is back" : "starts", seen->num_cached),
            "request " + seen->name};
  }
  const auto first = page_.first_in_line();
  if (!first) return {};
  const std::string& name = now_.of(first->id).name;
  if (first->num_needed > first->num_free) {
    return {fmt::format("{} needs {} to start, {}", name, kv::count_of(first->num_needed, "block"),
                        free_words(first->num_free)),
            "request " + name};
  }
  if (!ran_ || viz::num_rows(now_.last) < page_.settings_.budget) return {};
  return {fmt::format("the pass is full: {} waits for the next one", name), "budget"};
}

Picture::Reason Picture::why_preempted() const {
  const Shortage& shortage = *now_.shortage;
  const std::vector<int64_t>& victims = now_.last.preempted;
  const std::string wanted =
      fmt::format("{} needs {}, {}: ", now_.of(shortage.id).name,
                  kv::count_of(shortage.num_wanted, "block"), free_words(shortage.num_free));
  const std::string victim = now_.of(victims.front()).name, about = "request " + victim;
  if (victims.size() > 1)
    return {wanted + "they give way:" + viz::names_of(now_.seen, victims), about};
  const char* rank =
      page_.settings_.order == Order::kFirstCome ? "the youngest" : "the least important";
  return {wanted + (victims.front() == shortage.id
                        ? fmt::format("it is {}, and gives its {}", rank, shortage.num_given)
                        : fmt::format("{}, {}, gives its {}", victim, rank, shortage.num_given)),
          about};
}

/// A request that started in this pass with tokens from the cache, a resumed one if there is one.
/// Null if there is none.
const Seen* Picture::has_found() const {
  for (const auto* ids : {&now_.last.resumed, &now_.last.started}) {
    for (const int64_t id : *ids) {
      const Seen& seen = now_.of(id);
      if (has(*ids, seen) && seen.num_cached > 0) return &seen;
    }
  }
  return nullptr;
}

viz::Scene SchedulerPage::scene(const viz::Room& room) { return Picture(*this, room).drawn(); }

std::vector<viz::Button> SchedulerPage::actions() const {
  if (live_.running()) return live_.steps("pass", "Pass", "10 passes");
  const std::string next = shown_.seen.free_name();
  const bool idle = scheduler_->idle();
  const std::string shrink = fmt::format("shrink {}", std::clamp(pool_->num_free(), 1, 4));
  std::vector<viz::Button> row{
      {"pass", "Pass", "pass", "", 'P', !idle},
      {"pass 10", "x10", "pass 10", "", 'X'},
      {"submit short", "Submit", fmt::format("submit {} 24 20", next), "", 'S', idle},
      {"submit long", "Submit long", fmt::format("submit {} 56 32", next), "", 'L'},
      manager_->holds(kBallast) ? viz::Button{"grow", "Grow", "grow", "", 'G'}
                                : viz::Button{"shrink", "Shrink", shrink, "", 'H'}};
  if (shown_.seen.empty()) return row;
  const std::string name = chosen(shown_.seen);
  row.push_back({name + "/kill", "Kill " + name, "kill " + name, "", 'K'});
  return row;
}

void SchedulerPage::draw(viz::Ui& ui) {
  form(ui, {"submit", "Submit", "submit " + shown_.seen.free_name()});
  buttons(ui, {{"forget", "Forget the cache", "forget"}});
  choice(ui, "Rules",
         {{"order first", "first come", "order first"},
          {"order priority", "priority", "order priority"},
          {"gate on", "gate", "gate on"},
          {"gate off", "no gate", "gate off"}});
  form(ui, {"live", "Live run", "live"});
}

}  // namespace lesson08
