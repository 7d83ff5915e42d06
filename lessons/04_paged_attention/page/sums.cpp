#include "sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "viz/drawing/text_room.h"

namespace lesson04 {
namespace {

using viz::Ink;
using viz::Place;
using viz::Span;

constexpr float kHead = 17;  // height of the names of the columns, times the unit
constexpr Span kScale{0.05f, 0.35f}, kDown{0.4f, 0.8f}, kThere{0.75f, 0.95f};

struct Row {
  std::string id;    // whose m, l and acc
  std::string name;  // as it is shown
  Summary summary;
  float factor = 1;  // exp(its m - the new one)
};

class SumsPainter {
 public:
  SumsPainter(viz::Scene& scene, const WalkStep& step, const Place& at, float unit)
      : scene_(scene), step_(step), unit_(unit), rows_(rows_of(step)) {
    pitch_ = (at.h - kHead * unit) / static_cast<float>(rows_.size());
    first_ = {at.x, at.y + kHead * unit, at.w, pitch_ - 6 * unit};
  }

  void draw() {
    const Place head{first_.x, first_.y - kHead * unit_, first_.w, kHead * unit_};
    const viz::Type type{.size = 12 * unit_, .paint = {Ink::kDim}};
    const bool narrow = viz::is_narrow(scene_.room());  // it then reaches over the names
    const Place m = column(head, narrow ? 0.01f : ends()[0], ends()[1]);
    scene_.label("head/m", m, "largest score", type, 7)
        .tip("of a group's first tile; m moves only when a later score is far above it")
        .align = narrow ? viz::Align::kRight : viz::Align::kLeft;
    scene_.label("head/l", column(head, ends()[1], ends()[3]), "sum of weights", type, 7);
    scene_.label("head/acc", column(head, ends()[3], 1), "weighted sum of V", type, 7);
    Place at = first_;
    for (size_t i = 0; i < rows_.size(); ++i, at.y += pitch_) draw_row(i, at);
  }

 private:
  static std::vector<Row> rows_of(const WalkStep& step) {
    const std::string group = fmt::format("group {}", step.group);
    if (step.kind == Kind::kDivide) {
      return {{"result", "result", step.before},
              {"now", "out = acc / l", {.m = 0, .l = 0, .acc = step.out}}};
    }
    std::vector<Row> rows;
    if (step.kind == Kind::kTile) {
      rows = {{group, group + " so far", step.before}, {"now", group + " now", step.after}};
    } else {
      rows = {{"result", "result so far", step.before},
              {group, group, step.taken},
              {"now", "result now", step.after}};
    }
    for (Row& row : rows) {
      if (!step.before.acc.empty()) row.factor = std::exp(row.summary.m - step.after.m);
    }
    return rows;
  }

  bool is_last(size_t row) const { return row + 1 == rows_.size(); }
  bool is_out(size_t row) const { return step_.kind == Kind::kDivide && is_last(row); }

  /// The longest bar: of all rows, except that the quotients are far smaller than the sums.
  float longest(size_t of_row) const {
    float most = 1e-6f;
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (is_out(i) != is_out(of_row)) continue;
      for (const float value : rows_[i].summary.acc) {
        most = std::max(most, std::abs(value) * rows_[i].factor);
      }
    }
    return most;
  }

  /// Where the columns of a row end, as shares of its width: name, m, l, factor.
  std::array<float, 4> ends() const {
    return viz::is_narrow(scene_.room())    ? std::array{0.25f, 0.39f, 0.54f, 0.68f}
           : viz::is_in_text(scene_.room()) ? std::array{0.2f, 0.35f, 0.47f, 0.6f}
                                            : std::array{0.15f, 0.24f, 0.34f, 0.47f};
  }
  /// One column of a row; `from` and `to` are shares of the width.
  Place column(const Place& row, float from, float to) const {
    return {row.x + from * row.w, row.y, (to - from) * row.w - 8, row.h};
  }

  void draw_row(size_t number, const Place& at) {
    const Row& row = rows_[number];
    const std::string id = fmt::format("row {}", number);
    scene_.box(id, at, viz::paint(Ink::kPanel)).radius = 5;
    scene_.label(id + "/name", column(at, 0.01f, ends()[0]), row.name, {.size = 13 * unit_}, 7);
    if (row.summary.acc.empty()) {
      scene_.label(id + "/none", column(at, ends()[0], 0.5f), "nothing yet",
                   {.size = 12 * unit_, .paint = {Ink::kDim}});
      return;
    }
    const auto number_at = [&](int column_end, const char* name, float value) {
      scene_
          .label(fmt::format("{}/{}", id, name),
                 column(at, ends()[column_end - 1], ends()[column_end]),
                 fmt::format("{} {:.3f}", name, static_cast<double>(value)), {.size = 12 * unit_},
                 7)
          .during(is_last(number) ? kThere : Span{0, 0.2f});
    };
    if (!is_out(number)) {
      number_at(1, "m", row.summary.m);
      number_at(2, "l", row.summary.l);
    }
    if (row.factor != 1) {
      scene_
          .label(id + "/factor", column(at, ends()[2], ends()[3]),
                 fmt::format("\u00D7 {:.4f}", static_cast<double>(row.factor)),
                 {.size = 14 * unit_, .align = viz::Align::kCentre}, 7)
          .tip(fmt::format("exp({:.4f} - {:.4f}): its m, and the new one",
                           static_cast<double>(row.summary.m), static_cast<double>(step_.after.m)))
          .during({0, 0.15f});
    }
    draw_acc(number, column(at, ends()[3], 1));
  }

  /// Bars up and down from the middle; a scaled row shows the part that is left of them. They go
  /// down into the last row.
  void draw_acc(size_t number, const Place& at) {
    const Row& row = rows_[number];
    const auto count = static_cast<float>(row.summary.acc.size());
    const float w = at.w / count, half = at.h / 2 - 2, most = longest(number);
    scene_.line(fmt::format("row {}/zero", number), at.x, at.middle_y(), at.right(), at.middle_y(),
                viz::paint(Ink::kLine), 1);
    for (size_t i = 0; i < row.summary.acc.size(); ++i) {
      const float high = half * row.summary.acc[i] * row.factor / most;
      const Place bar{at.x + w * static_cast<float>(i) + 1, at.middle_y() - std::max(high, 0.0f),
                      w - 2, std::max(std::abs(high), 0.5f)};
      viz::Shape& shape = scene_.box(fmt::format("{}/acc {}", row.id, i), bar, viz::full(kHue));
      shape.radius = 1;
      shape.tip(fmt::format("acc[{}] = {}", i, row.summary.acc[i]));
      if (is_last(number)) {
        shape.during(kThere);
        continue;
      }
      shape.comes_from(fmt::format("now/acc {}", i), kScale);
      viz::Shape ghost = shape;
      ghost.id += " joins";
      ghost.from.clear();
      Place to = bar;
      to.y += pitch_ * static_cast<float>(rows_.size() - 1 - number);
      scene_.ghost(std::move(ghost), to, kDown);
    }
  }

  viz::Scene& scene_;
  const WalkStep& step_;
  const float unit_;
  const std::vector<Row> rows_;
  float pitch_;  // from a row to the next
  Place first_;  // the first row's
};

}  // namespace

void draw_sums(viz::Scene& scene, const WalkStep& step, const viz::Place& at, float unit) {
  SumsPainter(scene, step, at, unit).draw();
}

}  // namespace lesson04
