#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "page.h"

namespace lesson12 {
namespace {

using viz::Ink;
using viz::paint;
using viz::Place;
using viz::State;

constexpr float kHeading = 18, kGap = 8;
constexpr const char* kTitles[] = {"the device", "the host's memory",
                                   "the file: record i is block i of the host"};

void add_sum(Cell& cell, uint64_t found, uint64_t wanted, const char* where) {
  cell.sum = fmt::format("{:04x}", found & 0xFFFF);
  cell.tip += fmt::format("\nchecksum of its bytes: {:016x}\n{}: {:016x}", found, where, wanted);
  if (found != wanted) cell.state = State::kEvicted;
}

class Picture {
 public:
  Picture(const Shown& before, const Shown& now, const viz::Room& room)
      : before_(before), now_(now), scene_(room) {}

  /// Requests above; below them the device, the host and the file.
  viz::Scene drawn() {
    const viz::Room room = scene_.room();
    const float requests = 48, top = requests + kGap + 36;
    const float legend = room.h - 18, pitch = (legend - top) / 3;
    draw_requests({0, 0, room.w, requests});
    for (size_t shelf = 0; shelf < 3; ++shelf) {
      draw_shelf(shelf, {0, top + pitch * static_cast<float>(shelf), room.w, pitch - kGap});
    }
    draw_reason({0, requests + kGap, room.w, 32});
    viz::legend(scene_, {0, legend, room.w, 18},
                {{State::kInUse, "in use"},
                 {State::kCached, "valid"},
                 {State::kReserved, "on its way"},
                 {State::kEvicted, "damaged"},
                 {State::kFree, "empty"}});
    scene_.lasts(0.8f);
    return std::move(scene_);
  }

 private:
  void draw_requests(const Place& at) {
    std::vector<viz::Chip> chips;
    for (const Asked& asked : now_.asked) {
      chips.push_back({.text = fmt::format("{} {}: {} tokens, {} found", asked.name, asked.doing,
                                           asked.num_prompt + asked.generated, asked.num_found),
                       .hue = asked.hue,
                       .state = asked.is_there ? State::kInUse : State::kFree});
    }
    viz::chips(scene_, "request", at, chips);
  }

  void draw_shelf(size_t shelf, const Place& at) {
    scene_.box(kShelves[shelf], at, paint(Ink::kPanel)).radius = 8;
    viz::heading(scene_, fmt::format("{}/name", kShelves[shelf]),
                 {at.x + 8, at.y + 3, at.w - 16, kHeading}, kTitles[shelf]);
    const size_t most = std::max(now_.shelves[kDevice].size(), now_.shelves[kFile].size());
    const float pitch = (at.w - 12) / static_cast<float>(most);
    const float top = at.y + kHeading + 5;
    for (size_t i = 0; i < now_.shelves[shelf].size(); ++i) {
      cell(shelf, i,
           {at.x + 8 + pitch * static_cast<float>(i), top, pitch - 4, at.bottom() - top - 6});
    }
  }

  void cell(size_t shelf, size_t i, const Place& at) {
    const Cell& of = now_.shelves[shelf][i];
    const std::string id = fmt::format("{} {}", kShelves[shelf], i + 1);
    viz::Shape& box = dress(scene_.box(id, at, {}), of.state, of.hue);
    if (of.state == State::kEvicted) box.edged(paint(Ink::kError), 2);
    if (of.name.empty()) return;
    box.tip(of.tip).selecting(fmt::format("{} {}", kShelves[shelf], of.name));
    if (at.h < 16 || viz::text_width(of.name, 9) > at.w - 4) return;
    const bool has_sum = at.h >= 34 && viz::text_width("0000", 9) <= at.w - 4 && !of.sum.empty();
    const float part = has_sum ? at.h / 2 : at.h;
    scene_
        .label(fmt::format("{}/name {}", id, of.name), {at.x + 2, at.y, at.w - 4, part}, of.name,
               {.size = std::min(15.0f, 0.7f * part), .align = viz::Align::kCentre})
        .comes_from(source(shelf, of.name));
    if (!has_sum) return;
    scene_.label(fmt::format("{}/sum {}", id, of.sum), {at.x + 2, at.y + part, at.w - 4, part - 2},
                 of.sum, {.size = 11, .align = viz::Align::kCentre});
  }

  /// Where a block stood before that was not on this shelf.
  std::string source(size_t shelf, const std::string& name) const {
    for (const size_t from : {size_t{kHost}, size_t{kDevice}, size_t{kFile}}) {
      const auto& cells = before_.shelves[from];
      const auto found = std::ranges::find(cells, name, &Cell::name);
      if (from == shelf || found == cells.end()) continue;
      return fmt::format("{} {}", kShelves[from], found - cells.begin() + 1);
    }
    return "";
  }

