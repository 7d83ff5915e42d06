#include "picture.h"
#include "viz/ui.h"

namespace lesson09 {

Areas::Areas(const viz::Room& room) {
  constexpr float kGap = 10;
  const float left = 0.7f * room.w, x = left + 2 * kGap;
  legend = {0, room.h - 18, room.w, 18};
  times = {0, legend.y - 8 - 64, room.w, 64};
  pool = {0, times.y - 8 - 28, room.w, 28};
  reason = {0, pool.y - 8 - 36, room.w, 36};
  lanes = {0, 0, left, reason.y - 6};
  passes = {x, 0, room.w - x, reason.y - 6};
}

Picture::Picture(const LookaheadPage& page, const viz::Room& room)
    : page_(page),
      now_(page.now_),
      scene_(room),
      areas_(room),
      guessed_(now_.composed && !page.before_.composed),
      ran_(!now_.composed && now_.num_passes > page.before_.num_passes) {
  // A live pass may be followed by the next one at once.
  if (now_.composed && now_.num_passes > page.before_.num_passes) guessed_ = true;
}

viz::Scene Picture::drawn() {
  draw_lanes();
  draw_passes();
  draw_pool();
  draw_times();
  const auto [words, about] = reason();
  viz::reason(scene_, areas_.reason, words, about, ran_ ? Span{0.6f, 0.7f} : Span{0.2f, 0.4f});
  viz::legend(scene_, areas_.legend,
              {{State::kInUse, "has K and V"},
               {State::kReserved, "runs in this pass", 0},
               {State::kFree, "guess"},
               {State::kFound, "right; or came before"},
               {State::kEvicted, "struck out"}});
  scene_.find("legend/2")->edged(paint(Ink::kText), 1.8f);

  scene_.lasts(guessed_ && !page_.parts_.empty() && page_.parts_[0].proposed > 0 ? 2.2f
               : ran_                                                            ? 1.8f
                                                                                 : 0.45f);
  return std::move(scene_);
}

/// Draws the free blocks, the next one first.
void Picture::draw_pool() {
  const Place& at = areas_.pool;
  constexpr float kName = 180;
  viz::heading(
      scene_, "pool", {at.x, at.y, kName, at.h},
      fmt::format("the pool: {} of {} free", now_.free.size(), page_.settings_.num_blocks));
  const viz::Grid grid =
      viz::fit(std::max(page_.settings_.num_blocks, 12), {at.x + kName, at.y, at.w - kName, at.h},
               {.gap = 4, .flattest = 1, .widest = 2.4f});
  const Span when = ran_ ? Span{0.7f, 1} : guessed_ ? Span{0.2f, 0.4f} : Span{};
  for (size_t i = 0; i < now_.free.size(); ++i) {
    const bool cached = page_.pool().block(now_.free[i]).is_cached;
    viz::numbered_block(scene_,
                        {.id = now_.free[i],
                         .state = cached ? State::kCached : State::kFree,
                         .tooltip = cached ? ": free, and what it holds can be found" : ": free"},
                        grid.cell(static_cast<int>(i)), when);
  }
}

/// Blocks that were taken for guesses alone.
std::vector<int32_t> Picture::gone_back(const Part& part) const {
  const Asked* const before = page_.before_.asked.find(part.name);
  const Asked* const now = now_.asked.find(part.name);
  std::vector<int32_t> back;
  if (before == nullptr || now == nullptr || now->ended || now->waits || !ran_) return back;
  for (const int32_t id : before->ids) {
    if (std::ranges::count(now->ids, id) == 0) back.push_back(id);
  }
  return back;
}

Picture::Reason Picture::why_guessed(const Part& part) const {
  const Asked& asked = *now_.asked.find(part.name);
  const int known = part.first_guess(), laid = part.num_guesses();
  const std::string last = slot_id(asked, known - 1);
  if (part.proposed > laid) {
    const std::string count =
        laid == 0 ? "no guess of " : fmt::format("{} of {} guesses of ", laid, part.proposed);
    return {fmt::format("no block is free: {}{} {} a slot. No request gives way for a guess", count,
                        part.name, laid > 1 ? "have" : "has"),
            laid == 0 ? last : slot_id(asked, known)};
  }
  if (laid > 0) {
    const std::vector<int32_t> tokens = asked.known();
    return {
        fmt::format("{} ends with {}, as before: what came after it then is the guess", part.name,
                    page_.quoted(std::span(tokens).last(static_cast<size_t>(part.length)))),
        slot_id(asked, known)};
  }
  if (part.most > 0) {
    return {fmt::format("the last two tokens of {} have not come before: no guess", part.name),
            last};
  }
  if (page_.settings_.num_guesses == 0) return {"without guesses a pass gives a token", last};
  if (known > asked.max_slots() - 1) {
    return {fmt::format("the next token of {} is its last: nothing to guess", part.name), last};
  }
  return {fmt::format("a request waits for blocks: {} takes none for guesses", part.name), last};
}

Picture::Reason Picture::why_struck(const Part& part) const {
  const Asked& asked = *now_.asked.find(part.name);
  const int first = part.first_guess(), count = part.num_guesses();
  if (part.accepted == count) {
    return {fmt::format("{} right: {} from one pass",
                        count == 1 ? "the guess was" : fmt::format("all {} guesses were", count),
                        kv::count_of(part.drawn, "token")),
            asked.ended ? "request " + part.name : slot_id(asked, first + count - 1)};
  }
  std::string words =
      fmt::format("\"{}\" was wrong: {} struck out, {} drawn",
                  page_.word(part.guesses[static_cast<size_t>(part.accepted)]),
                  count - part.accepted > 1
                      ? fmt::format("it and the {} after it are", count - part.accepted - 1)
                      : "it is",
                  kv::count_of(part.drawn, "token"));
  std::string about = slot_id(asked, first + part.accepted);
  for (const int32_t id : gone_back(part)) {
    words += fmt::format("; block {} goes back", id);
    about = fmt::format("block {}", id);
  }
  if (asked.ended) about = "request " + part.name;
  return {words, about};
}

/// The reason of the request with the most to explain.
Picture::Reason Picture::reason() const {
  if (now_.asked.empty() || page_.parts_.empty()) return {};
  const auto weight = [&](const Part& part) {
    const int laid = part.num_guesses();
    return now_.composed ? 2 * (part.proposed > laid) + (laid > 0) : laid;
  };
  const Part& part = *std::ranges::max_element(page_.parts_, {}, weight);
  if (now_.asked.find(part.name) == nullptr) return {};
  if (now_.composed) return why_guessed(part);
  return part.guesses.empty() ? Reason{} : why_struck(part);
}

viz::Scene LookaheadPage::scene(const viz::Room& room) { return Picture(*this, room).drawn(); }

void LookaheadPage::draw(viz::Ui& ui) {
  if (live_.running()) {
    buttons(
        ui,
        {{"step", "Step", "step"}, {"step 10", "10 steps", "step 10"}, {"stop", "Stop", "stop"}});
    return;
  }
  buttons(ui, {{"guess", "Guess", "guess"},
               {"pass", "Run the pass", "pass"},
               {"step 10", "10 steps", "step 10"}});
  form(ui, {"new", "New request", "new " + asked_.free_name()});
  std::vector<viz::Button> guesses;
  for (const int most : {0, 2, 4, 8}) {
    guesses.push_back(viz::Button{fmt::format("guesses {}", most),
                                  most == 0 ? "No guesses" : fmt::format("Up to {}", most),
                                  fmt::format("guesses {}", most)}
                          .when(settings_.num_guesses == most));
  }
  buttons(ui, guesses);
  const auto pool_of = [&](int blocks) -> viz::Button {
    return viz::Button{fmt::format("pool {}", blocks), std::to_string(blocks),
                       fmt::format("pool {} {}", blocks, settings_.block_size)}
        .when(settings_.num_blocks == blocks);
  };
  choice(ui, "Blocks in the pool", {pool_of(8), pool_of(12), pool_of(24)});
  if (!asked_.empty()) {
    const std::string name = chosen(asked_);
    buttons(ui, {{name + "/finish", "Finish " + name, "finish " + name}});
  }
  form(ui, {"live", "Live run", "live"});
}

}  // namespace lesson09
