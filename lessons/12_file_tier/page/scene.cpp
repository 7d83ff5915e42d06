#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "page.h"

namespace lesson12 {

using viz::Ink;
using viz::paint;
using viz::Place;
using viz::State;

Shown FileTierPage::look() {
  for (Asked& asked : asked_) {
    if (!asked.is_there) continue;
    const HostTierManager& manager = process_->tiers.manager();
    asked.doing = manager.is_loading(asked.id) ? "waits for its blocks"
                  : manager.holds(asked.id)    ? "runs"
                                               : "waits";
  }
  Shown now{.asked = asked_,
            .found = found_,
            .reason = std::exchange(reason_, {}),
            .points_at = std::exchange(points_at_, {})};
  if (process_) look_at_memory(now.shelves[kDevice], now.shelves[kHost]);
  look_at_file(now.shelves[kHost], now.shelves[kFile]);
  return now;
}

namespace {

/// Notes the checksum of a block; if it is wrong, the block is damaged.
void add_sum(Shelf& shelf, int32_t id, uint64_t found, uint64_t wanted) {
  viz::ShelfBlock& block = shelf.blocks[static_cast<size_t>(id)];
  shelf.sums[id] = fmt::format("{:04x}", found & 0xFFFF);
  block.tooltip =
      fmt::format("\nchecksum of its bytes: {:016x}\nwhen it was computed: {:016x}", found, wanted);
  if (found != wanted) block.state = State::kEvicted;
}

}  // namespace

void FileTierPage::look_at_memory(Shelf& device, Shelf& host) const {
  const auto name_of = [&](const auto& content) { return names_.at(content.hash); };
  const HostTierManager& manager = process_->tiers.manager();
  const CheckedSwapper& swapper = process_->tiers.swapper();
  device.blocks = viz::shelf_blocks(manager.pool(), name_of);
  host.blocks = viz::shelf_blocks(manager.host(), name_of);
  for (int32_t id = 1; id < std::ssize(host.blocks); ++id) {
    viz::ShelfBlock& block = host.blocks[static_cast<size_t>(id)];
    if (!block.cached) continue;
    if (block.state == State::kInUse) block.state = State::kReserved;
    add_sum(host, id, checksum_of(process_->memory.block(id)), swapper.checksums()[id]);
  }
  for (const auto& [job, move] : swapper.loads()) {
    viz::ShelfBlock& block = device.blocks[static_cast<size_t>(move.device)];
    block = host.blocks[static_cast<size_t>(move.host)];
    block.state = State::kReserved;
    device.sums[move.device] = host.sums[move.host];
  }
}

/// Notes the whole records on the disk, and the blocks that are still to be written.
void FileTierPage::look_at_file(const Shelf& host, Shelf& shelf) const {
  std::ifstream in(path_, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto bytes = std::as_bytes(std::span(text));
  const FileLayout layout(kShape);
  const auto part = [&](int64_t at, int64_t size) {
    return bytes.subspan(static_cast<size_t>(at), static_cast<size_t>(size));
  };
  shelf.blocks.resize(static_cast<size_t>(settings_.host) + 1);
  for (int32_t record = 1; record <= settings_.host; ++record) {
    const auto i = static_cast<size_t>(record);
    viz::ShelfBlock& block = shelf.blocks[i];
    if (process_ && host.blocks[i].state == State::kReserved) {
      block = {.state = State::kReserved, .hue = host.blocks[i].hue, .name = host.blocks[i].name};
    }
    if (layout.content_of(record) + layout.content_bytes > std::ssize(bytes)) continue;
    const auto header =
        decode_header(part(layout.begin_of(record), layout.header_bytes), kShape.block_size);
    if (!header) continue;
    const auto& [hue, name] = names_.at(header->hash);
    if (block.state == State::kReserved && block.name != name) continue;
    block = {.state = State::kCached, .hue = hue, .name = name};
    add_sum(shelf, record, checksum_of(part(layout.content_of(record), layout.content_bytes)),
            header->content_checksum);
  }
}

namespace {

/// The place where a block stood before, if that was on another shelf.
std::string source(const Shown& before, int shelf, const std::string& name) {
  for (const int from : {1, 0, 2}) {
    const viz::ShelfBlocks& blocks = before.shelves[static_cast<size_t>(from)].blocks;
    const auto found = std::ranges::find(blocks, name, &viz::ShelfBlock::name);
    if (from == shelf || found == blocks.end()) continue;
    return viz::shelf_block_id(from, static_cast<int32_t>(found - blocks.begin()));
  }
  return "";
}

/// Adds to a block the parts that only this page has: its checksum, its source, and its damage.
void finish(viz::Scene& scene, const Shown& before, int shelf, int32_t id, const Shelf& of) {
  const viz::ShelfBlock& block = of.blocks[static_cast<size_t>(id)];
  const std::string box = viz::shelf_block_id(shelf, id);
  if (block.name.empty()) return;
  scene.find(box)->selecting(
      fmt::format("{} {}", kShelves[static_cast<size_t>(shelf)], block.name));
  if (block.state == State::kEvicted) scene.find(box)->edged(paint(Ink::kError), 2);
  viz::Shape* const name = scene.find(box + "/name " + block.name);
  if (name != nullptr) name->comes_from(source(before, shelf, block.name));
  const Place at = scene.find(box)->at;
  const auto sum = of.sums.find(id);
  if (sum == of.sums.end() || at.h < 48 || viz::text_width("0000", 9) > at.w - 4) return;
  scene.label(box + "/sum " + sum->second, {at.x + 2, at.bottom() - 14, at.w - 4, 12}, sum->second,
              {.size = 10, .align = viz::Align::kCentre});
}

}  // namespace

/// Requests above, and what the file saved them; below the device, the host and the file.
viz::Scene FileTierPage::scene(const viz::Room& room) {
  constexpr float kGap = 8, kRequests = 48, kNumber = 240, kTop = kRequests + kGap + 36;
  viz::Scene scene(room);
  std::vector<viz::Chip> chips;
  for (const Asked& asked : now_.asked) {
    chips.push_back({.text = fmt::format("{} {}: {} tokens, {} found", asked.name, asked.doing,
                                         asked.num_prompt + asked.generated, asked.num_found),
                     .hue = asked.hue,
                     .state = asked.is_there ? State::kInUse : State::kFree});
  }
  viz::chips(scene, "request", {0, 0, room.w - kNumber, kRequests}, chips);
  viz::count_up(scene, "found", {room.w - kNumber, 0, 80, kRequests}, before_.found, now_.found,
                {.size = 30, .align = viz::Align::kRight}, viz::kFills);
  scene.paragraph("found/name", {room.w - kNumber + 90, 7, kNumber - 90, 34},
                  "tokens found, and not computed again", {.size = 12, .paint = {Ink::kDim}});
  const float legend = room.h - 18, pitch = (legend - kTop) / 3;
  const char* const titles[] = {"the device", "the host's memory",
                                "the file: record i is block i of the host"};
  for (int i = 0; i < 3; ++i) {
    const Shelf& shelf = now_.shelves[static_cast<size_t>(i)];
    const Place at{0, kTop + pitch * static_cast<float>(i), room.w, pitch - kGap};
    viz::shelf(scene, i, titles[i], shelf.blocks, at);
    for (int32_t id = 1; id < std::ssize(shelf.blocks); ++id) finish(scene, before_, i, id, shelf);
  }
  if (!now_.reason.empty()) {  // near the shape that it is about
    const float rest = std::max(room.w - viz::text_width(now_.reason, 13) - 20, 0.0f);
    const viz::Shape* const target = scene.find(now_.points_at);
    const float left = target == nullptr ? 0 : std::clamp(target->at.x - 40, 0.0f, rest);
    viz::note(scene, "note", {left, kRequests + kGap, room.w - left, 32}, now_.reason,
              now_.points_at);
  }
  viz::legend(scene, {0, legend, room.w, 18},
              {{State::kInUse, "in use"},
               {State::kCached, "valid"},
               {State::kReserved, "on its way", 0},
               {State::kEvicted, "damaged"},
               {State::kFree, "empty"}});
  scene.lasts(0.8f);
  return scene;
}

}  // namespace lesson12
