#include <algorithm>

#include "page_scene.h"

namespace lesson05 {
namespace {

using viz::BlockView;
using viz::Place;
using viz::Shape;
using viz::Span;

constexpr size_t kMostBlocks = 128;  // of a larger pool nobody could follow a single block
constexpr float kBlink = 0.004f;     // what is not to be seen coming

size_t at(int64_t index) { return static_cast<size_t>(index); }

/// Part i of n in a span, each longer than its share: they follow each other closely.
Span staggered(const Span& span, size_t i, size_t n) {
  const float all = span.end - span.begin, each = n > 1 ? 0.5f * all : all;
  const float begin =
      span.begin + (n > 1 ? (all - each) * static_cast<float>(i) / static_cast<float>(n - 1) : 0);
  return {begin, begin + each};
}

/// When what happens. A copy tells: a token comes, the count is looked at, a free block is taken,
/// copied to, the entry flips, the old count falls, the token lands.
struct Times {
  float seconds;
  Span ask, check, take, copy, flip, count, land, fork, end, settle;
};
constexpr Times kCopy{.seconds = 2.4f,
                      .ask = {0, 0.12f},
                      .check = {0.11f, 0.3f},
                      .take = {0.28f, 0.36f},
                      .copy = {0.36f, 0.64f},
                      .flip = {0.66f, 0.76f},
                      .count = {0.74f, 0.84f},
                      .land = {0.85f, 0.95f},
                      .fork = {0.86f, 1},
                      .end = {0.86f, 1},
                      .settle = {0.86f, 1}};
constexpr Times kGrow{.seconds = 0.8f,
                      .ask = {},
                      .check = {0, 0.3f},
                      .take = {0, 0.2f},
                      .copy = {},
                      .flip = {0.1f, 0.3f},
                      .count = {0.6f, 0.9f},
                      .land = {0.25f, 0.6f},
                      .fork = {0.6f, 1},
                      .end = {0.6f, 1},
                      .settle = {0, 0.25f}};
constexpr Times kFork{.seconds = 1.0f,
                      .ask = {},
                      .check = {},
                      .take = {},
                      .copy = {},
                      .flip = {},
                      .count = {0.6f, 0.9f},
                      .land = {},
                      .fork = {0, 0.55f},
                      .end = {0, 0.55f},
                      .settle = {0, 0.55f}};
constexpr Times kFree{.seconds = 1.0f,
                      .ask = {},
                      .check = {},
                      .take = {},
                      .copy = {},
                      .flip = {},
                      .count = {0.35f, 0.6f},
                      .land = {},
                      .fork = {},
                      .end = {0, 0.35f},
                      .settle = {0.7f, 1}};

class Motion {
 public:
  Motion(viz::Scene& scene, const Shown& before, const Shown& now)
      : scene_(scene), before_(before), now_(now), times_(times()) {}

  void add();

 private:
  const Times& times() const;
  void when(const std::string& id, const Span& span) {
    if (Shape* shape = scene_.find(id)) shape->during(span);
  }
  void ghost(const Place& from, const Place& to, int hue, const std::string& token, Span span);
  void ring(const std::string& id, viz::Ink ink, Span span);
  void table(const ShownTable& table);
  void gone(const ShownTable& table);
  void block(const BlockView& was, const BlockView& is);
  void fallen(const BlockView& was);
  void copy(const BlockCopy& copy);
  void landing(const BlockView& was, const BlockView& is);
  void refusal();
  const ShownTable* holder(const BlockView& block) const;

