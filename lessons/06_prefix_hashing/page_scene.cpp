// The picture: on top the request that asks, a link for each block's worth of its words; below it
// what can be found, as a tree. A lookup goes down from link to link.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "page_prefix.h"

namespace lesson06 {
namespace {

using viz::Ink;
using viz::paint;
using viz::Place;
using viz::Span;

constexpr float kHead = 20, kReason = 38, kLegend = 22, kGap = 8, kRow = 24;
constexpr float kLabel = 104, kAfter = 100, kVerdict = 104;  // of a comparison's rows
constexpr size_t kMostCandidates = 3, kMostTokens = 16;
constexpr float kLongest = 7;  // seconds
constexpr float kLinkComes = 0.15f, kLook = 0.9f, kToken = 0.05f, kComputed = 0.35f;

/// Where everything is.
struct Layout {
  float w = 0, h = 0, pitch = 0;  // of a card; from a card to the next one in its chain
  float comparison = 0, tree = 0, reason = 0;
  std::vector<std::pair<int, int>> cells;  // column and row of each node

  Place link(size_t i) const { return {static_cast<float>(i) * pitch, kHead, w, h}; }
  Place node(size_t i) const {
    return {static_cast<float>(cells[i].first) * pitch,
            tree + kHead + static_cast<float>(cells[i].second) * (h + kGap), w, h};
  }
};

/// Rows of the subtree of a node, which begins in `row`.
int place_node(const Shown& shown, size_t node, int column, int row, Layout& layout) {
  layout.cells[node] = {column, row};
  int rows = 0;
  for (size_t i = 0; i < shown.nodes.size(); ++i) {
    if (shown.nodes[i].after == node) rows += place_node(shown, i, column + 1, row + rows, layout);
  }
  return std::max(rows, 1);
}

Layout layout_of(const viz::Room& room, const Shown& shown) {
  Layout layout;
  layout.cells.resize(shown.nodes.size());
  int rows = 0;
  for (size_t i = 0; i < shown.nodes.size(); ++i) {
    if (!shown.nodes[i].after) rows += place_node(shown, i, 0, rows, layout);
  }
  size_t columns = std::max<size_t>(shown.links.size(), 3);
  for (const auto& [column, row] : layout.cells) {
    columns = std::max(columns, static_cast<size_t>(column) + 1);
  }
  float compared = 0;
  if (shown.comparison) {
    const size_t count = std::min(shown.comparison->candidates.size(), kMostCandidates) + 1;
    compared = static_cast<float>(count) * kRow + kGap;
  }
  layout.pitch = room.w / static_cast<float>(columns);
  layout.w = layout.pitch - std::clamp(0.22f * layout.pitch, 8.0f, 60.0f);
  const float fixed = 2 * kHead + compared + kReason + kLegend;
  layout.h = (room.h - fixed) / static_cast<float>(1 + std::max(rows, 2)) - kGap;
  layout.h = std::max(std::min(layout.h, 1.1f * layout.w), 2.0f);
  layout.comparison = kHead + (shown.links.empty() ? 0 : layout.h + kGap);
  layout.tree = layout.comparison + compared;
  layout.reason = room.h - kLegend - kReason;
  return layout;
}

/// When the lookup comes where, in seconds.
struct Story {
  bool tells = false;               // the last command was a lookup
  std::vector<float> looks;         // at each link
  std::map<int32_t, float> blocks;  // found or computed
  float compares = 0;               // the first candidate
  float seconds = 0.45f;

  Span at(float begin, float length) const {
    return tells ? Span{begin / seconds, (begin + length) / seconds} : Span{};
  }
  Span block(int32_t id) const {
    const auto found = blocks.find(id);
    return at(found == blocks.end() ? 0 : found->second, 0.3f);
  }
};

Story story_of(const Shown& shown) {
  Story story;
  story.tells = shown.num_looked_up > 0 || shown.asked;
  if (!story.tells) return story;
  float at = kLinkComes * static_cast<float>(shown.links.size()) + 0.4f;
  for (size_t i = 0; i < shown.num_looked_up; ++i) {
    story.looks.push_back(at);
    at += kLook;
    if (shown.comparison && shown.comparison->link == i) {
      story.compares = at;
      at += static_cast<float>(shown.comparison->candidates.size()) *
            (kToken * static_cast<float>(std::min<size_t>(
                          static_cast<size_t>(shown.pool.block_size), kMostTokens)) +
             0.7f);
    }
    if (shown.links[i].found) story.blocks[shown.links[i].id] = at - 0.3f;
  }
  for (const Shown::Link& link : shown.links) {
    if (link.found) continue;
    story.blocks[link.id] = at;
    at += kComputed;
  }
  story.seconds = at + 0.4f;
  return story;
}

/// Draws one picture.
class Picture {
 public:
  Picture(viz::Scene& scene, const Shown& shown)
      : scene_(scene),
        shown_(shown),
        layout_(layout_of(scene.room(), shown)),
        story_(story_of(shown)) {}

