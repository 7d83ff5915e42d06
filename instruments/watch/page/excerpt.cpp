#include "instruments/watch/page/excerpt.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace watch {
namespace {

constexpr size_t kFew = 6;  // of each prefix, before any has more

/// Takes blocks out of chains until there is no room.
class Choice {
 public:
  Choice(const EventMirror& mirror, const std::vector<Chain>& chains, size_t room)
      : mirror_(&mirror), chains_(&chains), room_(room), taken_(chains.size()) {
    for (const Chain& chain : chains) {
      newest_.push_back(0);
      for (const BlockName& name : chain.blocks) {
        newest_.back() = std::max(newest_.back(), mirror.find(name)->stored_at);
      }
    }
  }

  /// The newest chain, the longest, the second newest, ..; chains come the longest first.
  std::vector<size_t> newest_and_longest() const {
    std::vector<size_t> newest(chains_->size()), order;
    std::iota(newest.begin(), newest.end(), size_t{0});
    std::ranges::stable_sort(newest, std::greater{}, [&](size_t c) { return newest_[c]; });
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
    std::unordered_set<std::string_view> seen;
    for (size_t c = 0; c < chains_->size(); ++c) {
      if (newest_[c] < since) continue;
      const auto& blocks = (*chains_)[c].blocks;
      for (size_t i = 0; i < blocks.size(); ++i) {
        const int64_t stored_at = mirror_->find(blocks[i])->stored_at;
        if (stored_at >= since && seen.insert(blocks[i]).second)
          fresh.push_back({stored_at, {c, i}});
      }
    }
    std::ranges::sort(fresh, std::greater{});
    for (const auto& [stored_at, place] : fresh) take(place.first, place.second);
  }

  /// Takes at most `max_blocks` of one chain: its first block, and the last ones.
  void take_of(size_t c, size_t max_blocks) {
    const size_t count = (*chains_)[c].blocks.size();
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
  std::vector<int64_t> newest_;          // of each chain: the number of its newest block
  std::vector<std::set<size_t>> taken_;  // of each chain: places
};

}  // namespace

Excerpt excerpt(const EventMirror& mirror, int64_t since, size_t room) {
  std::vector<Chain> chains = mirror.chains();
  Choice choice(mirror, chains, room);
  choice.take_stored_since(since);
  const std::vector<size_t> order = choice.newest_and_longest();
  for (const size_t c : order) choice.take_of(c, kFew);
  for (const size_t c : order) choice.take_of(c, chains[c].blocks.size());

  Excerpt part;
  part.num_prefixes = std::ssize(chains);
  std::unordered_set<BlockName> shown;
  for (size_t c = 0; c < chains.size(); ++c) {
    for (const size_t i : choice.taken(c)) shown.insert(chains[c].blocks[i]);
  }
  part.num_more = std::ssize(mirror.blocks()) - std::ssize(shown);
  for (size_t c = 0; c < chains.size(); ++c) {
    const auto is_shown = [&](const BlockName& name) { return shown.contains(name); };
    part.num_cut += !std::ranges::all_of(chains[c].blocks, is_shown);
    const std::set<size_t>& taken = choice.taken(c);
    if (!taken.empty()) part.rows.push_back({std::move(chains[c]), {taken.begin(), taken.end()}});
  }
  std::ranges::sort(part.rows, {}, [&](const Excerpt::Row& row) {
    return mirror.find(row.chain.blocks.back())->stored_at;
  });
  return part;
}

}  // namespace watch
