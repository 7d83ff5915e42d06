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
  std::unordered_map<BlockName, int> num_children;
  for (const auto& [name, block] : blocks_) {
    if (block.parent) ++num_children[*block.parent];
  }
  std::vector<Chain> chains;
  for (const auto& entry : blocks_) {
    if (num_children.contains(entry.first)) continue;
    Chain chain;
    bool own = true;
    // A broken server may name a block its own ancestor, so a walk ends after blocks_.size() steps.
    BlockName at = entry.first;
    while (chain.blocks.size() < blocks_.size()) {
      const MirroredBlock* const block = find(at);
      chain.headless = block == nullptr;
      if (block == nullptr) break;
      const auto children = num_children.find(at);
      own = own && (children == num_children.end() || children->second == 1);
      chain.num_own += own;
      chain.num_tokens += block->block_size;
      chain.blocks.push_back(at);
      if (!block->parent) break;
      at = *block->parent;
    }
    std::reverse(chain.blocks.begin(), chain.blocks.end());
    chains.push_back(std::move(chain));
  }
  std::ranges::sort(chains, [&](const Chain& a, const Chain& b) {
    if (a.num_tokens != b.num_tokens) return a.num_tokens > b.num_tokens;
    return find(a.blocks.back())->stored_at < find(b.blocks.back())->stored_at;
  });
  return chains;
}

}  // namespace watch