  void draw() {
    scene_.lasts(std::min(story_.seconds, kLongest));
    draw_heads();
    for (size_t i = 0; i < shown_.links.size(); ++i) draw_link(i);
    if (shown_.comparison) draw_comparison(*shown_.comparison);
    for (size_t i = 0; i < shown_.nodes.size(); ++i) draw_node(i);
    if (shown_.nodes.empty()) {
      const float top = layout_.tree + kHead;
      viz::pool(scene_, shown_.pool, {0, top, scene_.room().w, layout_.reason - kGap - top});
    }
    for (size_t i = 0; i < story_.looks.size(); ++i) draw_look(i);
  }
  float reason_at() const { return layout_.reason; }

 private:
  bool is_legible() const { return layout_.h >= 24 && layout_.w >= 40; }
  int hue() const {
    const auto found = std::ranges::find(shown_.tables, shown_.asker,
                                         [](const auto& table) { return table.sequence.name; });
    return found == shown_.tables.end() ? -1 : found->sequence.hue;
  }

  void draw_heads() {
    const viz::Room& room = scene_.room();
    const std::string whose =
        shown_.asker.empty() ? "No request runs: ask something"
                             : shown_.asker + ", block by block: each hash goes into the next one";
    scene_.label("asker", {0, 0, room.w, kHead - 2}, whose, {.size = 13, .paint = {Ink::kDim}})
        .during({0, 0.05f});
    const auto held = static_cast<int64_t>(shown_.nodes.size());
    const int64_t rest = std::ssize(shown_.pool.blocks) - held;
    scene_.label(
        "tree", {0, layout_.tree, room.w, kHead - 2},
        fmt::format("Blocks that hold something, after one another; {} hold nothing", rest),
        {.size = 13, .paint = {Ink::kDim}});
  }

  /// The hash of a card to the right of it, on its way into the next one.
  void draw_hash(const std::string& id, const Place& card, const std::string& hash,
                 const std::vector<Place>& next, const Span& when) {
    if (hash.empty()) return;
    const float gap = layout_.pitch - layout_.w, y = card.middle_y();
    for (size_t i = 0; i < next.size(); ++i) {
      scene_
          .line(fmt::format("{}/arrow {}", id, i), card.right() + 1, y, next[i].x - 1,
                next[i].middle_y(), paint(Ink::kDim))
          .pointing()
          .during(when);
    }
    if (gap < 28 || card.h < 24) return;
    const Place at{card.right() + 3, y - 17, gap - 8, 14};
    scene_.label(id + "/hash", at, hash, {.size = 12}, 7).during(when).tip("the end of its hash");
  }

  void draw_link(size_t i) {
    const Shown::Link& link = shown_.links[i];
    const std::string id = fmt::format("{}/link {}", shown_.asker, i);
    const Place at = layout_.link(i);
    const size_t first = scene_.shapes().size();
    viz::Shape& frame = viz::dress(scene_.box(id, at, {}), viz::State::kInUse, hue());
    frame.fill = paint(Ink::kPanel);
    draw_words(id, at, link.words, viz::soft(hue()));
    std::vector<Place> next;
    if (i + 1 < shown_.links.size()) next.push_back(layout_.link(i + 1));
    draw_hash(id, at, link.hash, next, {});
    const Span comes = story_.at(kLinkComes * static_cast<float>(i), 0.3f);
    for (viz::Shape& shape : scene_.since(first)) shape.during(comes);
    const Span known = story_.block(link.id);
    if (link.wrong || link.found) {
      scene_.box(id + "/taken", at, {}, paint(link.wrong ? Ink::kError : Ink::kText))
          .edged(paint(link.wrong ? Ink::kError : Ink::kText), 2.5f)
          .during(known);
    }
    if (!is_legible()) return;
    const std::string text = link.wrong   ? fmt::format("\u2717 block {}: other words", link.id)
                             : link.found ? fmt::format("\u2713 block {}", link.id)
                                          : fmt::format("block {}", link.id);
    scene_.label(id + "/block", {at.x + 5, at.y + 5, at.w - 10, 14}, text, {.size = 12}, 6)
        .during(known);
  }

