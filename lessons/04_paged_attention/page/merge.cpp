#include "merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "viz/drawing/text_room.h"

namespace lesson04 {
namespace {

using viz::Align;
using viz::Ink;
using viz::Place;
using viz::Span;
using Kind = WalkStep::Kind;

constexpr int kHue = 0;  // there is one sequence
constexpr Span kScale{0.05f, 0.35f}, kDown{0.4f, 0.8f}, kThere{0.75f, 0.95f};

/// One of the three rows of the picture.
struct Row {
  std::string id;    // whose m, l and acc
  std::string name;  // as it is shown
  Summary summary = {};
  float factor = 1;  // exp(its m - the larger one)
  bool scaled = false;
};

float factor_of(const Summary& summary, const WalkStep& step) {
  return std::exp(summary.m - step.after.m);
}

class MergePainter {
 public:
  MergePainter(viz::Scene& scene, const std::vector<WalkStep>& steps, int position, const Place& at,
               float unit)
      : scene_(scene),
        steps_(steps),
        step_(steps[position]),
        position_(position),
        at_(at),
        unit_(unit) {}

  void draw() {
    const std::string tile = fmt::format("tile {}", step_.tile);
    const std::string group = fmt::format("group {}", step_.group);
    find_scale();
    switch (step_.kind) {
      case Kind::kTile:
        rows({group, group + " so far", group_before()},
             {tile, tile + ", from scratch", step_.after}, {"now", ""});
        break;
      case Kind::kMergeTile:
        merge({group, group + " so far", step_.before}, {tile, tile, step_.taken}, group + " now");
        break;
      case Kind::kMergeGroup:
        merge({"result", "result so far", step_.before}, {group, group, step_.taken}, "result now");
        break;
      case Kind::kDivide:
        rows({"", ""}, {"result", "result", step_.before},
             {"now", "out = acc / l", {.m = 0, .l = 0, .acc = step_.out}});
        break;
    }
  }

 private:
  /// The group's partial result before this tile joins it; an empty acc means none yet.
  Summary group_before() const {
    for (int i = position_ - 1; i >= 0; --i) {
      const WalkStep& s = steps_[i];
      if (s.kind == Kind::kMergeTile) return s.group == step_.group ? s.after : Summary{};
    }
    return {};
  }

  /// All steps that join the same group or result share one scale of bars, so that shrinking is
  /// seen.
  void find_scale() {
    const auto same = [&](const WalkStep& s) {
      if (step_.kind == Kind::kDivide) return &s == &step_;
      if (step_.kind == Kind::kMergeGroup) return s.kind == Kind::kMergeGroup;
      return s.group == step_.group && (s.kind == Kind::kTile || s.kind == Kind::kMergeTile);
    };
    for (const WalkStep& s : steps_) {
      if (!same(s)) continue;
      for (const Summary* one : {&s.before, &s.taken, &s.after}) {
        if (one->acc.empty()) continue;
        for (const float value : one->acc) most_ = std::max(most_, std::abs(value));
        most_l_ = std::max(most_l_, one->l);
      }
    }
    for (const float value : step_.out) max_out_ = std::max(max_out_, std::abs(value));
  }

  void merge(Row before, Row taken, const std::string& now) {
    for (Row* row : {&before, &taken}) {
      if (row->summary.acc.empty()) continue;
      row->factor = factor_of(row->summary, step_);
      row->scaled = !step_.before.acc.empty();
    }
    rows(before, taken, {"now", now, step_.after});
  }

  void rows(const Row& first, const Row& second, const Row& last) {
    const float pitch = at_.h / 3;
    places_ = {at_.x, at_.y, at_.w, pitch - 6 * unit_};
    place_of_now_ = {at_.x, at_.y + 2 * pitch, at_.w, places_.h};
    draw_row(first, places_, 0);
    places_.y += pitch;
    draw_row(second, places_, 1);
    draw_row(last, place_of_now_, 2);
  }

  /// When the numbers of a row appear; those of a new tile appear when it has been read.
  Span when(const std::string& id, bool is_sum) const {
    if (is_sum) return kThere;
    return step_.kind == Kind::kTile && id == "row 1" ? Span{0.8f, 1} : Span{0, 0.2f};
  }

  /// Where the columns of a row end, as shares of its width: name, m, l, factor.
  std::array<float, 4> ends() const {
    return viz::is_narrow(scene_.room())    ? std::array{0.25f, 0.39f, 0.54f, 0.68f}
           : viz::is_in_text(scene_.room()) ? std::array{0.22f, 0.34f, 0.46f, 0.6f}
                                            : std::array{0.15f, 0.24f, 0.34f, 0.47f};
  }
  /// One column of a row; `from` and `to` are shares of the width.
  Place column(const Place& row, float from, float to) const {
    return {row.x + from * row.w, row.y, (to - from) * row.w - 8, row.h};
  }

