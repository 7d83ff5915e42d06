#include <fmt/format.h>

#include <algorithm>

#include "sharing.h"
#include "viz/drawing/pool_motion.h"
#include "viz/drawing/text_room.h"

namespace lesson05 {
namespace {

using viz::block_id;
using viz::BlockView;
using viz::Ink;
using viz::Place;
using viz::Shape;
using viz::slot_id;
using viz::Span;
using viz::staggered;
using viz::TableCard;

constexpr size_t kMaxBlocks = 128;  // in a larger pool a single block cannot be followed

/// When each thing happens. The order of a copy: a token comes, the count is looked at, a free
/// block is taken, copied to, the entry flips, the old count falls, the token lands.
struct Times {
  float seconds;
  Span ask = {}, check = {}, take = {}, copy = {}, flip = {}, count = {}, land = {};
  Span come_or_go = {}, settle = {};
};
constexpr Times kCopy{.seconds = 2.4f,
                      .ask = {0, 0.12f},
                      .check = {0.11f, 0.3f},
                      .take = {0.28f, 0.36f},
                      .copy = {0.36f, 0.64f},
                      .flip = {0.66f, 0.76f},
                      .count = {0.74f, 0.84f},
                      .land = {0.85f, 0.95f},
                      .come_or_go = {0.86f, 1},
                      .settle = {0.86f, 1}};
constexpr Times kGrow{.seconds = 0.8f,
                      .check = {0, 0.3f},
                      .take = {0, 0.2f},
                      .flip = {0.1f, 0.3f},
                      .count = {0.6f, 0.9f},
                      .land = {0.25f, 0.6f},
                      .come_or_go = {0.6f, 1},
                      .settle = {0, 0.25f}};
constexpr Times kFork{
    .seconds = 1.0f, .count = {0.6f, 0.9f}, .come_or_go = {0, 0.55f}, .settle = {0, 0.55f}};
constexpr Times kFree{
    .seconds = 1.0f, .count = {0.35f, 0.6f}, .come_or_go = {0, 0.35f}, .settle = {0.7f, 1}};

class Motion {
 public:
  Motion(viz::Scene& scene, const Shown& before, const Shown& now)
      : scene_(scene), before_(before), now_(now), times_(times()) {}

  void add() {
    if (!now_.refusal.empty()) return refusal();
    scene_.lasts(times_.seconds);
    const viz::CardTimes when{.forks = times_.come_or_go,
                              .flips = times_.flip,
                              .settles = times_.settle,
                              .shifts = now_.copies.empty() ? times_.settle : times_.count};
    for (const TableCard& card : now_.tables) viz::move_card(scene_, before_.tables, card, when);
    for (const TableCard& card : before_.tables) {
      const bool is_gone = viz::find_card(now_.tables, card.sequence.name) == nullptr;
      if (is_gone) viz::end_card(scene_, card, times_.come_or_go);
    }
    for (size_t i = 0; i < now_.pool.blocks.size(); ++i) {
      block(before_.pool.blocks[i], now_.pool.blocks[i]);
    }
    for (const BlockCopy& one : now_.copies) copy(one);
  }

 private:
  const Times& times() const {
    if (!now_.copies.empty()) return kCopy;
    const auto grew = [&](const TableCard& table) {
      const TableCard* was = viz::find_card(before_.tables, table.origin);
      if (was == nullptr) return table.num_tokens > 0;
      const bool draws = was->waiting.empty() && !table.waiting.empty();
      return draws || table.num_tokens > was->num_tokens;
    };
    if (std::ranges::any_of(now_.tables, grew)) return kGrow;
    return now_.tables.size() > before_.tables.size() ? kFork : kFree;
  }
  void send(const Place& from, const Place& to, int hue, const std::string& token, Span span) {
    viz::send_token(scene_, fmt::format("ghost {}", ghosts_++), token, hue, from, to, span);
  }
  void ring(const std::string& id, Ink ink, const Span& span) {
    viz::ring(scene_, fmt::format("ring {}", ghosts_++), id, ink, span);
  }
  /// Where a token waits for a slot that it cannot have: over no other one.
  Place above_pool(const Place& slot) const {
    return {slot.x, scene_.find(block_id(0))->at.y - slot.h - 8, slot.w, slot.h};
  }
  /// The first table that holds the block.
  const TableCard& holder(const BlockView& block) const {
    return *std::ranges::find_if(now_.tables, [&](const TableCard& table) {
      return std::ranges::count(table.block_ids, block.id) > 0;
    });
  }

  /// Shows a block whose count or content has changed.
  void block(const BlockView& was, const BlockView& is) {
    if (was.owners == is.owners && was.tokens == is.tokens) return;
    const Span span = was.ref_cnt == 0 ? times_.take : times_.count;
    viz::block_changes(scene_, is.id, span);
    if (is.ref_cnt == 0) {
      scene_.ends(block_id(was.id) + "/ref", span);
      const float end = std::min(1.0f, times_.count.end + 0.35f);
      return viz::drop_tokens(scene_, now_.pool, was, {times_.count.end, end});
    }
    for (const int hue : was.owners) {
      if (is.owners.size() > 1 && std::ranges::count(is.owners, hue) > 0) continue;
      for (int i = 0; i < now_.pool.block_size; ++i) {
        scene_.ends(fmt::format("{}/hue {}", slot_id(is.id, i), hue), span);
      }
    }
    landing(was, is);
  }