  /// As viz::block() draws the slots of a block.
  void draw_words(const std::string& id, const Place& at, const std::vector<std::string>& words,
                  const viz::Paint& fill) {
    if (!is_legible()) return;
    const Place body{at.x + 5, at.y + 22, at.w - 10, at.h - 27};
    const viz::Grid slots = viz::slots_in(body, shown_.pool.block_size);
    if (std::min(slots.w, slots.h) < 12) return;
    for (size_t i = 0; i < words.size(); ++i) {
      const Place cell = slots.cell(static_cast<int>(i));
      const std::string slot = fmt::format("{}/slot {}", id, i);
      scene_.box(slot, cell, fill, paint(Ink::kLine, 0.6f)).radius = 2;
      scene_.label(slot + "/token", cell.inset(1), words[i],
                   {.size = std::min(15.0f, 0.62f * cell.h), .align = viz::Align::kCentre}, 6);
    }
  }

  void draw_node(size_t i) {
    const Shown::Node& node = shown_.nodes[i];
    const std::string id = fmt::format("block {}", node.id);
    const Place at = layout_.node(i);
    const Span known = story_.block(node.id), when = node.is_new ? known : story_.at(0, 0.3f);
    const size_t first = scene_.shapes().size();
    viz::block(scene_, shown_.pool, shown_.pool.blocks[static_cast<size_t>(node.id)], at);
    std::vector<Place> next;
    for (size_t k = 0; k < shown_.nodes.size(); ++k) {
      if (shown_.nodes[k].after == i) next.push_back(layout_.node(k));
    }
    draw_hash(id, at, node.hash, next, when);
    for (viz::Shape& shape : scene_.since(first)) shape.during(when);
    if (std::ranges::any_of(shown_.links, [&](const Shown::Link& link) {
          return link.found && link.id == node.id;
        })) {
      scene_.box(id + "/found", at, {}, paint(Ink::kText))
          .edged(paint(Ink::kText), 2.5f)
          .during(known);
    }
    draw_holders(node, at, known);
  }

  /// Whose tables have it.
  void draw_holders(const Shown::Node& node, const Place& at, const Span& known) {
    const size_t first = scene_.shapes().size();
    float x = at.right() - 5;
    for (const viz::TableView& table : shown_.tables) {
      const auto entry = std::ranges::find(table.block_ids, node.id);
      const std::string& name = table.sequence.name;
      const float w = viz::text_width(name, 11) + 8;
      if (entry == table.block_ids.end() || !is_legible() || x - w < at.middle_x()) continue;
      x -= w + 2;
      const std::string chip =
          fmt::format("{}/entry {}", name, std::distance(table.block_ids.begin(), entry));
      const Place place{x, at.y + 4, w, 15};
      scene_.box(chip, place, viz::soft(table.sequence.hue), viz::full(table.sequence.hue))
          .selecting(name)
          .radius = 3;
      scene_.label(chip + "/name", place, name, {.size = 11, .align = viz::Align::kCentre});
    }
    for (viz::Shape& shape : scene_.since(first)) shape.during(known);
  }

  /// From the link down to the block that was found or computed for it.
  void draw_look(size_t i) {
    const Shown::Link& link = shown_.links[i];
    const bool compares = shown_.comparison && shown_.comparison->link == i;
    const int32_t id = compares ? shown_.comparison->candidates.back().id : link.id;
    const auto node = std::ranges::find(shown_.nodes, id, &Shown::Node::id);
    const bool goes_down = (link.found || compares) && node != shown_.nodes.end();
    viz::Shape probe{.id = fmt::format("probe {}", i), .at = layout_.link(i)};
    probe.fill = paint(Ink::kText, 0.12f);
    probe.edged(paint(Ink::kMark), 3);
    if (goes_down) {
      const auto index = static_cast<size_t>(node - shown_.nodes.begin());
      scene_.ghost(probe, layout_.node(index), story_.at(story_.looks[i], kLook - 0.2f));
      return;
    }
    Place down = probe.at;
    down.y = std::min(layout_.tree + kHead, scene_.room().h - down.h);
    probe.dashed_edge();
    scene_.ghost(probe, down, story_.at(story_.looks[i], kLook - 0.2f));
    viz::Shape none{.kind = viz::Shape::Kind::kText,
                    .id = fmt::format("probe {}/none", i),
                    .at = probe.at,
                    .fill = paint(Ink::kError),
                    .text = "\u2717",
                    .size = std::min(60.0f, probe.at.h * 0.6f),
                    .align = viz::Align::kCentre};
    scene_.ghost(none, down, story_.at(story_.looks[i], kLook - 0.2f));
  }