  /// Near what it is about.
  void draw_reason(const Place& at) {
    if (now_.reason.empty()) return;
    const float rest = std::max(at.w - viz::text_width(now_.reason, 13) - 20, 0.0f);
    const viz::Shape* const target = scene_.find(now_.points_at);
    const float left = target == nullptr ? 0 : std::clamp(target->at.x - 40, 0.0f, rest);
    viz::note(scene_, "note", {left, at.y, at.w - left, at.h}, now_.reason, now_.points_at);
  }

  const Shown& before_;
  const Shown& now_;
  viz::Scene scene_;
};

}  // namespace

Shown FileTierPage::look() {
  for (Asked& asked : asked_) {
    if (!asked.is_there) continue;
    const HostTierManager& manager = process_->tiers.manager();
    asked.doing = manager.is_loading(asked.id) ? "waits for its blocks"
                  : manager.holds(asked.id)    ? "runs"
                                               : "waits";
  }
  Shown now{.asked = asked_,
            .reason = std::exchange(reason_, {}),
            .points_at = std::exchange(points_at_, {})};
  if (process_) {  // without power there is nothing
    now.shelves[kDevice].resize(static_cast<size_t>(settings_.device));
    now.shelves[kHost].resize(static_cast<size_t>(settings_.host));
    look_at_host(now.shelves[kHost]);
    look_at_device(now.shelves[kDevice], now.shelves[kHost]);
  }
  now.shelves[kFile] = now.shelves[kHost];
  now.shelves[kFile].resize(static_cast<size_t>(settings_.host));
  look_at_file(now.shelves[kFile]);
  return now;
}

Cell FileTierPage::named(uint64_t hash, State state) const {
  const auto& [hue, name] = names_.at(hash);
  return {
      .state = state, .hue = hue, .name = name, .tip = fmt::format("{}, hash {:016x}", name, hash)};
}

void FileTierPage::look_at_host(std::vector<Cell>& cells) const {
  const BlockPool& pool = process_->tiers.manager().host();
  for (int32_t id = 1; id <= pool.num_blocks(); ++id) {
    const lesson06::CachedBlock* const block = pool.index().block(id);
    if (block == nullptr) continue;
    Cell& cell = cells[static_cast<size_t>(id - 1)];
    cell = named(block->hash, pool.ref_cnt(id) > 0 ? State::kReserved : State::kCached);
    add_sum(cell, checksum_of(process_->memory.block(id)),
            process_->tiers.swapper().checksums()[id], "made by the device");
  }
}

void FileTierPage::look_at_device(std::vector<Cell>& cells, const std::vector<Cell>& host) const {
  const HostTierManager& manager = process_->tiers.manager();
  const auto at = [&](int32_t id) -> Cell& { return cells[static_cast<size_t>(id - 1)]; };
  for (int32_t id = 1; id <= manager.pool().num_blocks(); ++id) {
    const lesson06::CachedBlock* const block = manager.pool().index().block(id);
    const State state = manager.pool().ref_cnt(id) > 0 ? State::kInUse : State::kFree;
    at(id).state = state;
    if (block == nullptr) continue;
    at(id) = named(block->hash, state == State::kFree ? State::kCached : state);
  }
  for (const CheckedSwapper::Load& load : process_->tiers.swapper().loads()) {
    for (const BlockMove& move : load.moves) {
      at(move.device) = host[static_cast<size_t>(move.host - 1)];
      at(move.device).state = State::kReserved;
    }
  }
}

/// What stands on the disk. `cells` are the host's: a block that is to be written is shown below
/// itself.
void FileTierPage::look_at_file(std::vector<Cell>& cells) const {
  std::ifstream in(path_, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto bytes = std::as_bytes(std::span(text));
  const FileLayout layout(kShape);
  const auto part = [&](int64_t at, int64_t size) {
    return bytes.subspan(static_cast<size_t>(at), static_cast<size_t>(size));
  };
  for (int32_t record = 1; record <= std::ssize(cells); ++record) {
    Cell& cell = cells[static_cast<size_t>(record - 1)];
    const bool is_to_come = cell.state == State::kReserved;
    if (!is_to_come) cell = {};
    cell.sum.clear();
    if (layout.end_of(record) > std::ssize(bytes)) continue;
    const auto header =
        decode_record_header(part(layout.begin_of(record), layout.header_bytes), kShape.block_size);
    if (!header || (is_to_come && names_.at(header->key.hash).second != cell.name)) continue;
    cell = named(header->key.hash, State::kCached);
    add_sum(cell, checksum_of(part(layout.content_of(record), layout.content_bytes)),
            header->content_checksum, "in its header");
  }
}

viz::Scene FileTierPage::scene(const viz::Room& room) {
  return Picture(before_, now_, room).drawn();
}

}  // namespace lesson12
