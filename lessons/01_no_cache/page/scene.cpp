#include "scene.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "common/table.h"
#include "viz/drawing/parts.h"
#include "viz/drawing/text_room.h"

namespace lesson01 {
namespace {

constexpr int kHue = 0;
constexpr size_t kMostCells = 1500;  // more: a row is one bar
constexpr float kPassNames = 54, kWord = 70, kHead = 20;
constexpr float kTallest = 1.4f;  // of cells, height by width
constexpr viz::Span kZoom{0, 0.2f}, kCompute{0.2f, 0.85f};

/// New rows are bright; the others are grey, and hatched.
viz::Shape& dress(viz::Shape& box, bool again) {
  if (again) return viz::dress(box, viz::State::kReserved).edged(viz::paint(viz::Ink::kDim));
  viz::dress(box, viz::State::kInUse, kHue).fill = viz::full(kHue);
  return box;
}

/// When a smooth motion has done this part of its way.
float moment_of(float part) { return 0.5f - std::sin(std::asin(1 - 2 * part) / 3); }

/// Number of rows that get room. It grows by half or more at a time, so that the cells do not
/// shrink at every step. The opening (11) and a whole run (41) fill theirs.
size_t room_for(size_t rows) {
  for (const size_t room : {6, 11, 18, 27}) {
    if (rows <= room) return room;
  }
  size_t room = 41;
  while (room < rows) room += room / 2;
  return room;
}

/// The smallest n of 1, 5, 10, 50, ... for which n rows are at least `height` high.
size_t every_nth(float row, float height) {
  size_t n = 1;
  while (static_cast<float>(n) * row < height) n *= n % 5 == 0 && n % 10 != 0 ? 2 : 5;
  return n;
}

class Triangle {
 public:
  Triangle(viz::Scene& scene, const TriangleView& view, const viz::Place& at,
           const viz::Place& kept_free);
  void draw();

 private:
  size_t prompt() const { return view_.passes[0]; }
  viz::Place cell(size_t pass, size_t token) const {
    return {at_.x + static_cast<float>(token) * w_, at_.y + static_cast<float>(pass) * h_,
            w_ - gap_, h_ - gap_};
  }
  /// When this pass runs, in the motion to this scene.
  viz::Span when(size_t pass) const;
  void draw_cells(size_t pass);
  void draw_bars(size_t pass);
  void draw_word(size_t token);
  void draw_prompt();
  void tell(viz::Shape& shape, size_t pass, size_t token, bool again) const;