  /// Wanted, and below it what the blocks with its hash hold: what differs is struck out.
  void draw_comparison(const Shown::Comparison& comparison) {
    const std::vector<std::string>& wanted = shown_.links[comparison.link].words;
    const size_t count = std::min(comparison.candidates.size(), kMostCandidates);
    float y = layout_.comparison;
    const float asked = story_.compares - 0.4f;
    draw_row("compare/asked", y, fmt::format("{} asks", shown_.asker),
             {comparison.after, wanted, viz::soft(hue())}, nullptr, asked, 0.02f);
    float at = story_.compares;
    for (size_t k = 0; k < count; ++k) {
      const Shown::Candidate& one = comparison.candidates[k];
      const std::string id = fmt::format("compare/{}", k);
      const Row against{comparison.after, wanted, {}};
      y += kRow;
      draw_row(id, y, fmt::format("block {} holds", one.id),
               {one.after, one.words, paint(Ink::kCell)}, &against, at, kToken);
      at += kToken * static_cast<float>(std::min(one.words.size(), kMostTokens));
      const bool taken = comparison.trusted && k + 1 == count;
      const std::string verdict = one.is_same ? "\u2713 the same"
                                  : taken     ? "\u2717 taken: wrong"
                                              : "\u2717 refused";
      scene_
          .label(id + "/verdict", {scene_.room().w - kVerdict + 6, y, kVerdict - 6, kRow - 4},
                 verdict, {.size = 13, .paint = {one.is_same ? Ink::kText : Ink::kError}})
          .during(story_.at(at, 0.3f));
      at += 0.5f;
    }
  }

  struct Row {
    std::string after;
    const std::vector<std::string>& words;
    viz::Paint fill;
  };
  void draw_row(const std::string& id, float y, const std::string& label, const Row& row,
                const Row* against, float begin, float step) {
    const float h = kRow - 4, width = scene_.room().w - kLabel - kAfter - kVerdict;
    scene_.label(id + "/label", {0, y, kLabel - 6, h}, label).during(story_.at(begin, 0.2f));
    draw_cell(id + "/after", {kLabel, y, kAfter - 6, h}, "after " + row.after, paint(Ink::kCell),
              against != nullptr && against->after != row.after, begin);
    const size_t count = std::min(row.words.size(), kMostTokens);
    const float w = width / static_cast<float>(std::max<size_t>(count, 4));
    for (size_t i = 0; i < count; ++i) {
      const bool differs = against != nullptr && against->words[i] != row.words[i];
      draw_cell(fmt::format("{}/{}", id, i),
                {kLabel + kAfter + static_cast<float>(i) * w, y, w - 2, h}, row.words[i], row.fill,
                differs, begin + step * static_cast<float>(i));
    }
  }

  void draw_cell(const std::string& id, const Place& at, const std::string& text,
                 const viz::Paint& fill, bool differs, float begin) {
    const Span when = story_.at(begin, 0.15f);
    viz::Shape& box = scene_.box(id, at, fill, paint(differs ? Ink::kError : Ink::kLine));
    box.edged(box.edge, differs ? 2.0f : 1.0f).during(when).radius = 3;
    viz::Shape& word = scene_.label(id + "/token", at.inset(2), text,
                                    {.size = 12, .align = viz::Align::kCentre}, 5);
    word.during(when).struck = differs;
  }

  viz::Scene& scene_;
  const Shown& shown_;
  Layout layout_;
  Story story_;
};

}  // namespace

viz::Scene PrefixPage::scene(const viz::Room& room) {
  viz::Scene scene(room);
  Picture picture(scene, now_);
  picture.draw();
  const size_t first = scene.shapes().size();
  viz::note(scene, "reason", {0, picture.reason_at(), room.w, kReason - 6}, reason_);
  for (viz::Shape& shape : scene.since(first)) {
    scene.leaves(shape.id, shape.at, {0, 0.05f});  // what was said before
    shape.during({0.9f, 1});
  }
  viz::legend(scene, {0, room.h - kLegend + 2, room.w, kLegend - 2},
              {{viz::State::kInUse, "held by requests"},
               {viz::State::kFound, "found"},
               {viz::State::kCached, "free, can be found"}});
  return scene;
}

}  // namespace lesson06
