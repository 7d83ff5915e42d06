// The picture. On top are the words of the request that asks, a link for each block's worth. Below
// are the blocks that can be found, as a tree. A lookup goes down from link to link.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>

#include "common/table.h"
#include "prefix.h"
#include "viz/drawing/chains.h"
#include "viz/drawing/compared_rows.h"
#include "viz/drawing/pool_motion.h"
#include "viz/drawing/text_room.h"

namespace lesson06 {
namespace {

using viz::Ink;
using viz::paint;
using viz::Place;
using viz::Span;

constexpr float kHead = 20, kReason = 38, kGap = 8, kRow = 24;
constexpr size_t kMaxCandidates = 3, kMostLines = 2;
constexpr float kLongest = 7;  // seconds
constexpr float kLinkComes = 0.15f, kLook = 0.9f, kToken = 0.05f, kComputed = 0.35f;

/// The places of all parts of the picture. Chains go to the right, the links above the blocks; on a
/// phone they go down, the links to the left of the blocks.
struct Layout {
  bool down = false;
  float w = 0, h = 0, gap = 0;   // of a card; to the next one in its chain
  float row = kRow;              // of the comparison
  float top = kHead;             // of the first link
  float link_h = 0, words = 15;  // of a link; the size of its words
  float comparison = 0, tree = 0, reason = 0, legend = 22;
  viz::Forest forest;  // of the nodes
  bool has_links = false;

