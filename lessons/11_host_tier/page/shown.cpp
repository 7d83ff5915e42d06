#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "page.h"

namespace lesson11 {
namespace {

using viz::State;

/// Blocks that can be found on any shelf.
std::set<std::string> known_blocks(const Shown& shown) {
  std::set<std::string> names;
  for (const viz::ShelfBlocks& shelf : shown.shelves) {
    for (const viz::ShelfBlock& block : shelf) {
      if (block.cached) names.insert(block.name);
    }
  }
  return names;
}

std::string are(int64_t count, const char* what) {
  return fmt::format("{} {}", kv::count_of(count, what), count == 1 ? "is" : "are");
}

}  // namespace

/// The shelf of each block that a lookup would find now.
std::vector<int> HostTierPage::found_now(std::span<const int32_t> prompt) const {
  BlockHashes hashes;
  const ComputedBlocks computed = manager().get_computed_blocks(prompt, hashes);
  std::vector<int> shelves(computed.block_ids.size(), 0);
  shelves.resize(shelves.size() + manager().find_in_host(prompt, hashes, computed).size(), 1);
  return shelves;
}

Shown HostTierPage::look() {
  Shown now = shown_;
  tell("");
  return now;
}

/// Copies the current state of all requests and blocks.
void HostTierPage::refresh() {
  for (Asked& asked : shown_.asked) refresh(asked);
  const auto name_of = [&](const CachedBlock& content) { return names_.at(content.hash); };
  shown_.shelves[0] = viz::shelf_blocks(manager().pool(), name_of);
  shown_.shelves[1] = viz::shelf_blocks(manager().host(), name_of);
  const auto is_on = [&](int shelf, const viz::ShelfBlock& block) {
    return std::ranges::count(shown_.shelves[shelf], block.name, &viz::ShelfBlock::name) > 0;
  };
  for (viz::ShelfBlock& block : shown_.shelves[0]) {
    block.has_copy = block.cached && is_on(1, block);
    if (block.has_copy) block.tooltip = "\nthe host has a copy: evicted, it is not lost";
  }
  for (viz::ShelfBlock& block : shown_.shelves[1]) {
    if (block.cached && !is_on(0, block))
      block.tooltip = "\nonly here: the device has overwritten it";
  }
  for (const Asked& asked : shown_.asked) {  // blocks that are not full yet, or being loaded
    for (size_t i = 0; i < asked.ids.size(); ++i) {
      viz::ShelfBlock& block = shown_.shelves[0].at(asked.ids[i]);
      if (!block.name.empty()) continue;
      block.hue = asked.hue;
      block.name = fmt::format("{}{}", asked.name, i);
    }
  }
  note_copies();
  shown_.offloaded = manager().metrics().num_offloaded;
  shown_.loaded = manager().metrics().num_hits_in_host * kBlockSize;
}

void HostTierPage::refresh(Asked& asked) {
  viz::follow(asked, scheduler(), manager());
  if (asked.id < 0) return;
  if (live_.running()) {
    viz::follow_answer(asked, live_);
    std::vector<int32_t> text = live_.tokens(asked.id);
    if (text.size() > asked.text.size()) asked.text = std::move(text);
  }
  asked.hashes.extend(asked.text, kBlockSize, {});
  viz::label_blocks(names_, asked, asked.hashes.all());
}

/// Records which blocks each load in flight brings, before a pass copies some of them.
void HostTierPage::note_loads() {
  for (const SteppedTransfers::Queued& queued : memory_->copies.queue()) {
    if (queued.direction == Direction::kOffload) continue;
    const viz::ShelfBlock& in_host = shown_.shelves[1].at(queued.move.host);
    loads_.insert_or_assign(queued.move.device, std::pair(in_host.hue, in_host.name));
  }
}

/// Notes the copies to come. The engine's copies run beside its passes, and the page does not see
/// them.
void HostTierPage::note_copies() {
  shown_.copies.clear();
  if (live_.running()) return;
  for (const SteppedTransfers::Queued& queued : memory_->copies.queue()) {
    const std::string device = viz::shelf_block_id(0, queued.move.device),
                      host = viz::shelf_block_id(1, queued.move.host);
    const viz::ShelfBlock in_host = shown_.shelves[1].at(queued.move.host);
    const bool down = queued.direction == Direction::kOffload;
    shown_.copies.push_back({.id = fmt::format("copy {}.{}", queued.job, queued.move.host),
                             .down = down,
                             .from = down ? device : host,
                             .to = down ? host : device,
                             .name = in_host.name});
    viz::ShelfBlock& on_device = shown_.shelves[0].at(queued.move.device);
    if (down) {
      shown_.shelves[1].at(queued.move.host).state = State::kReserved;
      if (on_device.name == in_host.name) on_device.has_copy = false;  // not before it is there
    } else {
      on_device.state = State::kReserved;
    }
  }
  // A block that is being loaded, or has been and waits for the others, is in no table yet.
  std::erase_if(loads_, [&](const auto& load) {
    viz::ShelfBlock& block = shown_.shelves[0].at(load.first);
    if (block.state == State::kFree || !block.name.empty()) return true;
    std::tie(block.hue, block.name) = load.second;
    return false;
  });
}

/// Tells the reason of the last pass by what it changed.
void HostTierPage::tell_pass(const Shown& was) {
  std::set<std::string> lost = known_blocks(was);
  for (const std::string& name : known_blocks(shown_)) lost.erase(name);
  shown_.lost += std::ssize(lost);
  tell("");
  if (tell_waiting(was) || tell_blocks(was) || lost.empty()) return;
  tell(fmt::format("{} evicted without a copy: lost", are(std::ssize(lost), "block")));
}

std::string HostTierPage::others_run(const Asked& asked) const {
  std::vector<std::string> names;
  for (const Asked& other : shown_.asked) {
    if (runs(other.doing) && other.name != asked.name) names.push_back(other.name);
  }
  if (names.empty()) return "";
  return fmt::format("; {} {} meanwhile", fmt::join(names, " and "),
                     names.size() == 1 ? "runs" : "run");
}

/// Logs each request that begins or ends to wait for its blocks, and each pass that waits.
bool HostTierPage::tell_waiting(const Shown& was) {
  for (const Asked& asked : shown_.asked) {
    const Asked* const old = was.asked.find(asked.name);
    if (old == nullptr || !asked.doing) continue;
    const bool waited = !old->marks.empty() && old->marks.back() == State::kReserved;
    const std::string& name = asked.name;
    if (asked.doing == State::kReserved) {
      const std::string blocks = kv::count_of(std::ranges::count(asked.found, 1), "block");
      tell(fmt::format(
               "{} {}{}", name,
               waited ? "still waits for its blocks" : "waits for " + blocks + " of the host",
               others_run(asked)),
           "request " + name);
      return true;
    }
    if (waited && runs(asked.doing)) {
      tell(fmt::format("{}'s blocks are there: {} not computed again", name,
                       kv::count_of(asked.num_cached, "token")),
           "request " + name);
      return true;
    }
  }
  if (waited_) tell("the pass waits: it writes blocks that are still being copied");
  return waited_;
}

/// Tells of blocks of the device that were evicted, or are offloaded.
bool HostTierPage::tell_blocks(const Shown& was) {
  int64_t num_gone = 0, num_kept = 0;
  const std::set<std::string> known = known_blocks(shown_);
  const viz::ShelfBlocks &before = was.shelves[0], &now = shown_.shelves[0];
  for (size_t id = 1; id < std::min(before.size(), now.size()); ++id) {
    if (!before[id].cached || (now[id].cached && now[id].name == before[id].name)) continue;
    ++num_gone;
    num_kept += known.contains(before[id].name);
  }
  if (num_gone > num_kept) return false;
  if (num_gone > 0) {
    tell(fmt::format("{} evicted, and not lost: the host has a copy", are(num_gone, "block")));
    return true;
  }
  const int64_t to_go = shown_.num_to_offload();
  const int64_t copied = shown_.offloaded - was.offloaded + was.num_to_offload() - to_go;
  if (copied == 0 && to_go == 0) return false;
  tell(copied == 0 ? are(to_go, "block") + " next on the link to the host"
                   : fmt::format("{} copied to the host, {} to go", are(copied, "block"), to_go));
  return true;
}

}  // namespace lesson11
