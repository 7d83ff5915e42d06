#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "windows.h"

namespace lesson10 {

/// The engine stands still after a token: its slot comes with the next pass.
void WindowsPage::follow_engine() {
  // With its last token a request gives its blocks back, and the run has nothing more to show.
  while (!live_.finished() && !manager().holds(0)) live_.step();
  if (live_.finished()) {
    shown_.asked.erase("A");
    tell("the run has ended: what its full blocks hold can be found");
    return;
  }
  Asked& asked = shown_.asked.at("A");
  asked.tokens = live_.tokens(0);
  asked.tokens.resize(manager().table(asked.id).num_tokens());
  look();
  tell(fmt::format("A draws \"{}\"", live_.word(live_.generated().back().id)));
}

std::string WindowsPage::group_name(int group) const {
  if (group == 0) return "full";
  return settings_.num_sliding == 1 ? "window" : fmt::format("window {}", group);
}

/// The number of a request's first tokens that no later query sees in a sliding group.
int WindowsPage::num_skipped(const Asked& asked) const {
  return SlidingWindowManager(*pool_, 1, settings_.window).num_skipped_tokens(asked.num_tokens());
}

/// Asks each group alone, and for each block. `computed` is the prefix that they agreed on.
Lookup WindowsPage::look_up(Asked& asked, const ComputedBlocks& computed) {
  Lookup found;
  found.num_blocks = (asked.num_tokens() - 1) / settings_.block_size;
  found.num_hit = computed.chain.num_blocks;
  const std::vector<int32_t> full =
      manager_->full().get_computed_blocks(asked.tokens, asked.hashes).block_ids;
  const size_t num_blocks = found.num_blocks;
  for (int group = 0; group < manager().num_groups(); ++group) {
    const auto num_found = [&](size_t of_first, int window) {
      if (group == 0) return of_first;
      int64_t refused = 0;
      return SlidingWindowManager(*pool_, group, window)
          .find_longest_cache_hit(std::span(full).first(of_first), refused)
          .size();
    };
    found.alone.push_back(static_cast<int>(num_found(full.size(), settings_.window)));
    std::vector<viz::State>& blocks = found.blocks.emplace_back(num_blocks, viz::State::kFree);
    const int32_t* const own = computed.block_ids.data() + group * found.num_hit;
    for (size_t i = 0; i < full.size(); ++i) {
      if (num_found(i + 1, 2) != i + 1) continue;  // a window of two needs one block: the last one
      const bool used = std::cmp_less(i, found.num_hit) && own[i] != BlockPool::kNullBlock;
      blocks[i] = used ? viz::State::kFound : viz::State::kCached;
    }
  }
  return found;
}

/// Copies the current state of all requests and blocks.
Shown WindowsPage::look() {
  const std::vector<Held> was = shown_.blocks;
  for (Held& block : shown_.blocks) block.hues.clear();
  for (Asked& asked : shown_.asked) {
    asked.tables.clear();
    for (int group = 0; group < manager().num_groups(); ++group) {
      const auto ids = manager().table(asked.id, group).block_ids();
      asked.tables.emplace_back(ids.begin(), ids.end());
      for (const int32_t id : ids) {
        if (id == BlockPool::kNullBlock) continue;
        shown_.block(id).group = group;
        shown_.block(id).hues.push_back(asked.hue);
      }
    }
  }
  int num_full = 0;  // blocks of group 0
  for (int32_t id = 1; id <= manager().pool().num_blocks(); ++id) {
    Held& block = shown_.block(id);
    block.can_be_found = manager().pool().block(id).is_cached;
    if (block.hues.empty() && !block.can_be_found) block.group = -1;
    if (block.hues.empty()) continue;
    if (was[id].hues.empty()) ++block.times_taken;
    num_full += block.group == 0;
  }
  shown_.held = manager().pool().num_used();
  shown_.full = num_full * manager().num_groups();
  shown_.peak = std::max(shown_.peak, shown_.held);
  return shown_;
}

/// The text about a lookup: what each group has, and the prefix that they agree on.
std::string WindowsPage::told_of(const Lookup& lookup) const {
  if (lookup.alone[0] == 0) return lookup.request.name + " finds nothing: all of it is computed";
  std::vector<std::string> groups;
  for (size_t g = 0; g < lookup.alone.size(); ++g) {
    const std::string of = g == 0 ? "full attention" : group_name(static_cast<int>(g));
    groups.push_back(fmt::format("{} {}", of, lookup.alone[g] * settings_.block_size));
  }
  return fmt::format("{} finds the {} all groups have: {}", lookup.request.name,
                     kv::count_of(int64_t{lookup.num_hit} * settings_.block_size, "token"),
                     fmt::join(groups, ", "));
}

}  // namespace lesson10
