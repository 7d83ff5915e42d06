#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "page.h"

namespace lesson12 {

using viz::Ink;
using viz::paint;
using viz::Place;
using viz::State;

Shown FileTierPage::look() {
  for (Asked& asked : shown_.asked) {
    if (!asked.is_there()) continue;
    const HostTierManager& manager = process_->tiers.manager();
    asked.doing = manager.is_loading(asked.id) ? "waits for its blocks"
                  : manager.holds(asked.id)    ? "runs"
                                               : "waits";
  }
  shown_.is_on = process_ != nullptr;
  shown_.shelves = {};
  if (process_) look_at_memory(shown_.shelves[kDevice], shown_.shelves[kHost]);
  look_at_file(shown_.shelves[kFile]);
  Shown now = shown_;
  PoolPage::tell("");
  return now;
}

namespace {

/// The hue of the text that a content is of.
int hue_of(std::span<const std::byte> content) {
  float token = 0;
  std::memcpy(&token, content.data(), sizeof(token));
  return static_cast<int>(token) / viz::kOwnTokens;
}

/// Notes the checksum of a block; if it is wrong, the block is damaged.
void add_sum(viz::ShelfBlock& block, uint64_t found, uint64_t wanted) {
  block.is_copy = true;
  block.tooltip =
      fmt::format("\nchecksum of its bytes: {:016x}\nwhen it was computed: {:016x}", found, wanted);
  if (found != wanted) block.state = State::kEvicted;
}

}  // namespace

void FileTierPage::look_at_memory(Shelf& device, Shelf& host) const {
  const auto name_of = [&](const auto& content) { return names_.at(content.hash); };
  const HostTierManager& manager = process_->tiers.manager();
  const CheckedSwapper& swapper = process_->tiers.swapper();
  device = viz::shelf_blocks(manager.pool(), name_of);
  host = viz::shelf_blocks(manager.host(), name_of);
  for (int32_t id = 1; id < std::ssize(host); ++id) {
    viz::ShelfBlock& block = host[id];
    if (!block.cached) continue;
    if (block.state == State::kInUse) block.state = State::kReserved;
    add_sum(block, checksum_of(process_->memory.block(id)), swapper.checksums()[id]);
  }
  std::vector<BlockMove> moves;
  for (const auto& load : swapper.loads()) moves.push_back(load.move);
  std::vector<uint64_t> loaded(host.size());
  checksum_blocks_cpu({.regions = &process_->regions, .blocks = moves, .checksums = loaded.data()});
  for (const BlockMove& move : moves) {
    viz::ShelfBlock& block = device[move.device];
    block = host[move.host];
    block.state = State::kReserved;
    add_sum(block, loaded[move.host], swapper.checksums()[move.host]);
  }
}

/// Notes what the records hold on the disk.
void FileTierPage::look_at_file(Shelf& shelf) const {
  std::ifstream in(path_, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto bytes = std::as_bytes(std::span(text));
  const FileLayout layout(kShape);
  const auto part = [&](int64_t at, int64_t size) { return bytes.subspan(at, size); };
  shelf.resize(static_cast<size_t>(settings_.host) + 1);
  for (int32_t record = 1; record <= settings_.host; ++record) {
    viz::ShelfBlock& block = shelf[record];
    block.record.emplace();
    if (layout.content_of(record) + layout.content_bytes > std::ssize(bytes)) continue;
    const auto content = part(layout.content_of(record), layout.content_bytes);
    const bool has_content =
        std::ranges::any_of(content, [](std::byte b) { return b != std::byte{}; });
    const auto header =
        decode_header(part(layout.begin_of(record), layout.header_bytes), kShape.block_size);
    block.record = {.header = header.has_value(), .content = has_content};
    if (header) {
      block.state = State::kCached;
      std::tie(block.hue, block.name) = names_.at(header->hash);
      add_sum(block, checksum_of(content), header->content_checksum);
      block.is_copy = has_content;
    } else if (has_content) {
      block.hue = hue_of(content);
      block.tooltip = "\na content without a header: it holds nothing";
    }
  }
}

namespace {

constexpr viz::Span kComes{0.1f, 0.8f};  // of the motion: a block travels between two shelves

/// The block on another shelf that this one is a copy of, if it has come with the last command:
/// the device loads from the host, the host takes blocks of the device or, when a server starts, of
/// the file, and the file those of the host.
std::string source(const Shown& before, const Shown& now, int shelf, const viz::ShelfBlock& block) {
  const bool starts = before.num_starts != now.num_starts;
  const int from = shelf != kHost ? kHost : starts ? kFile : kDevice;
  if (shelf == kDevice && !block.is_copy) return "";  // it was computed
  const auto place = [&](int on) {
    const viz::ShelfBlocks& blocks = before.shelves[on];
    const auto found = std::ranges::find(blocks, block.name, &viz::ShelfBlock::name);
    return found == blocks.end() ? 0 : static_cast<int32_t>(found - blocks.begin());
  };
  const int32_t id = place(from);
  return id == 0 || (place(shelf) != 0 && !starts) ? "" : viz::shelf_block_id(from, id);
}

/// Adds to a block what only this page has: what a click selects, its source, and its damage.
void finish(viz::Scene& scene, const Shown& before, const Shown& now, int shelf, int32_t id,
            const viz::ShelfBlock& block) {
  const std::string box = viz::shelf_block_id(shelf, id);
  if (block.name.empty()) return;
  scene.find(box)->selecting(fmt::format("{} {}", kShelves[shelf], block.name));
  if (block.state == State::kEvicted) scene.find(box)->edged(paint(Ink::kError), 2).dashed = false;
  viz::let_come(scene, source(before, now, shelf, block), box, box + "/name " + block.name, kComes);
}

/// A memory without a server: its blocks are struck out where they were.
void draw_off(viz::Scene& scene, const Shown& before, const Shown& now, int shelf,
              const Place& at) {
  const size_t i = shelf;
  const std::string id = fmt::format("shelf {}", shelf);
  scene.find(id)->edged(paint(Ink::kLine)).dashed_edge();
  const std::string words =
      now.num_lost[i] == 0
          ? "no server: nothing is here"
          : fmt::format("no server: {} lost", kv::count_of(now.num_lost[i], "block"));
  scene
      .label(id + "/off", at, words,
             {.size = 15, .paint = {Ink::kDim}, .align = viz::Align::kCentre})
      .during({0.7f, 1});
  const viz::ShelfBlocks& blocks = before.shelves[i];
  for (size_t block = 1; block < blocks.size(); ++block) {
    const std::string box = viz::shelf_block_id(shelf, static_cast<int32_t>(block));
    if (blocks[block].name.empty()) continue;
    scene.ends(box, {0.4f, 0.7f});
    scene.ends(box + "/name " + blocks[block].name, {0.4f, 0.7f}, true);
  }
}

/// Whether a block came to this shelf from another one.
bool has_come(const Shown& before, const Shown& now, int shelf) {
  const size_t i = shelf;
  return std::ranges::any_of(now.shelves[i], [&](const viz::ShelfBlock& block) {
    return block.is_copy && !block.name.empty() &&
           std::ranges::count(before.shelves[i], block.name, &viz::ShelfBlock::name) == 0;
  });
}

/// The ways that blocks came between the shelf and the one below: down on the left, up in the
/// middle.
void draw_ways(viz::Scene& scene, const Shown& before, const Shown& now, int shelf,
               const Place& at) {
  const bool starts = before.num_starts != now.num_starts, is_first = shelf == 0;
  const bool down = is_first ? has_come(before, now, 1) && !starts : has_come(before, now, 2);
  const bool up = is_first ? has_come(before, now, 0) : starts && has_come(before, now, 1);
  const Place left{at.x + 14, at.y, at.w / 2 - 20, at.h};
  const std::string id = fmt::format("way {}", shelf);
  if (down) viz::arrow(scene, id + "/down", left, true, is_first ? "copied" : "written");
  if (up) {
    viz::arrow(scene, id + "/up", {at.middle_x(), at.y, left.w, at.h}, false,
               is_first ? "loaded" : "read when a server starts");
  }
}

}  // namespace

/// Requests above, and what the file saved them; below the device, the host and the file.
viz::Scene FileTierPage::scene(const viz::Room& room) {
  constexpr float kGap = 8, kWay = 22;
  viz::Scene scene(room);
  const float note = viz::is_narrow(room) ? 70 : 36, foot = viz::is_narrow(room) ? 44 : 18;
  std::vector<viz::Chip> chips;
  for (const Asked& asked : now_.asked) {
    chips.push_back({.text = asked.name + " " + asked.doing,
                     .hue = asked.hue,
                     .state = asked.is_there() ? State::kInUse : State::kFree,
                     .tooltip = fmt::format("{} tokens, {} found",
                                            asked.num_prompt + asked.generated, asked.num_cached)});
  }
  const float head = viz::shelf_head(scene, chips, 30, before_.found, now_.found) + kGap;
  const float top = head + (room.is_told ? 0 : note), legend = room.h - foot;
  const float tall = (legend - kGap - top - 2 * kWay) / 3;
  for (int i = 0; i < 3; ++i) {
    constexpr const char* kTitles[] = {"device", "host memory", "file"};
    const Place at{0, top + (tall + kWay) * static_cast<float>(i), room.w, tall};
    viz::shelf(scene, i, kTitles[i], now_.shelves[i], at);
    if (i < 2 && !now_.is_on) draw_off(scene, before_, now_, i, at);
    if (i < 2) draw_ways(scene, before_, now_, i, {0, at.bottom(), room.w, kWay});
  }
  for (int i = 0; i < 3; ++i) {  // when all places are known
    const viz::ShelfBlocks& blocks = now_.shelves[i];
    for (int32_t id = 1; id < std::ssize(blocks); ++id) {
      finish(scene, before_, now_, i, id, blocks[id]);
    }
  }
  viz::shelf_note(scene, {0, head, room.w, note}, now_.reason, now_.points_at);
  viz::legend(scene, {0, legend, room.w, foot},
              {{State::kInUse, "in use"},
               {State::kCached, "can be found"},
               {State::kReserved, "on its way", 0},
               {State::kPreempted, "no header"},
               {.state = State::kEvicted, .name = "damaged", .edge = Ink::kError},
               {State::kFree, "empty"}});
  scene.lasts(1.0f);
  return scene;
}

}  // namespace lesson12
