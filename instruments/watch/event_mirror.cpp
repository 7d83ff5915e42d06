#include "instruments/watch/event_mirror.h"

#include <fmt/format.h>

#include <algorithm>

namespace watch {

BlockName name_of(const BlockHash& hash, const Place& place) {
  if (place == Place{}) return hash;
  return fmt::format("{}/{}/{}", place.medium, place.group_idx, hash);
}

Changes& Changes::operator+=(const Changes& other) {
  stored += other.stored;
  again += other.again;
  removed += other.removed;
  not_there += other.not_there;
  cleared += other.cleared;
  return *this;
}

Changes EventMirror::apply(const EventBatch& batch) {
  Changes changes;
  for (const Event& event : batch.events) {
    std::visit([&](const auto& one) { apply(one, changes); }, event);
  }
  return changes;
}

void EventMirror::apply(const BlockStored& event, Changes& changes) {
  std::optional<BlockName> parent;
  if (event.parent_block_hash) parent = name_of(*event.parent_block_hash, event.place);
  const bool has_tokens = !event.token_ids.empty();
  for (size_t i = 0; i < event.block_hashes.size(); ++i) {
    const BlockName name = name_of(event.block_hashes[i], event.place);
    MirroredBlock& block = blocks_[name];
    if (block.num_copies++ == 0) {
      block.hash = event.block_hashes[i];
      block.parent = parent;
      block.block_size = event.block_size;
      block.stored_at = num_stored_;
      if (has_tokens) {
        const auto begin =
            event.token_ids.begin() + static_cast<std::ptrdiff_t>(i) * event.block_size;
        block.tokens.assign(begin, begin + event.block_size);
      }
      if (const auto evicted = remembered_.find(name); evicted != remembered_.end()) {
        block.was_evicted = true;
        ++changes.again;
        evicted_.erase(evicted->second);
        remembered_.erase(evicted);
      }
    }
    ++num_stored_;
    ++num_blocks_;
    ++changes.stored;
    parent = name;
  }
}

void EventMirror::apply(const BlockRemoved& event, Changes& changes) {
  for (const BlockHash& hash : event.block_hashes) {
    const BlockName name = name_of(hash, event.place);
    const auto block = blocks_.find(name);
    if (block == blocks_.end()) {
      ++changes.not_there;
      continue;
    }
    ++changes.removed;
    --num_blocks_;
    if (--block->second.num_copies > 0) continue;
    changes.evicted.push_back({name, std::move(block->second.tokens)});
    blocks_.erase(block);
    remember(name);
  }
}

void EventMirror::apply(const AllBlocksCleared&, Changes& changes) {
  clear();
  ++changes.cleared;
}

void EventMirror::clear() {
  blocks_.clear();
  num_blocks_ = 0;
  evicted_.clear();
  remembered_.clear();
}

void EventMirror::remember(const BlockName& name) {
  remembered_[name] = evicted_.insert(evicted_.end(), name);
  if (evicted_.size() <= max_remembered_) return;
  remembered_.erase(evicted_.front());
  evicted_.pop_front();
}

const MirroredBlock* EventMirror::find(const BlockName& name) const {
  const auto found = blocks_.find(name);
  return found == blocks_.end() ? nullptr : &found->second;
}

std::vector<Chain> EventMirror::chains() const {
  const auto parent_of = [&](const MirroredBlock& block) {
    return block.parent ? find(*block.parent) : nullptr;
  };
  std::unordered_map<const MirroredBlock*, int> num_children;
  for (const auto& [name, block] : blocks_) {
    if (const MirroredBlock* const parent = parent_of(block)) ++num_children[parent];
  }
  std::vector<Chain> chains;
  std::unordered_map<const MirroredBlock*, Chain> ends;  // by block: the chain that ends there
  for (const auto& [name, last] : blocks_) {
    if (num_children.contains(&last)) continue;
    std::vector<const MirroredBlock*> path;  // the last block, and those before it that are new
    Chain chain;
    for (const MirroredBlock* at = &last; at != nullptr; at = parent_of(*at)) {
      // A broken server may name a block its own ancestor: the walk ends there, at an empty chain.
      const auto [end, is_new] = ends.try_emplace(at);
      if (!is_new) chain = end->second;
      if (!is_new) break;
      path.push_back(at);
      chain.headless = at->parent && parent_of(*at) == nullptr;
    }
    for (auto at = path.rbegin(); at != path.rend(); ++at) {
      ++chain.num_blocks;
      chain.num_tokens += (*at)->block_size;
      chain.newest = std::max(chain.newest, (*at)->stored_at);
      ends[*at] = chain;
    }
    const auto shared = std::find_if(path.begin() + 1, path.end(), [&](const MirroredBlock* block) {
      return num_children.at(block) > 1;
    });
    chain.num_own = static_cast<size_t>(shared - path.begin());
    chain.last = name;
    chains.push_back(std::move(chain));
  }
  std::ranges::sort(chains, [&](const Chain& a, const Chain& b) {
    if (a.num_tokens != b.num_tokens) return a.num_tokens > b.num_tokens;
    return find(a.last)->stored_at < find(b.last)->stored_at;
  });
  return chains;
}

std::vector<BlockName> EventMirror::blocks_of(const Chain& chain) const {
  std::vector<BlockName> names(chain.num_blocks, chain.last);
  for (size_t i = names.size() - 1; i > 0; --i) names[i - 1] = *find(names[i])->parent;
  return names;
}

}  // namespace watch