  viz::Scene& scene_;
  const Shown& before_;
  const Shown& now_;
  const Times times_;
  int ghosts_ = 0;
};

const Times& Motion::times() const {
  if (!now_.copies.empty()) return kCopy;
  const auto grew = [&](const ShownTable& table) {
    const ShownTable* was = before_.find(table.origin);
    return table.num_tokens > (was != nullptr ? was->num_tokens : 0);
  };
  if (std::ranges::any_of(now_.tables, grew)) return kGrow;
  const bool more = now_.tables.size() > before_.tables.size();
  return more ? kFork : kFree;
}

/// A token on its way; what it passes does not shine through.
void Motion::ghost(const Place& from, const Place& to, int hue, const std::string& token,
                   Span span) {
  const std::string id = fmt::format("ghost {}", ghosts_++);
  viz::Scene made(scene_.room());
  scene_.ghost(made.box(id + "/ground", from, viz::paint(viz::Ink::kGround)), to, span);
  scene_.ghost(made.box(id, from, viz::soft(hue), viz::full(hue)), to, span);
  const float size = std::min(18.0f, 0.5f * from.h);
  scene_.ghost(
      made.label(id + "/token", from.inset(1), token, {.size = size, .align = viz::Align::kCentre}),
      to.inset(1), span);
}

void Motion::ring(const std::string& id, viz::Ink ink, Span span) {
  const Shape* target = scene_.find(id);
  if (target == nullptr) return;
  Place around = target->at;
  if (target->kind == Shape::Kind::kText) {  // to its right, as counts are set
    const float w = viz::text_width(target->text, target->size);
    around = {around.right() - w, around.y, w, around.h};
  }
  viz::Scene made(scene_.room());
  Shape& shape =
      made.box(fmt::format("ghost {}", ghosts_++), around.inset(-4), {}).edged(viz::paint(ink), 3);
  shape.radius = 8;
  scene_.ghost(shape, shape.at, span);
}

/// Null: no table that is shown holds it.
const ShownTable* Motion::holder(const BlockView& block) const {
  const auto found = std::ranges::find_if(now_.tables, [&](const ShownTable& table) {
    return std::ranges::find(table.block_ids, block.id) != table.block_ids.end();
  });
  return found == now_.tables.end() ? nullptr : &*found;
}

/// A new table slides out of its parent's; new entries out of those before them.
void Motion::table(const ShownTable& table) {
  const std::string& name = table.sequence.name;
  const ShownTable *same = before_.find(name), *origin = before_.find(table.origin);
  const bool forked = same == nullptr && origin != nullptr;
  const Span settle = forked ? times_.fork : times_.settle;
  for (const char* part : {"/card", "/bar", "/name", "/text", "/waiting", "/waiting/token"}) {
    if (Shape* shape = scene_.find(name + part)) {
      forked ? shape->comes_from(table.origin + part, settle) : shape->during(settle);
    }
  }
  const size_t old_entries = origin != nullptr ? origin->block_ids.size() : 0;
  for (size_t i = 0; i < table.block_ids.size(); ++i) {
    const std::string entry = fmt::format("{}/entry {}", name, i),
                      link = fmt::format("{}/link {}", name, i);
    const bool is_old = i < old_entries;
    const bool flips = is_old && origin->block_ids[i] != table.block_ids[i];
    for (const char* part : {"", "/id"}) {
      Shape* shape = scene_.find(entry + part);
      if (shape == nullptr) continue;
      if (forked && is_old) {
        shape->comes_from(fmt::format("{}/entry {}{}", table.origin, i, part), settle);
      } else if (!is_old) {
        shape->comes_from(name + "/name", times_.flip);
      } else {
        shape->during(flips ? times_.flip : settle);
      }
    }
    if (flips && !forked) ring(entry, viz::Ink::kMark, times_.flip);
    if (Shape* line = scene_.find(link)) {
      const bool shifts = same != nullptr && !now_.copies.empty();  // beside a line that goes
      line->during(flips || !is_old ? times_.flip : shifts ? times_.count : settle);
      if (forked && is_old) line->comes_from(fmt::format("{}/link {}", table.origin, i), settle);
    }
  }
}

/// Its name and its words are struck out.
void Motion::gone(const ShownTable& table) {
  const std::string& name = table.sequence.name;
  for (const char* part : {"/card", "/bar", "/waiting"}) scene_.ends(name + part, times_.end);
  for (const char* part : {"/name", "/text", "/waiting/token"}) {
    scene_.ends(name + part, times_.end, true);
  }
  for (size_t i = 0; i < table.block_ids.size(); ++i) {
    for (const char* part : {"/entry {}", "/entry {}/id", "/link {}"}) {
      scene_.ends(name + fmt::format(fmt::runtime(part), i), times_.end);
    }
  }
}

/// A block whose count or content is another one now.
void Motion::block(const BlockView& was, const BlockView& is) {
  if (was.owners == is.owners && was.tokens == is.tokens) return;
  const std::string id = fmt::format("block {}", is.id);
  const bool taken = was.ref_cnt == 0;
  const Span span = taken ? times_.take : times_.count;
  for (const char* part : {"", "/id", "/ref"}) when(id + part, span);
  if (is.ref_cnt == 0) return fallen(was);
  for (int i = 0; i < now_.pool.block_size; ++i) {
    const std::string slot = fmt::format("slot {}/{}", is.id, i);
    when(slot, span);
    for (const int hue : is.owners) when(fmt::format("{}/hue {}", slot, hue), span);
    for (const int hue : was.owners) {
      const bool gone = is.owners.size() < 2 || std::ranges::count(is.owners, hue) == 0;
      if (gone) scene_.ends(fmt::format("{}/hue {}", slot, hue), span);
    }
  }
  landing(was, is);
}

/// Nobody holds it: its tokens drop out.
void Motion::fallen(const BlockView& was) {
  const Span drop{times_.count.end, std::min(1.0f, times_.count.end + 0.35f)};
  scene_.ends(fmt::format("block {}/ref", was.id), times_.count);
  when(fmt::format("block {}", was.id), drop);
  for (int i = 0; i < now_.pool.block_size; ++i) {
    const std::string slot = fmt::format("slot {}/{}", was.id, i);
    when(slot, drop);
    const Shape* place = scene_.find(slot);
    if (place == nullptr) return;
    Place below = place->at.inset(1);
    below.y += 0.8f * below.h;
    scene_.leaves(slot + "/token", below, staggered(drop, at(i), at(now_.pool.block_size)));
    for (const int hue : was.owners) scene_.ends(fmt::format("{}/hue {}", slot, hue), drop);
  }
}

/// New tokens come from their sequence's name, or from where they waited.
void Motion::landing(const BlockView& was, const BlockView& is) {
  const ShownTable* table = holder(is);
  if (table == nullptr) return;
  const ShownTable* origin = before_.find(table->origin);
  const std::string from =
      table->origin + (origin != nullptr && !origin->waiting.empty() ? "/waiting" : "/name");
  const auto copied = std::ranges::find(now_.copies, is.id, &BlockCopy::destination);
  const size_t first = copied == now_.copies.end()
                           ? was.tokens.size()
                           : before_.pool.blocks[at(copied->source)].tokens.size();
  const size_t count = is.tokens.size() - std::min(first, is.tokens.size());
  if (first > 0 && count > 0 && copied == now_.copies.end()) {  // whoever writes looks at the count
    ring(fmt::format("block {}/ref", is.id), viz::Ink::kMark, times_.check);
  }
  for (size_t i = first; i < is.tokens.size(); ++i) {
    const std::string slot = fmt::format("slot {}/{}", is.id, i);
    const Span span = staggered(times_.land, i - first, count);
    Shape* token = scene_.find(slot + "/token");
    if (token == nullptr) return;
    if (copied != now_.copies.end() && i == first) {  // it has waited: see copy()
      token->during({span.end, span.end + kBlink});
    } else {
      token->comes_from(from, span);
    }
    when(slot, {span.end - kBlink, span.end});
  }
}

void Motion::copy(const BlockCopy& copy) {
  const std::vector<std::string>& tokens = before_.pool.blocks[at(copy.source)].tokens;
  const BlockView& target = now_.pool.blocks[at(copy.destination)];
  const ShownTable* writer = holder(target);
  const Shape *old_block = scene_.find(fmt::format("block {}", copy.source)),
              *new_slot = scene_.find(fmt::format("slot {}/0", copy.destination));
  if (writer == nullptr || old_block == nullptr) return;
  const int hue = writer->sequence.hue;
  ring(fmt::format("block {}/ref", copy.source), viz::Ink::kMark, times_.check);
  if (new_slot == nullptr) {  // slots too small to be seen: the block travels
    const Shape* block = scene_.find(fmt::format("block {}", copy.destination));
    return ghost(old_block->at, block->at, hue, "", times_.copy);
  }
  const auto place = [&](int32_t block, size_t i) {
    return scene_.find(fmt::format("slot {}/{}", block, i))->at;
  };
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Span span = staggered(times_.copy, i, tokens.size());
    ghost(place(copy.source, i), place(copy.destination, i), hue, tokens[i], span);
    const std::string slot = fmt::format("slot {}/{}", copy.destination, i);
    when(slot, {span.end - kBlink, span.end});
    when(slot + "/token", {span.end - kBlink, span.end});
    for (const int owner : target.owners) {
      when(fmt::format("{}/hue {}", slot, owner), {span.end - kBlink, span.end});
    }
  }
  if (tokens.size() >= target.tokens.size()) return;
  // The token that wanted to go into the shared block: it is sent back, and waits above.
  const std::string& token = target.tokens[tokens.size()];
  const Place wanted = place(copy.source, tokens.size());
  const Place waits{wanted.x, old_block->at.y - wanted.h - 8, wanted.w, wanted.h};
  const Shape* name = scene_.find(writer->sequence.name + "/card");
  const Place home{name->at.x, name->at.y, wanted.w, wanted.h};
  const float turn = times_.ask.end, back = turn + 0.06f;
  ghost(home, wanted, hue, token, times_.ask);
  ghost(wanted, waits, hue, token, {turn, back});
  ghost(waits, waits, hue, token, {back, times_.land.begin});
  ghost(waits, place(copy.destination, tokens.size()), hue, token, times_.land);
}

/// The tokens come, and go back to where they came from.
void Motion::refusal() {
  scene_.lasts(2.4f);
  for (const auto& [name, token] : now_.refused) {
    const ShownTable* table = now_.find(name);
    const Shape* card = scene_.find(name + "/card");
    if (table == nullptr || card == nullptr || table->block_ids.empty()) continue;
    const int32_t last = table->block_ids.back();
    const size_t filled = now_.pool.blocks[at(last)].tokens.size();
    const Shape* slot = scene_.find(
        fmt::format("slot {}/{}", last, std::min<size_t>(filled, at(now_.pool.block_size) - 1)));
    if (slot == nullptr) continue;
    const Place home{card->at.x, card->at.y, slot->at.w, slot->at.h};
    const Place waits{slot->at.x, slot->at.y - slot->at.h, slot->at.w, slot->at.h};
    ghost(home, waits, table->sequence.hue, token, {0, 0.25f});
    ghost(waits, waits, table->sequence.hue, token, {0.25f, 0.7f});
    ghost(waits, home, table->sequence.hue, token, {0.7f, 0.95f});
    ring(fmt::format("block {}/ref", last), viz::Ink::kError, {0.25f, 0.65f});
  }
}

void Motion::add() {
  if (!now_.refusal.empty()) return refusal();
  scene_.lasts(times_.seconds);
  for (const ShownTable& one : now_.tables) table(one);
  for (const ShownTable& one : before_.tables) {
    if (now_.find(one.sequence.name) == nullptr) gone(one);
  }
  for (size_t i = 0; i < now_.pool.blocks.size(); ++i) {
    block(before_.pool.blocks[i], now_.pool.blocks[i]);
  }
  for (const BlockCopy& one : now_.copies) copy(one);
}

}  // namespace

void add_motion(viz::Scene& scene, const Shown& before, const Shown& now) {
  const size_t count = now.pool.blocks.size();
  if (before.pool.blocks.size() == count && before.pool.block_size == now.pool.block_size &&
      count <= kMostBlocks) {
    Motion(scene, before, now).add();
  }
}

}  // namespace lesson05
