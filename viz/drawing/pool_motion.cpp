#include "viz/drawing/pool_motion.h"

#include <fmt/format.h>

#include <algorithm>

#include "viz/drawing/lanes.h"

namespace viz {
namespace {

Place centred(const Place& shape, const Place& at) {
  return {at.middle_x() - shape.w / 2, at.middle_y() - shape.h / 2, shape.w, shape.h};
}

}  // namespace

std::string block_id(int64_t block) { return fmt::format("block {}", block); }
std::string slot_id(int64_t block, int64_t i) { return fmt::format("slot {}/{}", block, i); }

Span staggered(const Span& span, int64_t i, int64_t n, float each) {
  const float step =
      (span.end - span.begin - each) / static_cast<float>(std::max<int64_t>(n - 1, 1));
  const float begin = span.begin + step * static_cast<float>(i);
  return {begin, begin + each};
}

Span staggered(const Span& span, int64_t i, int64_t n) {
  return staggered(span, i, n, (n > 1 ? 0.5f : 1.0f) * (span.end - span.begin));
}

void during(Scene& scene, const std::string& id, const Span& span) {
  if (Shape* shape = scene.find(id)) shape->during(span);
}

void block_changes(Scene& scene, int32_t block, const Span& span) {
  const std::string id = block_id(block), slots = fmt::format("slot {}/", block);
  for (Shape& shape : scene.since(0)) {
    if (shape.id == id || shape.id.starts_with(id + "/") || shape.id.starts_with(slots)) {
      shape.during(span);
    }
  }
}

void leave_table(Scene& scene, const std::string& table, std::span<const int32_t> before,
                 std::span<const int32_t> now, const Span& span) {
  std::vector<size_t> gone;
  for (size_t i = before.size(); i-- > 0;) {
    if (i >= now.size() || now[i] != before[i]) gone.push_back(i);
  }
  for (size_t k = 0; k < gone.size(); ++k) {
    const int32_t block = before[gone[k]];
    const Shape* const home = scene.find(block_id(block));
    if (home == nullptr) continue;
    const Span when = in_turn(span, k, gone.size());
    const std::string entry = fmt::format("{}/entry {}", table, gone[k]);
    scene.leaves(entry, home->at, when);
    scene.leaves(entry + "/id", home->at, when);
    block_changes(scene, block, when);
  }
}

void send(Scene& scene, const std::string& id, const Place& from, const Place& to,
          const Span& span) {
  for (const std::string& part : {id, id + "/text"}) {
    if (const Shape* shape = scene.find(part)) {
      Shape ghost = *shape;
      ghost.id = fmt::format("{} on its way {:.2f}", part, static_cast<double>(span.begin));
      ghost.at = centred(shape->at, from);
      scene.ghost(ghost, centred(shape->at, to), span);
    }
  }
}

void send_token(Scene& scene, const std::string& name, const std::string& token, int hue,
                const Place& from, const Place& to, const Span& span) {
  Scene made(scene.room());
  scene.ghost(made.box(name + "/ground", from, paint(Ink::kGround)), to, span);
  scene.ghost(made.box(name, from, soft(hue), full(hue)), to, span);
  const float size = std::min(18.0f, 0.5f * from.h);
  scene.ghost(
      made.label(name + "/token", from.inset(1), token, {.size = size, .align = Align::kCentre}),
      to.inset(1), span);
}

void ring(Scene& scene, const std::string& name, const std::string& id, Ink ink, const Span& span) {
  const Shape* target = scene.find(id);
  if (target == nullptr) return;
  Place around = target->at;
  if (target->kind == Shape::Kind::kText && target->align == Align::kRight) {
    const float w = text_width(target->text, target->size);
    around = {around.right() - w, around.y, w, around.h};
  }
  Scene made(scene.room());
  Shape& shape = made.box(name, around.inset(-4), {}).edged(paint(ink), 3);
  shape.radius = 8;
  scene.ghost(shape, shape.at, span);
}

void copy_tokens(Scene& scene, const std::vector<std::string>& tokens, int64_t source,
                 const BlockView& target, int hue, const Span& span) {
  const auto count = std::ssize(tokens);
  for (int64_t i = 0; i < count; ++i) {
    const std::string slot = slot_id(target.id, i);
    const Shape *from = scene.find(slot_id(source, i)), *to = scene.find(slot);
    if (from == nullptr || to == nullptr) return;
    const Place begin = from->at, end = to->at;
    const Span part = staggered(span, i, count), lands{part.end - kBlink, part.end};
    send_token(scene, "copy of " + slot, tokens[static_cast<size_t>(i)], hue, begin, end, part);
    during(scene, slot, lands);
    during(scene, slot + "/token", lands);
    for (const int owner : target.owners) {
      during(scene, fmt::format("{}/hue {}", slot, owner), lands);
    }
  }
}

void drop_tokens(Scene& scene, const PoolView& pool, const BlockView& was, const Span& span) {
  during(scene, block_id(was.id), span);
  for (int i = 0; i < pool.block_size; ++i) {
    const std::string slot = slot_id(was.id, i);
    during(scene, slot, span);
    const Shape* place = scene.find(slot);
    if (place == nullptr) return;
    Place below = place->at.inset(1);
    below.y += 0.8f * below.h;
    scene.leaves(slot + "/token", below, staggered(span, i, pool.block_size));
    for (const int hue : was.owners) scene.ends(fmt::format("{}/hue {}", slot, hue), span);
  }
}

}  // namespace viz
