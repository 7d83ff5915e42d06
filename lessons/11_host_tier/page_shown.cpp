#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "common/base/table.h"
#include "page_tiers.h"

namespace lesson11 {
namespace {

constexpr const char* kShelves[] = {"device", "host", "file"};

/// Blocks that can be found on any shelf.
std::set<std::string> known_blocks(const Shown& shown) {
  std::set<std::string> names;
  for (const Shelf& shelf : shown.shelves) {
    for (const Cell& cell : shelf.cells) {
      if (cell.cached) names.insert(cell.name);
    }
  }
  return names;
}

/// That were found further down.
int64_t num_loaded(const Asked& asked) {
  return std::ranges::count_if(asked.found, [](int shelf) { return shelf > 0; });
}

std::string are(int64_t count, const char* what) {
  return fmt::format("{} {}", kv::count_of(count, what), count == 1 ? "is" : "are");
}

}  // namespace

const TieredManager& TiersPage::manager() const {
  return live_.running() ? *live_.tiered().manager() : *manager_;
}

const TieredScheduler* TiersPage::scheduler() const {
  return live_.running() ? live_.scheduler() : scheduler_.get();
}

const BlockPool& TiersPage::pool(int shelf) const {
  return shelf == 0 ? static_cast<const BlockPool&>(manager().pool())
                    : manager().tier_pool(shelf - 1);
}

bool TiersPage::is_there(int64_t id) const {
  if (scheduler() == nullptr) return false;
  const std::vector<int64_t> waiting = scheduler()->waiting(), running = scheduler()->running();
  return std::ranges::count(waiting, id) + std::ranges::count(running, id) > 0;
}

/// Of each block that would be found now: on which shelf.
std::vector<int> TiersPage::found_now(std::span<const int32_t> prompt) const {
  BlockHashes hashes;
  const FoundBlocks found = manager().look_up(prompt, hashes);
  std::vector<int> shelves(found.computed.block_ids.size(), 0);
  for (const TierBlock& block : found.below) shelves.push_back(block.tier + 1);
  return shelves;
}

/// In the pass that last_ is.
Doing TiersPage::doing_of(const Asked& asked) const {
  if (asked.id < 0) return Doing::kNothing;
  if (!is_there(asked.id)) return Doing::kEnded;
  const lesson08::ScheduledRequest& request = scheduler()->request(asked.id);
  const auto chunk = std::ranges::find(last_.chunks, asked.id, &Chunk::id);
  if (chunk != last_.chunks.end()) {
    const bool decodes = chunk->num_tokens == 1 && request.num_computed >= request.num_prompt;
    return decodes ? Doing::kDecodes : Doing::kPrompt;
  }
  if (scheduler()->is_loading(asked.id)) return Doing::kLoads;
  BlockHashes hashes;
  const std::vector<TierBlock> below = manager().look_up(request.tokens, hashes).below;
  if (request.state == lesson08::RequestState::kWaiting &&
      std::ranges::any_of(below, &TierBlock::on_its_way)) {
    return Doing::kFetches;
  }
  return request.num_preemptions > 0 ? Doing::kPreempted : Doing::kWaits;
}

/// Takes over how all requests and blocks are now.
void TiersPage::look() {
  for (Asked& asked : shown_.asked) look_at(asked);
  shown_.shelves.clear();
  for (int shelf = 0; shelf < num_shelves(); ++shelf) shown_.shelves.push_back(shelf_now(shelf));
  shown_.moving = moving_now();
}

void TiersPage::look_at(Asked& asked) {
  asked.ids.clear();
  if (asked.id < 0) return;
  if (live_.running()) {
    std::vector<int32_t> text = live_.requests()[static_cast<size_t>(asked.id)].prompt;
    const std::vector<int32_t>& answer = live_.answers()[static_cast<size_t>(asked.id)];
    text.insert(text.end(), answer.begin(), answer.end());
    asked.generated = static_cast<int>(answer.size());
    asked.words.clear();
    for (const int32_t token : answer) asked.words += live_.text(token);
    if (text.size() > asked.text.size()) asked.text = std::move(text);
  }
  asked.hashes.extend(asked.text, kBlockSize, {});
  for (size_t i = 0; i < asked.hashes.all().size(); ++i) {
    names_.try_emplace(asked.hashes.all()[i],
                       std::pair(asked.hue, fmt::format("{}{}", asked.name, i)));
  }
  asked.num_known = asked.num_prompt + asked.generated;
  if (!is_there(asked.id)) {
    asked.doing = Doing::kEnded;
    return;
  }
  const lesson08::ScheduledRequest& request = scheduler()->request(asked.id);
  asked.num_computed = request.num_computed;
  asked.num_cached = request.num_cached;
  if (!manager().holds(asked.id)) return;
  const auto ids = manager().table(asked.id).block_ids();
  asked.ids.assign(ids.begin(), ids.end());
}

Shelf TiersPage::shelf_now(int shelf) const {
  const BlockPool& of = pool(shelf);
  Shelf now;
  now.name = kShelves[shelf];
  now.cells.resize(static_cast<size_t>(of.num_blocks()) + 1);
  for (int32_t id = 1; id <= of.num_blocks(); ++id) {
    Cell& cell = now.cells[static_cast<size_t>(id)];
    cell.used = of.ref_cnt(id) > 0;
    const lesson06::CachedBlock* const content = of.index().block(id);
    if (content == nullptr) continue;
    cell.cached = true;
    if (const auto known = names_.find(content->hash); known != names_.end()) {
      std::tie(cell.hue, cell.name) = known->second;
    } else {
      cell.name = "?";
    }
    const BlockKey key{.hash = content->hash,
                       .parent = content->parent,
                       .tokens = of.index().tokens(id),
                       .extra_keys = content->extra_keys};
    for (int below = shelf + 1; below < num_shelves(); ++below) {
      cell.has_copy |= pool(below).index().find(key) != nullptr;
    }
  }
  int order = 0;
  for (const lesson07::KvBlock* block : of.queue().all()) {
    now.cells[static_cast<size_t>(block->id)].order = order++;
  }
  if (shelf > 0) return now;
  for (const Asked& asked : shown_.asked) {  // what is not full yet, or still being loaded
    for (size_t i = 0; i < asked.ids.size(); ++i) {
      Cell& cell = now.cells[static_cast<size_t>(asked.ids[i])];
      if (!cell.name.empty()) continue;
      cell.hue = asked.hue;
      cell.name = fmt::format("{}{}", asked.name, i);
    }
  }
  return now;
}

std::vector<Moving> TiersPage::moving_now() const {
  std::vector<Moving> all;
  for (int tier = 0; tier < manager().num_tiers(); ++tier) {
    int num_copied = live_.running() ? 0 : -memory_->link(tier).num_queued();
    for (const TieredManager::Move& move : manager().moves(tier)) {
      num_copied += live_.running() ? 0 : static_cast<int>(move.blocks.size());
    }
    for (const TieredManager::Move& move : manager().moves(tier)) {
      for (const BlockMove& blocks : move.blocks) {
        const Cell& lower = shown_.shelves[static_cast<size_t>(tier) + 1].at(blocks.lower);
        all.push_back({.tier = tier,
                       .way = move.way,
                       .ticket = move.ticket,
                       .blocks = blocks,
                       .copied = num_copied-- > 0,
                       .hue = lower.hue,
                       .name = lower.name});
      }
    }
  }
  return all;
}

/// Why the last pass was as it was, told by what it changed.
void TiersPage::tell_pass(const Shown& was) {
  std::set<std::string> lost = known_blocks(was);
  for (const std::string& name : known_blocks(shown_)) lost.erase(name);
  shown_.lost += std::ssize(lost);
  shown_.reason.clear();
  shown_.points_at.clear();
  if (tell_waiting(was) || tell_blocks(was)) return;
  if (!lost.empty()) {
    shown_.reason =
        fmt::format("{} evicted, and nobody has a copy: lost", are(std::ssize(lost), "block"));
  }
}

std::string TiersPage::others_run(const Asked& asked) const {
  std::vector<std::string> names;
  for (const Asked& other : shown_.asked) {
    const bool runs = other.doing == Doing::kPrompt || other.doing == Doing::kDecodes ||
                      std::ranges::count(last_.chunks, other.id, &Chunk::id) > 0;
    if (runs && other.name != asked.name) names.push_back(other.name);
  }
  if (names.empty()) return "";
  return fmt::format("; {} {} meanwhile", fmt::join(names, " and "),
                     names.size() == 1 ? "runs" : "run");
}

std::string TiersPage::told_of_found(const Asked& asked) const {
  std::vector<std::string> parts;
  for (int shelf = 0; shelf < num_shelves(); ++shelf) {
    const auto count = std::ranges::count(asked.found, shelf);
    if (count == 0) continue;
    parts.push_back(fmt::format("{} {} the {}", count, shelf == 0 ? "on" : "in",
                                shelf == 1 ? "host's memory" : kShelves[shelf]));
  }
  if (parts.empty()) return asked.name + " finds nothing: all of its prompt is computed";
  return fmt::format("{} finds {}: {}", asked.name, kv::count_of(std::ssize(asked.found), "block"),
                     fmt::join(parts, ", "));
}

/// Of those who wait for blocks, or no longer.
bool TiersPage::tell_waiting(const Shown& was) {
  const auto tell = [&](const Asked& asked, std::string words) {
    shown_.reason = std::move(words);
    shown_.points_at = "request " + asked.name;
    return true;
  };
  int64_t num_damaged = 0;
  for (int tier = 0; tier < manager().num_tiers(); ++tier) {
    num_damaged += manager().tier_metrics(tier).num_damaged;
  }
  if (const int64_t fresh = num_damaged - std::exchange(num_damaged_, num_damaged); fresh > 0) {
    shown_.reason = fmt::format("{} not as it was written: what it held is a miss, nothing worse",
                                are(fresh, "record"));
    return true;
  }
  for (const Asked& asked : shown_.asked) {
    const Asked* const old = was.asked.find(asked.name);
    if (old == nullptr || asked.marks.empty()) continue;
    const Doing now = asked.marks.back();
    const Doing then = old->marks.empty() ? Doing::kNothing : old->marks.back();
    const auto rising = std::ranges::count_if(shown_.moving, [&](const Moving& one) {
      return one.way == Way::kUp && one.hue == asked.hue;
    });
    if (now == Doing::kFetches && then != now) {
      return tell(asked, fmt::format("{} waits for {} of the file{}", asked.name,
                                     kv::count_of(rising, "block"), others_run(asked)));
    }
    if (now == Doing::kLoads && then != now) {
      return tell(asked, fmt::format("{} waits for {} of the host{}", asked.name,
                                     kv::count_of(num_loaded(asked), "block"), others_run(asked)));
    }
    if (then == Doing::kLoads && (now == Doing::kPrompt || now == Doing::kDecodes)) {
      return tell(asked, fmt::format("{}'s blocks are there: {} that nobody computes again",
                                     asked.name, kv::count_of(asked.num_cached, "token")));
    }
    if (now == Doing::kPrompt && std::ranges::count(last_.started, asked.id) > 0 &&
        std::ssize(asked.found) * kBlockSize > asked.num_cached) {
      return tell(asked,
                  fmt::format("{} computes again what it could load{}", asked.name,
                              settings_.policy == LoadPolicy::kQuicker ? ": that is quicker" : ""));
    }
  }
  if (waited_) {
    shown_.reason = "the pass waits: it writes blocks that are still being copied";
    return true;
  }
  return false;
}

/// Of those that sink, or were evicted.
bool TiersPage::tell_blocks(const Shown& was) {
  int64_t num_gone = 0, num_kept = 0;  // on the device
  const std::set<std::string> known = known_blocks(shown_);
  for (size_t id = 1; id < std::min(was.shelves[0].cells.size(), shown_.shelves[0].cells.size());
       ++id) {
    const Cell &old = was.shelves[0].cells[id], &now = shown_.shelves[0].cells[id];
    if (!old.cached || (now.cached && now.name == old.name)) continue;
    ++num_gone;
    num_kept += known.contains(old.name);
  }
  if (num_gone > 0 && num_gone == num_kept) {
    shown_.reason = fmt::format("{} evicted, and not lost: there is a copy further down",
                                are(num_gone, "block"));
    return true;
  }
  if (num_gone > 0) return false;
  for (int tier = 0; tier < manager().num_tiers(); ++tier) {
    const auto sinking = [&](const Shown& of) {
      return std::ranges::count_if(
          of.moving, [&](const Moving& one) { return one.way == Way::kDown && one.tier == tier; });
    };
    const int64_t sunk = shown_.traffic[static_cast<size_t>(tier)].empty()
                             ? 0
                             : shown_.traffic[static_cast<size_t>(tier)].back().down;
    if (sunk == 0 && sinking(shown_) == 0) continue;
    shown_.reason = fmt::format("who is overwritten next sinks to the {}: {} this pass, {} to go",
                                kShelves[tier + 1], kv::count_of(sunk, "block"), sinking(shown_));
    return true;
  }
  return false;
}

}  // namespace lesson11
