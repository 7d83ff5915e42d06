#include "viz/drawing/motion.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace viz {
namespace {

constexpr Span kGone{0, 0.25f};  // when a shape fades out that says nothing of it

float between(float a, float b, float u) { return a + (b - a) * u; }

Place between(const Place& a, const Place& b, float u) {
  return {between(a.x, b.x, u), between(a.y, b.y, u), between(a.w, b.w, u), between(a.h, b.h, u)};
}

/// Both can be one shape that moves and changes its paint; else one fades into the other.
bool alike(const Shape& a, const Shape& b) {
  return a.kind == b.kind && a.text == b.text && a.pattern == b.pattern && a.dashed == b.dashed &&
         a.struck == b.struck && a.arrow == b.arrow && a.align == b.align;
}

Shape placed(Shape shape, const Place& at) {
  shape.at = at;
  return shape;
}

/// Where a shape would be that keeps its size. A line takes both of its ends there.
Place moved(const Shape& shape, const Place& to) {
  if (shape.kind == Shape::Kind::kLine) return to;
  return {to.x, to.y, shape.at.w, shape.at.h};
}

using Index = std::unordered_map<std::string_view, const Shape*>;
Index index_of(const Scene& scene) {
  Index index;
  for (const Shape& shape : scene.shapes()) index.emplace(shape.id, &shape);
  return index;
}

void add_new(std::vector<Track>& all, const Index& before, const Shape& shape) {
  const auto from = shape.from.empty() ? before.end() : before.find(shape.from);
  if (from == before.end()) {
    Shape fresh = shape;  // a text where others may be leaving waits until they have left
    if (shape.kind == Shape::Kind::kText && shape.when == Span{}) fresh.when = {kGone.end, 1};
    all.push_back({shape, std::move(fresh), Sight::kFadesIn});
  } else {
    all.push_back({placed(shape, moved(shape, from->second->at)), shape, Sight::kSetsOut});
  }
}

void add_same(std::vector<Track>& all, const Shape& old, const Shape& shape) {
  if (alike(old, shape)) {
    all.push_back({old, shape, Sight::kStays});
    return;
  }
  Place meet_old = shape.at, meet_new = old.at;
  Shape gone = old, fresh = shape;
  gone.when = shape.when;
  if (shape.kind == Shape::Kind::kText) {  // two on one another cannot be read
    gone.when.end = fresh.when.begin = (shape.when.begin + shape.when.end) / 2;
    meet_old = meet_new = between(old.at, shape.at, 0.5f);  // no faster than what they stand on
  }
  all.push_back({old, placed(std::move(gone), meet_old), Sight::kFadesOut});
  all.push_back({placed(shape, meet_new), std::move(fresh), Sight::kFadesIn});
}

/// Null if the scene has no hint for the shape.
const Scene::Leaving* leaving(const Scene& after, const std::string& id) {
  const auto hint = std::ranges::find(after.leaving(), id, &Scene::Leaving::id);
  return hint == after.leaving().end() ? nullptr : &*hint;
}

void add_gone(std::vector<Track>& all, const Scene& after, Shape shape) {
  const Scene::Leaving* const hint = leaving(after, shape.id);
  shape.when = hint == nullptr ? kGone : hint->when;
  if (hint == nullptr) {
    all.push_back({shape, shape, Sight::kFadesOut});
    return;
  }
  shape.struck = hint->struck;
  const Place to = hint->to ? moved(shape, *hint->to) : shape.at;
  all.push_back({shape, placed(shape, to), Sight::kDeparts});
}

/// Sorts by depth: shapes that stand, over them those that travel, then those that fade in, then
/// notes.
void sort(std::vector<Track>& all) {
  std::vector<Place> travellers;  // where they arrive
  std::vector<std::pair<int, Track>> ranked;
  for (Track& track : all) {
    const bool is_over = track.last.over || track.sight == Sight::kPasses;
    const bool is_on_one =
        track.sight == Sight::kFadesIn &&
        std::ranges::any_of(travellers, [&](const Place& at) { return at.holds(track.last.at); });
    const bool moves = track.travels() || is_on_one;
    if (moves && track.last.kind == Shape::Kind::kBox) travellers.push_back(track.last.at);
    ranked.emplace_back(is_over ? 2 : moves ? 1 : 0, std::move(track));
  }
  std::ranges::stable_sort(ranked, {}, &std::pair<int, Track>::first);
  for (size_t i = 0; i < all.size(); ++i) all[i] = std::move(ranked[i].second);
}

}  // namespace

std::vector<Track> tracks(const Scene& before, const Scene& after) {
  const Index old = index_of(before), now = index_of(after);
  std::vector<Track> all;
  std::unordered_map<std::string_view, std::vector<Track>> gone;  // by what they stood on
  std::string_view below;
  for (const Shape& shape : before.shapes()) {
    if (!now.contains(shape.id) || leaving(after, shape.id)) {
      add_gone(gone[below], after, shape);
    } else {
      below = shape.id;
    }
  }
  const auto add_gone_over = [&](std::string_view id) {
    const auto found = gone.find(id);
    if (found != gone.end()) std::ranges::move(found->second, std::back_inserter(all));
  };
  add_gone_over("");
  for (const Shape& shape : after.shapes()) {
    const auto same = old.find(shape.id);
    if (same == old.end() || leaving(after, shape.id)) {
      add_new(all, old, shape);
    } else {
      add_same(all, *same->second, shape);
    }
    add_gone_over(shape.id);
  }
  for (const Scene::Ghost& ghost : after.ghosts()) {
    all.push_back({ghost.shape, placed(ghost.shape, moved(ghost.shape, ghost.to)), Sight::kPasses});
  }
  sort(all);
  return all;
}

float opacity(Sight sight, float part) {
  switch (sight) {
    case Sight::kFadesIn:
      return part;
    case Sight::kFadesOut:
      return 1 - part;
    case Sight::kSetsOut:
      return part > 0 ? 1 : 0;
    case Sight::kDeparts:
      return std::min(1.0f, 4 * (1 - part));
    case Sight::kPasses:
      return part > 0 && part < 1 ? 1 : 0;
    default:
      return 1;
  }
}

float eased(float t) { return t * t * (3 - 2 * t); }

std::vector<Drawn> at_moment(const std::vector<Track>& tracks, float t) {
  std::vector<Drawn> drawn;
  for (const Track& track : tracks) {
    const auto [begin, end] = track.when();
    const float part = t >= end ? 1.0f : t <= begin ? 0.0f : (t - begin) / (end - begin);
    const float visible = opacity(track.sight, part);
    if (visible <= 0) continue;
    const float u = eased(part);
    Drawn one{.shape = track.last, .fill_was = track.first.fill, .edge_was = track.first.edge};
    one.shape.at = between(track.first.at, track.last.at, u);
    one.shape.size = between(track.first.size, track.last.size, u);
    one.shape.opacity *= visible;
    one.mix = u;
    drawn.push_back(std::move(one));
  }
  return drawn;
}

std::vector<Drawn> at_rest(const Scene& scene) { return at_moment(tracks(scene, scene), 1); }

}  // namespace viz
