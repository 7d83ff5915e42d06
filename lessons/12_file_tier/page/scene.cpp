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

std::string digits(uint64_t sum) { return fmt::format("{:04x}", sum & 0xFFFF); }

/// Notes the checksum of a block; if it is wrong, the block is damaged.
void add_sum(viz::ShelfBlock& block, uint64_t found, uint64_t wanted) {
  block.foot = digits(found);
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
      if (!has_content) block.foot.clear();
    } else if (has_content) {
      block.hue = hue_of(content);
      block.foot = digits(checksum_of(content));
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
  if (shelf == kDevice && block.foot.empty()) return "";  // it was computed
  const auto place = [&](int on) {
    const viz::ShelfBlocks& blocks = before.shelves[on];
    const auto found = std::ranges::find(blocks, block.name, &viz::ShelfBlock::name);
    return found == blocks.end() ? 0 : static_cast<int32_t>(found - blocks.begin());
  };
  const int32_t id = place(from);
  return id == 0 || (place(shelf) != 0 && !starts) ? "" : viz::shelf_block_id(from, id);
}

/// A block travels with its name from its source; its own box has it when it is there.
void let_come(viz::Scene& scene, const std::string& from, const std::string& box,
              const std::string& name) {
  const viz::Shape* const source = scene.find(from);
  if (source == nullptr) return;
  viz::Shape* const own = scene.find(box);
  viz::Shape copy = *own;
  copy.id = box + "/comes";
  copy.at = {source->at.x, source->at.y, own->at.w, own->at.h};
  scene.ghost(copy, own->at, kComes);
  for (viz::Shape& shape : scene.since(0)) {
    const bool is_part = shape.id == box || shape.id.starts_with(box + "/");
    if (is_part && shape.id != name) shape.during({kComes.end - 0.02f, kComes.end});
  }
  if (viz::Shape* const words = scene.find(name)) words->comes_from(from, kComes);
}

/// Adds to a block what only this page has: what a click selects, its source, and its damage.
void finish(viz::Scene& scene, const Shown& before, const Shown& now, int shelf, int32_t id,
            const viz::ShelfBlock& block) {
  const std::string box = viz::shelf_block_id(shelf, id);
  if (block.name.empty()) return;
  scene.find(box)->selecting(fmt::format("{} {}", kShelves[shelf], block.name));
  if (block.state == State::kEvicted) scene.find(box)->edged(paint(Ink::kError), 2).dashed = false;
  let_come(scene, source(before, now, shelf, block), box, box + "/name " + block.name);
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
    for (const std::string& part : {box, box + "/foot " + blocks[block].foot}) {
      scene.ends(part, {0.4f, 0.7f});
    }
    scene.ends(box + "/name " + blocks[block].name, {0.4f, 0.7f}, true);
  }
}

/// Whether a block came to this shelf from another one.
bool has_come(const Shown& before, const Shown& now, int shelf) {
  const size_t i = shelf;
  return std::ranges::any_of(now.shelves[i], [&](const viz::ShelfBlock& block) {
    return !block.foot.empty() && !block.name.empty() &&
           std::ranges::count(before.shelves[i], block.name, &viz::ShelfBlock::name) == 0;
  });
}

/// The ways between the shelf and the one below: down on the left, up in the middle.
void draw_ways(viz::Scene& scene, const Shown& before, const Shown& now, int shelf,
               const Place& at) {
  const bool starts = before.num_starts != now.num_starts, is_first = shelf == 0;
  const bool copied = has_come(before, now, 1) && !starts;
  const bool down = is_first ? copied : has_come(before, now, 2);
  const bool up = is_first ? has_come(before, now, 0) : starts && has_come(before, now, 1);
  const Place left{at.x + 14, at.y, at.w / 2 - 20, at.h};
  const std::string id = fmt::format("way {}", shelf);
  viz::arrow(scene, id + "/down", left, true, down, is_first ? "copied" : "written");
  viz::arrow(scene, id + "/up", {at.middle_x(), at.y, left.w, at.h}, false, up,
             is_first ? "loaded" : "read when a server starts");
}

/// Near the shape that the note is about, with an arrow or, across other shelves, a ring.
void draw_note(viz::Scene& scene, const Shown& now, const Place& at) {
  const float rest = std::max(at.w - viz::text_width(now.reason, 13) - 20, 0.0f);
  const viz::Shape* const target = scene.find(now.points_at);
  const float left = target == nullptr ? 0 : std::clamp(target->at.x - 40, 0.0f, rest);
  const bool is_near = now.points_at.starts_with("0/");
  if (target != nullptr && !is_near && target->edge.ink != Ink::kError) {
    const Place ring = target->at.inset(-2);
    scene.box("note/ring", ring, {}).edged(paint(Ink::kMark), 2.5f).on_top();
  }
  viz::note(scene, "note", {left, at.y, at.w - left, at.h}, now.reason,
            is_near ? now.points_at : "");
}

}  // namespace

/// Requests above, and what the file saved them; below the device, the host and the file.
viz::Scene FileTierPage::scene(const viz::Room& room) {
  constexpr float kGap = 8, kRequests = 48, kNumber = 240, kTop = kRequests + kGap + 36;
  viz::Scene scene(room);
  std::vector<viz::Chip> chips;
  for (const Asked& asked : now_.asked) {
    chips.push_back({.text = fmt::format("{} {}: {} tokens, {} found", asked.name, asked.doing,
                                         asked.num_prompt + asked.generated, asked.num_cached),
                     .hue = asked.hue,
                     .state = asked.is_there() ? State::kInUse : State::kFree});
  }
  viz::chips(scene, "request", {0, 0, room.w - kNumber, kRequests}, chips);
  viz::count_up(scene, "found", {room.w - kNumber, 0, 80, kRequests}, before_.found, now_.found,
                {.size = 30, .align = viz::Align::kRight}, viz::kFills);
  scene.paragraph("found/name", {room.w - kNumber + 90, 7, kNumber - 90, 34},
                  "tokens found, and not computed again", {.size = 12, .paint = {Ink::kDim}});
  constexpr float kWay = 22;
  const float legend = room.h - 18, tall = (legend - kGap - kTop - 2 * kWay) / 3;
  const char* const titles[] = {"the device; 1. is overwritten first",
                                ("the host's memory; 1. is overwritten first, empty ones from the "
                                 "last on"),
                                "the file: record #i is block i of the host; header above content"};
  for (int i = 0; i < 3; ++i) {
    const Shelf& shelf = now_.shelves[i];
    const Place at{0, kTop + (tall + kWay) * static_cast<float>(i), room.w, tall};
    const bool is_off = i < 2 && !now_.is_on;
    viz::shelf(scene, i, is_off ? i == 0 ? "the device" : "the host's memory" : titles[i], shelf,
               at);
    if (is_off) draw_off(scene, before_, now_, i, at);
    if (i < 2) draw_ways(scene, before_, now_, i, {0, at.bottom(), room.w, kWay});
  }
  for (int i = 0; i < 3; ++i) {  // when all places are known
    const viz::ShelfBlocks& blocks = now_.shelves[i];
    for (int32_t id = 1; id < std::ssize(blocks); ++id) {
      finish(scene, before_, now_, i, id, blocks[id]);
    }
  }
  if (!now_.reason.empty()) draw_note(scene, now_, {0, kRequests + kGap, room.w, 32});
  viz::legend(scene, {0, legend, room.w, 18},
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
