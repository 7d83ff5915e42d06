#include "instruments/watch/page/excerpt.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_set>
#include <utility>

namespace watch {
namespace {

constexpr size_t kFew = 6;  // of each prefix, before any has more

/// Takes blocks out of chains until there is no room.
class Choice {
 public:
  Choice(const EventMirror& mirror, const std::vector<Chain>& chains, size_t room)
      : mirror_(&mirror), chains_(&chains), room_(room), taken_(chains.size()) {}

  /// The newest chain, the longest, the second newest, ..; chains come the longest first.
  std::vector<size_t> newest_and_longest() const {
    std::vector<size_t> newest(chains_->size()), order;
    std::iota(newest.begin(), newest.end(), size_t{0});
    std::ranges::stable_sort(newest, std::greater{},
                             [&](size_t c) { return (*chains_)[c].newest; });
    std::vector<bool> there(newest.size());
    for (size_t i = 0; i < newest.size(); ++i) {
      for (const size_t c : {newest[i], i}) {
        if (!there[c]) order.push_back(c);
        there[c] = true;
      }
    }
    return order;
  }

  void take_stored_since(int64_t since) {
    std::vector<std::pair<int64_t, std::pair<size_t, size_t>>> fresh;
    std::unordered_set<const MirroredBlock*> seen;
    for (size_t c = 0; c < chains_->size(); ++c) {
      const Chain& chain = (*chains_)[c];
      if (chain.newest < since) continue;
      const MirroredBlock* block = mirror_->find(chain.last);
      // The blocks before one that has been seen have been seen, too.
      for (size_t i = chain.num_blocks; i-- > 0 && seen.insert(block).second;) {
        if (block->stored_at >= since) fresh.push_back({block->stored_at, {c, i}});
        if (i > 0) block = mirror_->find(*block->parent);
      }
    }
    std::ranges::sort(fresh, std::greater{});
    for (const auto& [stored_at, place] : fresh) take(place.first, place.second);
  }

  /// Takes at most `max_blocks` of one chain: its first block, and the last ones.
  void take_of(size_t c, size_t max_blocks) {
    const size_t count = (*chains_)[c].num_blocks;
    if (taken_[c].size() < max_blocks) take(c, 0);
    for (size_t i = count; i-- > 0 && room_ > 0 && taken_[c].size() < max_blocks;) take(c, i);
  }

  const std::set<size_t>& taken(size_t c) const { return taken_[c]; }

 private:
  void take(size_t c, size_t i) {
    if (room_ > 0 && taken_[c].insert(i).second) --room_;
  }

  const EventMirror* mirror_;
  const std::vector<Chain>* chains_;
  size_t room_;
  std::vector<std::set<size_t>> taken_;  // of each chain: places
};

/// Whether all blocks of a chain are shown.
bool is_whole(const EventMirror& mirror, const Chain& chain,
              const std::unordered_set<BlockName>& shown) {
  const BlockName* name = &chain.last;
  for (size_t left = chain.num_blocks; shown.contains(*name); name = &*mirror.find(*name)->parent) {
    if (--left == 0) return true;
  }
  return false;
}

}  // namespace

Excerpt excerpt(const EventMirror& mirror, int64_t since, size_t room) {
  const std::vector<Chain> chains = mirror.chains();
  Choice choice(mirror, chains, room);
  choice.take_stored_since(since);
  const std::vector<size_t> order = choice.newest_and_longest();
  for (const size_t c : order) choice.take_of(c, kFew);
  for (const size_t c : order) choice.take_of(c, chains[c].num_blocks);

  Excerpt part;
  part.num_prefixes = std::ssize(chains);
  std::unordered_set<BlockName> shown;
  for (size_t c = 0; c < chains.size(); ++c) {
    const std::set<size_t>& taken = choice.taken(c);
    if (taken.empty()) continue;
    part.rows.push_back({chains[c], mirror.blocks_of(chains[c]), {taken.begin(), taken.end()}});
    for (const size_t i : taken) shown.insert(part.rows.back().blocks[i]);
  }
  part.num_more = std::ssize(mirror.blocks()) - std::ssize(shown);
  part.num_cut = std::ranges::count_if(
      chains, [&](const Chain& chain) { return !is_whole(mirror, chain, shown); });
  std::ranges::sort(part.rows, {}, [&](const Excerpt::Row& row) {
    return mirror.find(row.chain.last)->stored_at;
  });
  return part;
}

}  // namespace watch
