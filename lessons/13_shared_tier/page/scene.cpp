#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "lessons/12_file_tier/page/numbers.h"
#include "page.h"
#include "viz/drawing/pool_motion.h"

namespace lesson13 {

using viz::Ink;
using viz::paint;
using viz::Place;
using viz::State;

Shown SharedTierPage::look() {
  for (Asked& asked : shown_.asked) {
    if (!asked.is_there()) continue;
    const HostTierManager& manager = servers_[asked.server]->tier.manager();
    asked.doing = manager.holds(asked.id) ? "runs" : "waits";
  }
  shown_.shelves = {};
  look_at(*servers_[0], shown_.shelves[kFirst]);
  look_at_store(shown_.shelves[kStore]);
  look_at(*servers_[1], shown_.shelves[kSecond]);
  Shown now = shown_;
  PoolPage::tell("");
  return now;
}

/// What the device holds, found or on its way. A block that can be found may have come poisoned.
void SharedTierPage::look_at(TieredScheduler& server, Shelf& shelf) const {
  const HostTierManager& manager = server.tier.manager();
  const auto name_of = [&](const auto& content) { return by_hash_.at(content.hash); };
  shelf = viz::shelf_blocks(manager.pool(), name_of);
  const viz::ShelfBlocks host = viz::shelf_blocks(manager.host(), name_of);
  for (const auto& [job, move] : server.tier.swapper().loads()) {
    viz::ShelfBlock& block = shelf[move.device];
    block = host[move.host];
    block.order = -1;
    block.state = State::kReserved;
  }
  const auto& index = manager.pool().index();
  for (int32_t id = 1; id < index.num_ids(); ++id) {
    if (index.block(id) == nullptr) continue;
    const bool whole = lesson12::has_numbers(server.cache, id, index.tokens(id));
    if (!whole) shelf[id].state = State::kEvicted;
  }
}

/// Each value at its place. One that a server would refuse is damaged; one with other K and V that
/// it would not refuse is no text's.
void SharedTierPage::look_at_store(Shelf& shelf) const {
  shelf.resize(store_.num_places + 1);
  const ValueFormat format{.fingerprint = kFingerprint,
                           .bytes_per_block = servers_[0]->memory.bytes_per_block(),
                           .secret = settings_.has_secret ? "secret" : ""};
  std::vector<std::byte> content(format.bytes_per_block);
  for (const auto& [name, entry] : store_.values.values()) {
    const int32_t place = store_.places.at(name);
    viz::ShelfBlock& block = shelf[place];
    std::tie(block.hue, block.name) = by_name_.at(name);
    const bool whole = format.decode(entry.value, name, tokens_.at(name), content).has_value();
    block.cached = whole;
    block.state = whole ? State::kCached : State::kEvicted;
    std::array<float, kBlockSize> k{};
    std::memcpy(k.data(), content.data(), sizeof k);
    if (whole && !std::ranges::equal(k, tokens_.at(name))) block.hue = -1;
    const std::string key = key_of(name);
    block.foot = key.substr(key.size() - 4);
    block.tooltip = fmt::format("\n{}", key);
  }
}

namespace {

// Of the motion: blocks come from the store, others are computed, and go to the store.
constexpr viz::Span kLoads{0, 0.35f}, kComputes{0.35f, 0.48f}, kPuts{0.52f, 0.95f};

/// Of a shelf, the place of the block with this name; 0 if it is not there.
int32_t place_of(const Shelf& shelf, const std::string& name) {
  const auto found = std::ranges::find(shelf, name, &viz::ShelfBlock::name);
  return found == shelf.end() ? 0 : static_cast<int32_t>(found - shelf.begin());
}

/// Adds to a block what only this page has: what a click selects, its damage, and how it came. A
/// server's was loaded from the store, or computed; the store's is of the server that computed it.
void finish(viz::Scene& scene, const Shown& before, const Shown& now, int shelf, int32_t id) {
  const viz::ShelfBlock& block = now.shelves[shelf][id];
  const std::string box = viz::shelf_block_id(shelf, id), words = box + "/name " + block.name;
  if (block.name.empty()) return;
  if (shelf == kStore) scene.find(box)->selecting("value " + block.name);
  if (block.state == State::kEvicted) scene.find(box)->edged(paint(Ink::kError), 2);
  const int32_t place = place_of(before.shelves[shelf], block.name);
  const viz::ShelfBlock was = place == 0 ? viz::ShelfBlock{} : before.shelves[shelf][place];
  if (was.cached == block.cached && was.hue == block.hue) return;
  const bool is_loaded = block.name.starts_with(now.trip.text) &&
                         std::atoi(block.name.c_str() + now.trip.text.size()) < now.trip.loaded;
  const auto comes = [&](int from, viz::Span when) {
    const int32_t source = place_of(now.shelves[from], block.name);
    viz::let_come(scene, viz::shelf_block_id(from, source), box, words, when);
  };
  if (shelf == kStore) {
    for (const int from : {int{kFirst}, int{kSecond}}) {
      if (place_of(before.shelves[from], block.name) == 0) comes(from, kPuts);
    }
  } else if (is_loaded) {
    comes(kStore, kLoads);
  } else {
    viz::during(scene, box, kComputes);
    viz::during(scene, words, kComputes);
  }
}

/// In the way between the store and a server: the names that it asks for, and what comes of them.
void draw_trip(viz::Scene& scene, const StoreTrip& trip, const Shelf& store, const Place& way) {
  for (int32_t id = 1; id < std::ssize(store); ++id) {
    const std::string& name = store[id].name;
    if (!name.starts_with(trip.text)) continue;
    const int index = std::atoi(name.c_str() + trip.text.size());
    const bool comes = index < trip.fetched, refused = index == trip.refused;
    if (!comes && !refused && index >= trip.asked) continue;
    const Place& block = scene.find(viz::shelf_block_id(kStore, id))->at;
    const Place at{block.x + 12, way.y, (refused ? way : block).right() - block.x - 12, way.h};
    std::string words = refused ? "\u2717 refused" : comes ? "\u2713" : store[id].foot + " ?";
    if (viz::text_width(words, 14) > at.w - 8) words.clear();
    viz::arrow(scene, "trip/" + name, at, (trip.server == 1) == (comes || refused), words);
    if (!refused) continue;
    viz::Shape& stem = *scene.find("trip/" + name);
    stem.edge = scene.find("trip/" + name + "/name")->fill = paint(Ink::kError);
    stem.at.h /= 2, stem.arrow = false;
  }
}

}  // namespace

/// Requests above, and what the store saved them; below one server, the store, and the other one.
viz::Scene SharedTierPage::scene(const viz::Room& room) {
  constexpr float kGap = 8, kWay = 30;
  viz::Scene scene(room);
  const float note = viz::is_narrow(room) ? 70 : 36, foot = viz::is_narrow(room) ? 44 : 18;
  std::vector<viz::Chip> chips;
  for (const Asked& asked : now_.asked) {
    const int found = asked.num_cached;
    chips.push_back({.text = fmt::format("{} {} at server {}{}", asked.name, asked.doing,
                                         asked.server == 0 ? "one" : "two",
                                         found > 0 ? fmt::format(": {} found", found) : ""),
                     .hue = asked.hue,
                     .state = asked.is_there() ? State::kInUse : State::kFree});
  }
  const float head = viz::shelf_head(scene, chips, 48, before_.loaded, now_.loaded) + kGap;
  const float top = head + (room.is_told ? 0 : note);
  const float legend = room.h - foot, tall = (legend - kGap - top - 2 * kWay) / 3;
  const char* const titles[] = {"server one, its device",
                                store_.is_there ? "the store: each block, and how its name ends"
                                                : "the store, which does not answer",
                                "server two, its device"};
  for (int i = 0; i < 3; ++i) {
    const Place at{0, top + (tall + kWay) * static_cast<float>(i), room.w, tall};
    viz::shelf(scene, i, titles[i], now_.shelves[i], at);
  }
  for (int i = 0; i < 3; ++i) {
    for (int32_t id = 1; id < std::ssize(now_.shelves[i]); ++id)
      finish(scene, before_, now_, i, id);
  }
  const float way = top + tall + (now_.trip.server == 0 ? 0 : tall + kWay);
  draw_trip(scene, now_.trip, now_.shelves[kStore], {0, way, room.w, kWay});
  viz::shelf_note(scene, {0, head, room.w, note}, now_.reason, now_.points_at);
  viz::legend(scene, {0, legend, room.w, foot},
              {{State::kInUse, "in use"},
               {State::kCached, "can be found"},
               {State::kReserved, "on its way", 0},
               {State::kEvicted, "wrong K and V", viz::kNoHue, Ink::kError},
               {State::kCached, "other K and V", viz::kNoHue, Ink::kDim},
               {State::kFree, "empty"}});
  scene.lasts(scene.ghosts().empty() ? 0.8f : 2);
  return scene;
}

}  // namespace lesson13