  Place link(size_t i) const {
    const auto n = static_cast<float>(i);
    return down ? Place{0, top + n * (h + gap), w, h} : Place{n * (w + gap), top, w, link_h};
  }
  Place node(size_t i) const {
    const auto along = static_cast<float>(forest.cells[i].column),
               beside = static_cast<float>(forest.cells[i].row + (down && has_links ? 1 : 0));
    return down ? Place{beside * (w + kGap), top + along * (h + gap), w, h}
                : Place{along * (w + gap), tree + kHead + beside * (h + kGap), w, h};
  }
};

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

Layout layout_of(const viz::Room& room, const Shown& shown) {
  std::vector<std::optional<size_t>> parents;
  for (const Shown::Node& node : shown.nodes) parents.push_back(node.after);
  Layout layout{.down = viz::is_narrow(room),
                .forest = viz::forest_of(parents),
                .has_links = !shown.links.empty()};
  // In a text's film a card more moves no other one.
  const int least = viz::is_in_text(room) && shown.pool.block_size <= 4 ? 4 : 3;
  const int links = std::max(static_cast<int>(shown.links.size()), least);
  const int columns = std::max(links, layout.forest.columns), rows = layout.forest.rows;
  const size_t candidates = shown.comparison ? shown.comparison->candidates.size() : 0;
  const size_t shown_rows = std::min(candidates, kMaxCandidates + 1);  // the last: how many more
  const auto count = static_cast<float>(shown_rows + 1);
  if (layout.down) layout.row = 2 * kRow, layout.legend = 46;
  const float compared = shown.comparison ? count * layout.row + kGap : 0;
  const size_t lines = viz::wrapped(shown.reason, 13, room.w - 18).size();
  const float reason = kReason + 19 * static_cast<float>(std::max<size_t>(lines, 1) - 1);
  const float fixed = 2 * kHead + compared + reason + layout.legend;
  if (room.w <= viz::kTextWidth) layout.words = 12;
  layout.reason = room.h - layout.legend - reason;
  if (layout.down) {
    const auto wide = static_cast<float>(layout.has_links + std::max(rows, 2));
    layout.gap = 24;
    layout.w = (room.w + kGap) / wide - kGap;
    layout.h = (room.h - fixed) / static_cast<float>(columns) - layout.gap;
    layout.tree = kHead;
    layout.comparison = (layout.has_links ? 1 : 2) * kHead;
    layout.top = layout.comparison + compared;
    return layout;
  }
  const float pitch = room.w / static_cast<float>(columns);
  layout.gap = std::clamp(0.22f * pitch, viz::is_in_text(room) ? 42.0f : 8.0f, 60.0f);
  layout.w = pitch - layout.gap;
  size_t most = 1;  // lines of words
  for (const Shown::Link& link : shown.links) {
    most = std::max(most, viz::wrapped(joined(link.words), layout.words, layout.w - 10).size());
  }
  layout.link_h = 26 + 1.4f * layout.words * static_cast<float>(std::min(most, kMostLines));
  const float asked = shown.links.empty() ? 0 : layout.link_h + kGap;
  layout.h = (room.h - fixed - asked) / static_cast<float>(std::max(rows, 2)) - kGap;
  layout.h = std::max(std::min(layout.h, 1.1f * layout.w), 2.0f);
  layout.comparison = kHead + asked;
  layout.tree = layout.comparison + compared;
  return layout;
}

/// When the lookup reaches each link and block, in seconds.
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
  story.tells = shown.asked;
  if (!story.tells) return story;
  float at = kLinkComes * static_cast<float>(shown.links.size()) + 0.4f;
  for (size_t i = 0; i < shown.num_looked_up; ++i) {
    story.looks.push_back(at);
    at += kLook;
    if (shown.comparison && shown.comparison->link == i) {
      story.compares = at;
      at +=
          static_cast<float>(shown.comparison->candidates.size()) *
          (kToken * static_cast<float>(std::min<size_t>(shown.pool.block_size, viz::kMaxCompared)) +
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
  Picture(const viz::Room& room, const Shown& before, const Shown& shown)
      : scene_(room),
        before_(before),
        shown_(shown),
        was_(layout_of(room, before)),
        layout_(layout_of(room, shown)),
        story_(story_of(shown)) {}

  viz::Scene draw() {
    scene_.lasts(std::min(story_.seconds, kLongest));
    draw_heads();
    for (size_t i = 0; i < shown_.links.size(); ++i) draw_link(i);
    if (shown_.comparison) draw_comparison(*shown_.comparison);
    for (size_t i = 0; i < shown_.nodes.size(); ++i) draw_node(i);
    if (shown_.nodes.empty()) {
      const float top = layout_.down ? layout_.top : layout_.tree + kHead;
      viz::pool(scene_, shown_.pool, {0, top, scene_.room().w, layout_.reason - kGap - top});
    }
    for (size_t i = 0; i < story_.looks.size(); ++i) draw_look(i);
    const viz::Room& room = scene_.room();
    const size_t first = scene_.shapes().size();
    viz::note(scene_, "reason", {0, layout_.reason, room.w, kReason - 6}, shown_.reason, "",
              Ink::kMark, {0.9f, 1});
    for (const viz::Shape& shape : scene_.since(first)) {  // what was said before
      scene_.leaves(shape.id, shape.at, {0, 0.05f});
    }
    viz::legend(scene_, {0, room.h - layout_.legend + 2, room.w, layout_.legend - 2},
                {{viz::State::kInUse, "held by requests"},
                 {viz::State::kFound, "found"},
                 {viz::State::kCached, "free, can be found", viz::kNoHue},
                 {viz::State::kFree, "free"},
                 {.state = viz::State::kInUse, .name = "other words", .edge = Ink::kError}});
    return std::move(scene_);
  }

 private:
  /// A text has no room for them; what matters is in the comparison.
  bool has_many_words() const {
    return viz::is_in_text(scene_.room()) && shown_.pool.block_size > 4;
  }
  void draw_heads() {
    const viz::Type type{.size = 13, .paint = {Ink::kDim}};
    const bool beside = layout_.down && layout_.has_links;  // the links and the blocks
    const float w = scene_.room().w, x = beside ? layout_.w + kGap : 0;
    std::string whose = shown_.asker + " asks";
    if (!beside) {
      whose += fmt::format(", in blocks of {}", kv::count_of(shown_.pool.block_size, "word"));
    }
    const Place asker{0, 0, beside ? layout_.w : w, kHead - 2};
    if (layout_.has_links) scene_.label("asker", asker, whose, type).during({0, 0.05f});
    const int64_t rest = std::ssize(shown_.pool.blocks) - std::ssize(shown_.nodes);
    scene_
        .label("tree", {x, beside ? 0 : layout_.tree, w - x, kHead - 2},
               fmt::format("Blocks; {} hold nothing", rest), type)
        .during({0.9f, 1});
  }

  void draw_link(size_t i) {
    const Shown::Link& link = shown_.links[i];
    const std::string id = fmt::format("{}/link {}", shown_.asker, i);
    const Place at = layout_.link(i);
    const Span comes = story_.at(kLinkComes * static_cast<float>(i), 0.3f);
    viz::dress(scene_.box(id, at, {}), viz::State::kInUse, shown_.hue).during(comes);
    const Span known = story_.block(link.id);
    if (link.wrong || link.found) {
      const Ink ink = link.wrong ? Ink::kError : Ink::kText;
      scene_.box(id + "/taken", at, {}).edged(paint(ink), 2.5f).during(known);
    }
    if (at.w < 40 || at.h < 40) return;
    const Place words{at.x + 5, at.y + 3, at.w - 10, at.h - 22};
    draw_words(id + "/words", words, link.words, comes);
    const char* const mark = link.wrong ? "\u2717 " : link.found ? "\u2713 " : "";
    const std::string name = link.hash.empty() ? "" : link.hash + "  ";
    scene_
        .label(id + "/block", {words.x, at.bottom() - 19, words.w, 16},
               fmt::format("{}{}block {}", name, mark, link.id), {.size = 12}, 6)
        .during(known);
  }

  /// Too many words are counted.
  void draw_words(const std::string& id, const Place& at, const std::vector<std::string>& words,
                  const Span& when) {
    const viz::Type type{.size = layout_.words};
    const std::string all = joined(words);
    const auto lines = static_cast<float>(viz::wrapped(all, type.size, at.w).size());
    const size_t first = scene_.shapes().size();
    if (1.4f * type.size * lines < at.h) {
      scene_.paragraph(id, at, all, type);
    } else {
      scene_.label(id, {at.x, at.y, at.w, kHead}, kv::count_of(std::ssize(words), "token"), type);
    }
    for (viz::Shape& shape : scene_.since(first)) shape.during(when);
  }

  bool is_found(const Shown::Node& node) const {
    return std::ranges::any_of(
        shown_.links, [&](const Shown::Link& link) { return link.found && link.id == node.id; });
  }

  /// Whether the last command wrote the block.
  bool is_new(const Shown::Node& node) const {
    const size_t block = node.id;
    return std::ranges::count(before_.nodes, node.id, &Shown::Node::id) == 0 ||
           before_.pool.blocks[block].tokens != shown_.pool.blocks[block].tokens;
  }

  /// Whether a block changes only when the lookup is there: a new one, and one that is found, if it
  /// stays where it was.
  bool changes_late(size_t i) const {
    const Shown::Node& node = shown_.nodes[i];
    if (is_new(node)) return true;
    const auto was = std::ranges::find(before_.nodes, node.id, &Shown::Node::id);
    const size_t index = was - before_.nodes.begin();
    return is_found(node) && was_.node(index) == layout_.node(i);
  }

  void draw_node(size_t i) {
    const Shown::Node& node = shown_.nodes[i];
    const std::string id = fmt::format("block {}", node.id);
    const Place at = layout_.node(i);
    const Span known = story_.block(node.id), when = changes_late(i) ? known : story_.at(0, 0.3f);
    const size_t first = scene_.shapes().size();
    viz::BlockView block = shown_.pool.blocks[node.id];
    if (has_many_words()) block.tokens.clear();
    viz::block(scene_, shown_.pool, block, at);
    std::vector<Place> next;
    for (size_t k = 0; k < shown_.nodes.size(); ++k) {
      if (shown_.nodes[k].after == i) next.push_back(layout_.node(k));
    }
    viz::card_hash(scene_, id, at, layout_.gap, layout_.down, node.hash, next, when);
    for (viz::Shape& shape : scene_.since(first)) shape.during(when);
    size_t arrow = 0;
    for (const Shown::Node& child : shown_.nodes) {
      if (child.after != i) continue;
      viz::during(scene_, fmt::format("{}/arrow {}", id, arrow++),
                  is_new(child) ? story_.block(child.id) : when);
    }
    if (is_found(node)) {
      scene_.box(id + "/found", at, {}).edged(paint(Ink::kText), 2.5f).during(known);
    }
    if (at.h >= 24 && at.w >= 40) viz::card_holders(scene_, at, node.id, shown_.tables, known);
  }

  /// From the link down to the block that was found or computed for it.
  void draw_look(size_t i) {
    const Shown::Link& link = shown_.links[i];
    const bool compares = shown_.comparison && shown_.comparison->link == i;
    const int32_t id = compares ? shown_.comparison->candidates.back().id : link.id;
    const auto node = std::ranges::find(shown_.nodes, id, &Shown::Node::id);
    const bool goes_down = (link.found || compares) && node != shown_.nodes.end();
    const Span when = story_.at(story_.looks[i], kLook - 0.2f);
    const std::string probe = fmt::format("probe {}", i);
    const Place from = layout_.link(i);
    viz::Scene made(scene_.room());
    viz::Shape& box = made.box(probe, from, paint(Ink::kText, 0.12f)).edged(paint(Ink::kMark), 3);
    if (goes_down) {
      const size_t index = node - shown_.nodes.begin();
      return scene_.ghost(box, layout_.node(index), when);
    }
    Place to = from;  // where no block is
    if (layout_.down) {
      to.x += to.w + kGap;
    } else {
      to.y = std::min(layout_.tree + kHead, scene_.room().h - to.h);
    }
    scene_.ghost(box.dashed_edge(), to, when);
    scene_.ghost(made.label(probe + "/none", from, "\u2717",
                            {.size = std::min(60.0f, from.h * 0.6f),
                             .paint = {Ink::kError},
                             .align = viz::Align::kCentre}),
                 to, when);
  }

  /// The wanted tokens, and below them the content of the blocks with their hash.
  void draw_comparison(const Comparison& comparison) {
    const auto when = [this](float begin, float length) { return story_.at(begin, length); };
    Place at{0, layout_.comparison, scene_.room().w, layout_.row - 4};
    std::vector<std::vector<std::string>> others;
    for (const Candidate& one : comparison.candidates) others.push_back(one.words);
    const viz::ComparedRow wanted{.label = fmt::format("{} asks", shown_.asker),
                                  .lead = "after " + comparison.after,
                                  .cells = shown_.links[comparison.link].words,
                                  .fill = viz::soft(shown_.hue),
                                  .others = std::move(others),
                                  .begin = story_.compares - 0.4f,
                                  .step = 0.02f};
    viz::compared_row(scene_, "compare/asked", at, wanted, nullptr, when);
    float begin = story_.compares;
    for (size_t k = 0; k < std::min(comparison.candidates.size(), kMaxCandidates); ++k) {
      const Candidate& one = comparison.candidates[k];
      const std::string id = fmt::format("compare/{}", k);
      at.y += layout_.row;
      viz::compared_row(scene_, id, at,
                        {.label = fmt::format("block {} holds", one.id),
                         .lead = "after " + one.after,
                         .cells = one.words,
                         .fill = paint(Ink::kCell),
                         .begin = begin,
                         .step = kToken},
                        &wanted, when);
      begin += kToken * static_cast<float>(std::min(one.words.size(), viz::kMaxCompared));
      const bool taken = comparison.trusted && k + 1 == comparison.candidates.size();
      const std::string text = one.is_same ? "\u2713 the same"
                               : taken     ? "\u2717 taken: wrong"
                                           : "\u2717 refused";
      viz::verdict(scene_, id, at, text, one.is_same ? Ink::kText : Ink::kError)
          .during(when(begin, 0.3f));
      begin += 0.5f;
    }
    if (comparison.candidates.size() <= kMaxCandidates) return;
    const auto rest = std::span(comparison.candidates).subspan(kMaxCandidates);
    at.y += layout_.row;
    scene_
        .label("compare/more", {at.x, at.y, 98, at.h},
               fmt::format("{} more", kv::count_of(std::ssize(rest), "block")))
        .during(when(begin, 0.3f));
    if (comparison.trusted || rest.back().is_same) return;
    viz::verdict(scene_, "compare/more", at, "\u2717 refused", Ink::kError)
        .during(when(begin, 0.3f));
  }

  viz::Scene scene_;
  const Shown& before_;
  const Shown& shown_;
  Layout was_, layout_;
  Story story_;
};

}  // namespace

viz::Scene PrefixPage::scene(const viz::Room& room) { return Picture(room, before_, now_).draw(); }

}  // namespace lesson06