  viz::Scene& scene_;
  const TriangleView& view_;
  viz::Place at_;  // of the cells
  float free_x_, w_ = 0, h_ = 0, gap_ = 0;
  bool as_cells_ = true;
};

Triangle::Triangle(viz::Scene& scene, const TriangleView& view, const viz::Place& at,
                   const viz::Place& kept_free)
    : scene_(scene),
      view_(view),
      at_{at.x + kPassNames, at.y + kHead, at.w - kPassNames - kWord, at.h - kHead},
      free_x_(kept_free.x) {
  const size_t rows = room_for(view.passes.size() + 1);
  const auto all = static_cast<float>(prompt() + rows - 1);
  h_ = std::min(at_.h / static_cast<float>(rows), 64.0f);
  // Keeps the words at the ends of the upper rows out of `kept_free`.
  const float beside = kept_free.x - kWord - at_.x, first = static_cast<float>(prompt());
  w_ = std::min({at_.w / all, beside / (first + std::ceil(kept_free.bottom() / h_)), 2.2f * h_});
  if (h_ > kTallest * w_) {
    w_ = std::min(w_, (beside - kept_free.bottom() / kTallest) / (first + 1));
    h_ = kTallest * w_;
  }
  gap_ = std::min(w_, h_) > 8 ? 2.0f : std::min(w_, h_) > 3 ? 1.0f : 0.0f;
  const auto cells = std::accumulate(view.passes.begin(), view.passes.end(), size_t{0});
  as_cells_ = cells <= kMostCells;
}

viz::Span Triangle::when(size_t pass) const {
  if (pass < view_.seen) return kZoom;
  const auto count = static_cast<float>(view_.passes.size() - view_.seen);
  const float each = (kCompute.end - kCompute.begin) / count;
  const float begin = kCompute.begin + static_cast<float>(pass - view_.seen) * each;
  return {begin, begin + each};
}

void Triangle::tell(viz::Shape& shape, size_t pass, size_t token, bool again) const {
  dress(shape, again).thickness = h_ > 8 ? 1.2f : 0.6f;
  shape.radius = std::min(3.0f, h_ / 5);
  shape.tip(fmt::format("pass {}: K and V of token {}, \"{}\",\n{}", pass + 1, token,
                        view_.words[token], again ? "computed again" : "for the first time"));
}

void Triangle::draw_cells(size_t pass) {
  const auto [begin, end] = when(pass);
  const size_t rows = view_.passes[pass];
  const size_t old = pass > 0 ? rows - 1 : 0;
  const auto part = [&, begin = begin, end = end](size_t token) {
    return begin + (end - begin) * moment_of(static_cast<float>(token) / static_cast<float>(rows));
  };
  for (size_t token = 0; token < rows; ++token) {
    viz::Shape& box =
        scene_.box(fmt::format("row {}/{}", pass + 1, token), cell(pass, token), {}, {});
    tell(box, pass, token, token < old);
    box.during(pass < view_.seen ? kZoom : viz::Span{part(token), part(token + 1)});
  }
}

/// All rows that are computed again as one bar.
void Triangle::draw_bars(size_t pass) {
  const size_t rows = view_.passes[pass];
  const size_t old = pass > 0 ? rows - 1 : 0;
  const auto bar = [&](const char* id, size_t first, size_t last, bool again) {
    viz::Place at = cell(pass, first);
    at.w = cell(pass, last).right() - at.x;
    viz::Shape& box = scene_.box(fmt::format("row {}/{}", pass + 1, id), at, {}, {});
    tell(box, pass, last, again);
    box.during(when(pass));
  };
  if (old > 0) bar("again", 0, old - 1, true);
  bar("new", old, rows - 1, false);
}

/// Each word is where its column begins: after the row of the first pass that runs it.
void Triangle::draw_word(size_t token) {
  const size_t pass = token - prompt() + 1, count = view_.passes.size();
  const viz::Span after{when(pass - 1).end, std::min(when(pass - 1).end + 0.1f, 1.0f)};
  const viz::Place at = cell(pass, token);
  if (pass == count) {  // drawn by the last pass
    viz::Shape& next =
        viz::dress(scene_.box(fmt::format("next {}", token), at, {}), viz::State::kFree);
    next.edged(viz::paint(viz::Ink::kDim)).radius = 3;
    next.tip("drawn by the last pass: the next one runs it").during(after);
  }
  if (h_ < 9 && pass < count) return;
  const float size = std::clamp(0.85f * h_, 9.0f, 14.0f);
  scene_
      .label(fmt::format("token {}", token),
             {at.right() + 4, at.middle_y() - size, kWord, 2 * size}, view_.words[token],
             {.size = size}, 6)
      .during(pass <= view_.seen ? kZoom : after);
}

void Triangle::draw_prompt() {
  std::string all;
  bool fits = true;
  for (size_t i = 0; i < prompt(); ++i) {
    all += (i > 0 ? " " : "") + view_.words[i];
    fits = fits && viz::text_width(view_.words[i], viz::readable(scene_.room(), 10)) + 4 < w_;
  }
  const viz::Place head{at_.x, at_.y - kHead, w_, kHead - 2};
  if (!fits) {
    const float room = free_x_ - at_.x - 8;
    if (viz::text_width(all, 13) > room) all = kv::count_of(view_.passes[0], "token");
    scene_.label("prompt", {head.x, head.y, room, head.h}, all).during(kZoom);
    return;
  }
  for (size_t i = 0; i < prompt(); ++i) {
    scene_
        .label(fmt::format("token {}", i),
               {head.x + 1 + static_cast<float>(i) * w_, head.y, w_ - 4, head.h}, view_.words[i],
               {.align = viz::Align::kCentre})
        .during(kZoom);
  }
}

void Triangle::draw() {
  draw_prompt();
  const size_t nth = every_nth(h_, 13);
  for (size_t pass = 0; pass < view_.passes.size(); ++pass) {
    if ((pass + 1) % nth == 0) {
      const viz::Place row = cell(pass, 0);
      scene_
          .label(fmt::format("pass {}", pass + 1),
                 {row.x - kPassNames, row.middle_y() - 8, kPassNames - 6, 16},
                 fmt::format("pass {}", pass + 1),
                 {.size = std::min(12.0f, 0.9f * h_ * static_cast<float>(nth)),
                  .paint = {viz::Ink::kDim}})
          .during(when(pass));
    }
    as_cells_ ? draw_cells(pass) : draw_bars(pass);
    if (pass < view_.seen || !as_cells_) continue;
    const auto last = static_cast<size_t>(view_.passes[pass]) - 1;
    viz::Shape model{.id = fmt::format("ring {}", pass), .at = cell(pass, 0).inset(-2)};
    scene_.ghost(model.edged(viz::paint(viz::Ink::kMark), 2), cell(pass, last).inset(-2),
                 when(pass));
  }
  for (size_t token = prompt(); token < view_.words.size(); ++token) draw_word(token);
}

/// A big number, its caption, and a bar of that length: rows computed for the first time, and from
/// `fresh` on those that were computed again.
void draw_sum(viz::Scene& scene, const std::string& id, const viz::Place& at,
              std::array<int64_t, 2> from_to, int64_t fresh, int64_t all,
              const std::string& caption) {
  const float digits = 0.6f * at.h;
  viz::count_up(scene, id, {at.x, at.y, at.w, digits}, from_to[0], from_to[1],
                {.size = std::min(0.8f * digits, viz::kLargest)}, kCompute);
  scene.label(id + "/what", {at.x, at.y + digits, at.w, 0.18f * at.h}, caption,
              {.size = std::min(15.0f, 0.16f * at.h), .paint = {viz::Ink::kDim}});
  const auto width = [&](int64_t rows) {
    return at.w * static_cast<float>(rows) / static_cast<float>(all);
  };
  const viz::Place bar{at.x, at.y + 0.82f * at.h, width(fresh), 0.12f * at.h};
  dress(scene.box(id + "/bar", bar, {}), false).during(kCompute).radius = 2;
  if (fresh == from_to[1]) return;
  const viz::Place again{bar.right(), bar.y, width(from_to[1] - fresh), bar.h};
  dress(scene.box(id + "/bar/again", again, {}), true).during(kCompute).radius = 2;
}

void draw_sums(viz::Scene& scene, const TriangleView& view, const viz::Place& at) {
  const auto seen = view.passes.begin() + static_cast<std::ptrdiff_t>(view.seen);
  const int64_t before = std::accumulate(view.passes.begin(), seen, int64_t{0});
  const int64_t rows = std::accumulate(seen, view.passes.end(), before);
  const int64_t needed = view.passes.back();
  const int first = view.passes.front();
  const size_t count = view.passes.size();
  const float h = at.h / 2;
  draw_sum(scene, "needed", {at.x, at.y, at.w, h - 6},
           {view.seen > 0 ? view.passes[view.seen - 1] : 0, needed}, needed, rows,
           "rows needed, one for each token");
  draw_sum(scene, "computed", {at.x, at.y + h, at.w, h - 6}, {before, rows}, needed, rows,
           count == 1   ? "rows were computed"
           : count == 2 ? fmt::format("rows were computed: {} + {}", first, needed)
                        : fmt::format("rows were computed: {} + \u2026 + {}", first, needed));
}

}  // namespace

viz::Scene triangle_scene(const viz::Room& room, const TriangleView& view) {
  if (view.passes.empty()) {
    return viz::empty_scene(room, "No pass yet: \"Generate\" runs the first.");
  }
  viz::Scene scene(room);
  const auto ran = static_cast<float>(view.passes.size() - view.seen);
  scene.lasts(std::clamp(0.4f + 0.3f * ran, 0.6f, 3.0f));
  const bool narrow = viz::is_narrow(room);
  const float legend = narrow ? 44 : 22, top = narrow ? 150 : 0;  // of the triangle, below the sums
  const viz::Place all{0, top, room.w, room.h - top - legend - 8};
  viz::Place sums{0.66f * all.w, 0, 0.34f * all.w, std::min(0.46f * all.h, 0.26f * all.w)};
  if (narrow) sums = {0, 0, all.w, top - 8};
  Triangle(scene, view, all, narrow ? viz::Place{all.w, 0, 0, 0} : sums).draw();
  draw_sums(scene, view, sums);
  viz::legend(scene, {0, room.h - legend, room.w, legend},
              {{viz::State::kDecode, "computed for the first time", kHue},
               {viz::State::kReserved, "computed again"},
               {viz::State::kFree, "drawn, not run yet"}});
  return scene;
}

}  // namespace lesson01