  void draw_row(const Row& row, const Place& at, int number) {
    if (row.name.empty()) return;
    const std::string id = fmt::format("row {}", number);
    scene_.box(id, at, viz::paint(Ink::kPanel)).radius = 5;
    scene_.label(id + "/name", column(at, 0.01f, ends()[0]), row.name, {.size = 13 * unit_}, 7);
    if (row.summary.acc.empty()) {
      scene_.label(id + "/none", column(at, ends()[0], 0.5f), "nothing yet",
                   {.size = 12 * unit_, .paint = {Ink::kDim}});
      return;
    }
    const bool is_out = step_.kind == Kind::kDivide && number == 2;
    if (!is_out) draw_numbers(row, at, id, number == 2 && step_.kind != Kind::kTile);
    draw_acc(row, column(at, ends()[3], 1), number, is_out ? max_out_ : most_);
  }

  void draw_numbers(const Row& row, const Place& at, const std::string& id, bool is_sum) {
    const Place m = column(at, ends()[0], ends()[1]), l = column(at, ends()[1], ends()[2]);
    const auto number = [&](const std::string& name, const Place& place, const std::string& text) {
      scene_.label(id + name, place, text, {.size = 12 * unit_}, 7).during(when(id, is_sum));
    };
    number("/m", m, fmt::format("m {:.3f}", static_cast<double>(row.summary.m)));
    Place upper = l;
    upper.h = 0.62f * l.h;
    const float l_now = row.scaled ? row.summary.l * row.factor : row.summary.l;
    number("/l", upper, fmt::format("l {:.3f}", static_cast<double>(row.summary.l)));
    const Place bar{l.x, upper.bottom(), std::max(1.0f, l.w * l_now / most_l_), 0.2f * l.h};
    const bool shrinks = !is_sum && step_.kind != Kind::kTile;
    scene_.box(row.id + "/l bar", bar, viz::full(kHue))
        .during(shrinks ? kScale : when(id, is_sum))
        .radius = 1;
    if (!row.scaled) return;
    scene_
        .label(id + "/factor", column(at, ends()[2], ends()[3]),
               fmt::format("\u00D7 {:.4f}", static_cast<double>(row.factor)),
               {.size = 14 * unit_, .align = Align::kCentre}, 7)
        .tip(fmt::format("exp({:.4f} - {:.4f}): its m, and the larger one",
                         static_cast<double>(row.summary.m), static_cast<double>(step_.after.m)))
        .during({0, 0.15f});
  }

  /// Bars up and down from the middle; a scaled row shows the part that is left of them.
  void draw_acc(const Row& row, const Place& at, int number, float most) {
    const auto count = static_cast<float>(row.summary.acc.size());
    const float w = at.w / count, half = at.h / 2 - 2;
    const bool is_sum = number == 2;
    scene_.line(fmt::format("row {}/zero", number), at.x, at.middle_y(), at.right(), at.middle_y(),
                viz::paint(Ink::kLine), 1);
    for (size_t i = 0; i < row.summary.acc.size(); ++i) {
      const float value = row.summary.acc[i] * (row.scaled ? row.factor : 1.0f);
      const float high = half * value / most;
      const Place bar{at.x + w * static_cast<float>(i) + 1, at.middle_y() - std::max(high, 0.0f),
                      w - 2, std::max(std::abs(high), 0.5f)};
      const std::string id = fmt::format("{}/acc {}", row.id, i);
      viz::Shape& shape = scene_.box(id, bar, viz::full(kHue));
      shape.radius = 1;
      shape.tip(fmt::format("acc[{}] = {}", i, row.summary.acc[i]));
      const bool merges = step_.kind == Kind::kMergeTile || step_.kind == Kind::kMergeGroup;
      if (is_sum) {
        shape.during(kThere);
      } else if (merges) {
        shape.during(kScale);
        viz::Shape ghost = shape;
        ghost.id = id + " joins";
        ghost.from.clear();
        Place to = bar;
        to.y += place_of_now_.y - places_.y;
        scene_.ghost(std::move(ghost), to, kDown);
      } else if (number == 1) {
        shape.during(step_.kind == Kind::kTile ? Span{0.8f, 1} : kScale);
      } else {
        shape.comes_from(fmt::format("now/acc {}", i), {0, 0.25f});
      }
    }
  }

  viz::Scene& scene_;
  const std::vector<WalkStep>& steps_;
  const WalkStep& step_;
  const int position_;
  const Place at_;
  const float unit_;
  Place places_ = {}, place_of_now_ = {};
  float most_ = 1e-6f, most_l_ = 1e-6f, max_out_ = 1e-6f;
};

}  // namespace

void draw_merge(viz::Scene& scene, const std::vector<WalkStep>& steps, int position,
                const Place& at, float unit) {
  MergePainter(scene, steps, position, at, unit).draw();
}

}  // namespace lesson04
