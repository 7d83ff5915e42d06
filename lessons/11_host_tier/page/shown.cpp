#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "common/table.h"
#include "page.h"

namespace lesson11 {
namespace {

constexpr const char* kShelves[] = {"device", "host"};

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

/// Blocks that were found in the host.
int64_t num_in_host(const Asked& asked) {
  return std::ranges::count_if(asked.found, [](int shelf) { return shelf > 0; });
}

std::string are(int64_t count, const char* what) {
  return fmt::format("{} {}", kv::count_of(count, what), count == 1 ? "is" : "are");
}

}  // namespace

const HostTierManager& HostTierPage::manager() const {
  return live_.running() ? *live_.tiered().manager() : *manager_;
}

const Scheduler* HostTierPage::scheduler() const {
  return live_.running() ? live_.scheduler() : scheduler_.get();
}

const BlockPool& HostTierPage::pool(int shelf) const {
  return shelf == 0 ? manager().pool() : manager().host();
}

bool HostTierPage::is_there(int64_t id) const {
  if (scheduler() == nullptr) return false;
  const std::vector<int64_t> waiting = scheduler()->waiting(), running = scheduler()->running();
  return std::ranges::count(waiting, id) + std::ranges::count(running, id) > 0;
}

/// For each block that would be found now its shelf.
std::vector<int> HostTierPage::found_now(std::span<const int32_t> prompt) const {
  BlockHashes hashes;
  const ComputedBlocks computed = manager().get_computed_blocks(prompt, hashes);
  std::vector<int> shelves(computed.block_ids.size(), 0);
  shelves.resize(shelves.size() + manager().find_in_host(prompt, hashes, computed).size(), 1);
  return shelves;
}

/// In the pass that last_ is.
Doing HostTierPage::doing_of(const Asked& asked) const {
  if (asked.id < 0) return Doing::kNothing;
  if (!is_there(asked.id)) return Doing::kEnded;
  const lesson08::ScheduledRequest& request = scheduler()->request(asked.id);
  const auto chunk = std::ranges::find(last_.chunks, asked.id, &lesson08::Chunk::id);
  if (chunk != last_.chunks.end()) {
    const bool decodes = chunk->num_tokens == 1 && request.num_computed >= request.num_prompt;
    return decodes ? Doing::kDecodes : Doing::kPrompt;
  }
  if (manager().is_loading(asked.id)) return Doing::kLoads;
  return request.num_preemptions > 0 ? Doing::kPreempted : Doing::kWaits;
}

/// Takes over how all requests and blocks are now.
void HostTierPage::look() {
  for (Asked& asked : shown_.asked) look_at(asked);
  shown_.shelves.clear();
  for (int shelf = 0; shelf < 2; ++shelf) shown_.shelves.push_back(shelf_now(shelf));
  shown_.moving = moving_now();
}

void HostTierPage::look_at(Asked& asked) {
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

Shelf HostTierPage::shelf_now(int shelf) const {
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
    cell.has_copy = shelf == 0 && pool(1).index().find(key) != nullptr;
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

std::vector<Moving> HostTierPage::moving_now() const {
  std::vector<Moving> all;
  if (live_.running()) return all;
  for (const SteppedTransfers::Queued& queued : memory_->copies().queue()) {
    const Cell& cell = shown_.shelves[1].at(queued.move.host);
    all.push_back({queued.way, queued.job, queued.move, cell.hue, cell.name});
  }
  return all;
}

/// Why the last pass was as it was, told by what it changed.
void HostTierPage::tell_pass(const Shown& was) {
  std::set<std::string> lost = known_blocks(was);
  for (const std::string& name : known_blocks(shown_)) lost.erase(name);
  shown_.lost += std::ssize(lost);
  shown_.reason.clear();
  shown_.points_at.clear();
  if (tell_waiting(was) || tell_blocks(was)) return;
  if (!lost.empty()) {
    shown_.reason = fmt::format("{} evicted without a copy: lost", are(std::ssize(lost), "block"));
  }
}

std::string HostTierPage::others_run(const Asked& asked) const {
  std::vector<std::string> names;
  for (const Asked& other : shown_.asked) {
    const bool runs = other.doing == Doing::kPrompt || other.doing == Doing::kDecodes ||
                      std::ranges::count(last_.chunks, other.id, &lesson08::Chunk::id) > 0;
    if (runs && other.name != asked.name) names.push_back(other.name);
  }
  if (names.empty()) return "";
  return fmt::format("; {} {} meanwhile", fmt::join(names, " and "),
                     names.size() == 1 ? "runs" : "run");
}

std::string HostTierPage::told_of_found(const Asked& asked) const {
  std::vector<std::string> parts;
  for (int shelf = 0; shelf < 2; ++shelf) {
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
bool HostTierPage::tell_waiting(const Shown& was) {
  const auto tell = [&](const Asked& asked, std::string words) {
    shown_.reason = std::move(words);
    shown_.points_at = "request " + asked.name;
    return true;
  };
  for (const Asked& asked : shown_.asked) {
    const Asked* const old = was.asked.find(asked.name);
    if (old == nullptr || asked.marks.empty()) continue;
    const Doing now = asked.marks.back();
    const Doing then = old->marks.empty() ? Doing::kNothing : old->marks.back();
    if (now == Doing::kLoads && then != now) {
      return tell(asked, fmt::format("{} waits for {} of the host{}", asked.name,
                                     kv::count_of(num_in_host(asked), "block"), others_run(asked)));
    }
    if (then == Doing::kLoads && (now == Doing::kPrompt || now == Doing::kDecodes)) {
      return tell(asked, fmt::format("{}'s blocks are there: {} not computed again", asked.name,
                                     kv::count_of(asked.num_cached, "token")));
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

/// Of those that are offloaded, or were evicted.
bool HostTierPage::tell_blocks(const Shown& was) {
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
    shown_.reason =
        fmt::format("{} evicted, and not lost: the host has a copy", are(num_gone, "block"));
    return true;
  }
  if (num_gone > 0) return false;
  const auto to_go = std::ranges::count(shown_.moving, Way::kOffload, &Moving::way);
  const int64_t copied = shown_.traffic.empty() ? 0 : shown_.traffic.back().offloaded;
  if (copied > 0 || to_go > 0) {
    shown_.reason = fmt::format("the next victims are copied to the host: {} this pass, {} to go",
                                kv::count_of(copied, "block"), to_go);
    return true;
  }
  return false;
}

}  // namespace lesson11