  /// New tokens come from their sequence's name, or from where they waited.
  void landing(const BlockView& was, const BlockView& is) {
    const std::string& parent = holder(is).origin;
    const TableCard* origin = viz::find_card(before_.tables, parent);
    const std::string from =
        parent + (origin != nullptr && !origin->waiting.empty() ? "/waiting" : "/name");
    const auto copy = std::ranges::find(now_.copies, is.id, &BlockCopy::destination);
    const bool copied = copy != now_.copies.end();
    const size_t first =
        copied ? before_.pool.blocks[copy->source].tokens.size() : was.tokens.size();
    const auto count = std::ssize(is.tokens) - static_cast<int64_t>(first);
    if (first > 0 && count > 0 && !copied) {  // a writer looks at the count
      ring(block_id(is.id) + "/ref", Ink::kMark, times_.check);
    }
    for (size_t i = first; i < is.tokens.size(); ++i) {
      const std::string slot = slot_id(is.id, static_cast<int64_t>(i));
      const Span span = staggered(times_.land, static_cast<int64_t>(i - first), count);
      Shape* token = scene_.find(slot + "/token");
      if (token == nullptr) return;
      if (copied && i == first) {  // it has waited: see copy()
        token->during({span.end, span.end + viz::kBlink});
      } else {
        token->comes_from(from, span);
      }
      viz::during(scene_, slot, {span.end - viz::kBlink, span.end});
    }
  }

  void copy(const BlockCopy& copy) {
    const std::vector<std::string>& tokens = before_.pool.blocks[copy.source].tokens;
    const BlockView& target = now_.pool.blocks[copy.destination];
    const viz::SequenceView& writer = holder(target).sequence;
    const Place old_block = scene_.find(block_id(copy.source))->at;
    const int hue = writer.hue;
    ring(block_id(copy.source) + "/ref", Ink::kMark, times_.check);
    if (scene_.find(slot_id(copy.destination, 0)) == nullptr) {  // too small: the block travels
      return send(old_block, scene_.find(block_id(copy.destination))->at, hue, "", times_.copy);
    }
    const auto place = [&](int32_t block, int64_t i) { return scene_.find(slot_id(block, i))->at; };
    const auto count = std::ssize(tokens);
    viz::copy_tokens(scene_, tokens, copy.source, target, hue, times_.copy);
    if (count >= std::ssize(target.tokens)) return;
    // The token that wanted to go into the shared block: it is sent back, and waits above.
    const std::string& token = target.tokens[tokens.size()];
    const Place wanted = place(copy.source, count);
    const Place waits = above_pool(wanted);
    const Place card = scene_.find(writer.name + "/card")->at;
    const Place home{card.x, card.y, wanted.w, wanted.h};
    const float turn = times_.ask.end, back = turn + 0.06f;
    send(home, wanted, hue, token, times_.ask);
    send(wanted, waits, hue, token, {turn, back});
    send(waits, waits, hue, token, {back, times_.land.begin});
    send(waits, place(copy.destination, count), hue, token, times_.land);
  }

  /// The refused tokens come, and go back to where they came from.
  void refusal() {
    scene_.lasts(2.4f);
    for (const auto& [name, token] : now_.refused) {
      const TableCard& table = *viz::find_card(now_.tables, name);
      if (table.block_ids.empty()) continue;
      const Place card = scene_.find(name + "/card")->at;
      const int32_t last = table.block_ids.back();
      const auto filled = std::ssize(now_.pool.blocks[last].tokens);
      const Shape* slot =
          scene_.find(slot_id(last, std::min<int64_t>(filled, now_.pool.block_size - 1)));
      if (slot == nullptr) continue;
      const Place home{card.x, card.y, slot->at.w, slot->at.h};
      const Place waits = above_pool(slot->at);
      send(home, waits, table.sequence.hue, token, {0, 0.25f});
      send(waits, waits, table.sequence.hue, token, {0.25f, 0.7f});
      send(waits, home, table.sequence.hue, token, {0.7f, 0.95f});
      ring(block_id(last) + "/ref", Ink::kError, {0.25f, 0.65f});
    }
  }

  viz::Scene& scene_;
  const Shown& before_;
  const Shown& now_;
  const Times times_;
  int ghosts_ = 0;
};

}  // namespace

viz::Scene sharing_scene(const viz::Room& room, const Shown& before, const Shown& now,
                         const std::string& selected) {
  constexpr float kFoot = 24;
  // On a phone the pool has this room until a refusal is told, so that all is seen at once.
  const float note = !viz::is_narrow(room) ? 44 : now.refusal.empty() ? 0 : 62;
  viz::Scene scene(room);
  const Place all = Place{0, 0, room.w, room.h}.inset(6);
  const bool left_out =
      viz::linked_tables(scene, now.pool, now.tables, all, kFoot + note, selected);
  const Place foot{all.x, all.bottom() - kFoot, all.w, kFoot};
  const size_t count = now.pool.blocks.size();
  viz::legend(scene, foot, {{viz::State::kFree, "free"}});
  scene.label(
      "pool/size", {foot.x + 60, foot.y, foot.w - 60, foot.h},
      (left_out ? "lines of one table"
                : fmt::format("{} of {}", kv::count_of(static_cast<int64_t>(count), "block"),
                              kv::count_of(now.pool.block_size, "slot"))) +
          "; \u00D72: two tables hold it",
      {.size = 12, .paint = {Ink::kDim}, .align = viz::Align::kRight});
  if (!now.refusal.empty()) {
    viz::note(scene, "refusal", {all.x, foot.y - note + 4, all.w, note}, now.refusal, "",
              Ink::kError, {0.25f, 0.5f});
  }
  const bool same_pool =
      before.pool.blocks.size() == count && before.pool.block_size == now.pool.block_size;
  if (same_pool && count <= kMaxBlocks) Motion(scene, before, now).add();
  return scene;
}

}  // namespace lesson05
