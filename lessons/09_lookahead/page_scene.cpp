#include "page_picture.h"
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
  draw_reason();
  viz::legend(scene_, areas_.legend,
              {{State::kInUse, "has K and V"},
               {State::kReserved, "runs in this pass"},
               {State::kFree, "guess"},
               {State::kFound, "right; or came before"},
               {State::kEvicted, "struck out"}});
  scene_.find("legend/2")->edged(paint(Ink::kText), 1.8f);

  scene_.lasts(guessed_ && !page_.parts_.empty() && page_.parts_[0].proposed > 0 ? 2.2f
               : ran_                                                            ? 1.8f
                                                                                 : 0.45f);
  return std::move(scene_);
}

/// Blocks that nobody holds, the next one first.
void Picture::draw_pool() {
  const Place& at = areas_.pool;
  constexpr float kName = 180;
  viz::heading(
      scene_, "pool", {at.x, at.y, kName, at.h},
      fmt::format("the pool: {} of {} free", now_.free.size(), page_.settings_.num_blocks));
  const viz::Grid grid =
      viz::fit(std::max(page_.settings_.num_blocks, 12), {at.x + kName, at.y, at.w - kName, at.h},
               {.gap = 4, .flattest = 1, .widest = 2.4f});
  for (size_t i = 0; i < now_.free.size(); ++i) {
    const int32_t number = now_.free[i];
    const Place cell = grid.cell(static_cast<int>(i));
    const std::string id = fmt::format("block {}", number);
    const bool cached = page_.pool().block(number).is_cached;
    viz::Shape& box = scene_.box(id, cell, {});
    const Span when = ran_ ? Span{0.7f, 1} : guessed_ ? Span{0.2f, 0.4f} : Span{};
    dress(box, cached ? State::kCached : State::kFree).during(when);
    box.tip(id + (cached ? ": free, and what it holds can be found" : ": free"));
    if (cell.w < 14 || cell.h < 11) continue;
    scene_
        .label(id + "/id", cell, std::to_string(number),
               {.size = std::min(13.0f, 0.6f * cell.h),
                .paint = {Ink::kText},
                .align = Align::kCentre},
               6)
        .during(when);
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
  const int size = page_.settings_.block_size;
  const int known = part.first + part.num_rows;
  const auto laid = static_cast<int>(part.guesses.size());
  const std::string last = slot_id(asked, known - 1, size);
  if (part.proposed > laid) {
    const std::string count =
        laid == 0 ? "no guess of " : fmt::format("{} of {} guesses of ", laid, part.proposed);
    return {fmt::format("no block is free: {}{} {} a slot. Nobody gives way for a guess", count,
                        part.name, laid > 1 ? "have" : "has"),
            laid == 0 ? last : slot_id(asked, known, size)};
  }
  if (laid > 0) {
    const std::vector<int32_t> tokens = asked.known();
    return {
        fmt::format("{} ends with {}, as before: what came after it then is the guess", part.name,
                    page_.quoted(std::span(tokens).last(static_cast<size_t>(part.length)))),
        slot_id(asked, known, size)};
  }
  if (part.most > 0) {
    return {fmt::format("the last two tokens of {} have not come before: no guess", part.name),
            last};
  }
  if (page_.settings_.num_guesses == 0) return {"without guesses a pass gives a token", last};
  if (known + 2 > static_cast<int>(asked.prompt.size()) + asked.most_answer) {
    return {fmt::format("the next token of {} is its last: nothing to guess", part.name), last};
  }
  return {fmt::format("somebody waits for blocks: {} takes none for guesses", part.name), last};
}

Picture::Reason Picture::why_struck(const Part& part) const {
  const auto count = static_cast<int>(part.guesses.size());
  const Asked& asked = *now_.asked.find(part.name);
  const int first = part.first + part.num_rows, size = page_.settings_.block_size;
  if (part.accepted == count) {
    return {fmt::format("{} right: {} from one pass",
                        count == 1 ? "the guess was" : fmt::format("all {} guesses were", count),
                        kv::count_of(part.drawn, "token")),
            asked.ended ? "request " + part.name : slot_id(asked, first + count - 1, size)};
  }
  std::string words =
      fmt::format("\"{}\" was wrong: {} struck out, {} drawn",
                  page_.word(part.guesses[static_cast<size_t>(part.accepted)]),
                  count - part.accepted > 1
                      ? fmt::format("it and the {} after it are", count - part.accepted - 1)
                      : "it is",
                  kv::count_of(part.drawn, "token"));
  std::string about = slot_id(asked, first + part.accepted, size);
  for (const int32_t id : gone_back(part)) {
    words += fmt::format("; block {} goes back", id);
    about = fmt::format("block {}", id);
  }
  if (asked.ended) about = "request " + part.name;
  return {words, about};
}

/// Of the request of which there is most to say.
Picture::Reason Picture::reason() const {
  if (now_.asked.empty() || page_.parts_.empty()) return {};
  const auto weight = [&](const Part& part) {
    const auto laid = static_cast<int>(part.guesses.size());
    return now_.composed ? 2 * (part.proposed > laid) + (laid > 0) : laid;
  };
  const Part& part = *std::ranges::max_element(page_.parts_, {}, weight);
  if (now_.asked.find(part.name) == nullptr) return {};
  if (now_.composed) return why_guessed(part);
  return part.guesses.empty() ? Reason{} : why_struck(part);
}

/// Whether an arrow from below to a shape crosses no block.
bool Picture::can_be_pointed_at(const viz::Shape* target) const {
  if (target == nullptr) return false;
  const float x = target->at.middle_x();
  return std::ranges::none_of(scene_.shapes(), [&](const viz::Shape& shape) {
    return shape.id.starts_with("slot ") && shape.at.y > target->at.bottom() && shape.at.x <= x &&
           x <= shape.at.right();
  });
}

void Picture::draw_reason() {
  const auto [words, about] = reason();
  if (words.empty()) return;
  Place at = areas_.reason;
  const float wide = viz::text_width(words, 13) + 20;
  const viz::Shape* const target = scene_.find(about);
  const float middle = target == nullptr ? 0 : target->at.middle_x();
  at.x = std::max(0.0f, std::min(middle - wide / 2, at.w - wide));
  at.w -= at.x;
  viz::note(scene_, "note", at, words, can_be_pointed_at(target) ? about : "", Ink::kMark,
            ran_ ? Span{0.6f, 0.7f} : Span{0.2f, 0.4f});
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
  form(ui, {"new", "New request", "new " + shown_.asked.free_name()});
  std::vector<viz::Button> row;
  for (const int most : {0, 2, 4, 8}) {
    row.push_back({fmt::format("guesses {}", most),
                   most == 0 ? "No guesses" : fmt::format("Up to {}", most),
                   fmt::format("guesses {}", most)});
  }
  buttons(ui, row);
  row.clear();
  for (const int blocks : {8, 12, 24}) {
    row.push_back({fmt::format("pool {}", blocks), fmt::format("{} blocks", blocks),
                   fmt::format("pool {} {}", blocks, settings_.block_size)});
  }
  buttons(ui, row);
  if (!shown_.asked.empty()) {
    const bool there = shown_.asked.find(selected()) != nullptr;
    const std::string name = there ? selected() : shown_.asked.names().back();
    buttons(ui, {{name + "/finish", "Finish " + name, "finish " + name}});
  }
  form(ui, {"live", "Live run", "live"});
}

}  // namespace lesson09
