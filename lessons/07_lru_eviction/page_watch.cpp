#include "page_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/base/error.h"
#include "common/base/table.h"
#include "viz/names.h"

namespace lesson07 {

using namespace watch;

WatchedCache::WatchedCache(const std::string& file, const std::filesystem::path& model_dir) {
  RecordingReader reader(file == "example"
                             ? std::filesystem::path(KV_RECORDINGS "/example.kvevents")
                             : std::filesystem::path(file));
  Watcher ahead;
  size_t most = 0;
  for (Frame frame; reader.next(frame);) {
    ahead.take(frame);
    most = std::max(most, ahead.mirror().blocks().size());
    for (const auto& [name, block] : ahead.mirror().blocks()) {
      block_size_ = std::max(block_size_, block.block_size);
    }
    if (most > kMostTiles - kMostEvicted) {
      kv::user_error(
          "watch {}: the server's cache has {} blocks or more, and the page has room for {}; "
          "./course watch {} shows it as text",
          file, most, kMostTiles - kMostEvicted, file);
    }
    frames_.push_back(std::move(frame));
  }
  if (frames_.empty()) kv::user_error("watch {}: there is no batch in it", file);
  // What one step evicts is dropped from sight in the next, so a tile is never two blocks in one.
  tiles_.resize(2 * most + kMostEvicted);
  try {
    tokenizer_ = kv::Tokenizer::load(model_dir);
  } catch (const kv::UserError&) {  // numbers are shown
  }
  happened_ =
      fmt::format("A recording of {}. What the server stores stands below, each prefix in a row.",
                  kv::count_of(std::ssize(frames_), "batch"));
}

std::string WatchedCache::story() const { return happened_; }

std::string WatchedCache::next(int count) {
  if (num_taken_ == frames_.size()) kv::user_error("next: the recording has ended");
  Changes changes;
  std::string notes;
  for (; count > 0 && num_taken_ < frames_.size(); --count) {
    const Watcher::Step step = watcher_.take(frames_[num_taken_++]);
    changes += step.changes;
    if (!step.note.empty()) notes += " " + step.note + ".";
  }
  place();
  name_chains();
  happened_ = fmt::format("Batch {}: ", num_taken_);
  if (changes.stored > 0) happened_ += kv::count_of(changes.stored, "block") + " stored";
  if (changes.again > 0) happened_ += fmt::format(", {} of them again", changes.again);
  if (changes.removed > 0) {
    happened_ += fmt::format("{}{} evicted", changes.stored > 0 ? "; " : "", changes.removed);
  }
  if (changes.cleared > 0) happened_ += "; the cache was cleared";
  return happened_ += "." + notes;
}

/// Keeps the tiles of what is still there, and gives new blocks tiles that were empty before.
void WatchedCache::place() {
  const EventMirror& mirror = watcher_.mirror();
  std::set<BlockName> seen;  // of the evicted, those that are shown: the last ones
  for (auto name = mirror.evicted().rbegin();
       name != mirror.evicted().rend() && std::ssize(seen) < kMostEvicted; ++name) {
    seen.insert(*name);
  }
  std::vector<Tile*> empty;
  std::set<BlockName> placed;
  for (Tile& tile : tiles_) {
    if (!tile.is_known) {
      empty.push_back(&tile);
      continue;
    }
    const MirroredBlock* const block = mirror.find(tile.name);
    tile.came_again = block != nullptr && block->was_evicted;
    tile.is_known = block != nullptr || seen.contains(tile.name);
    if (tile.is_known) placed.insert(tile.name);
  }
  std::vector<std::pair<int64_t, BlockName>> fresh;
  for (const auto& [name, block] : mirror.blocks()) {
    if (!placed.contains(name)) fresh.emplace_back(block.stored_at, name);
  }
  std::ranges::sort(fresh);
  for (size_t i = 0; i < fresh.size(); ++i) {
    const MirroredBlock& block = *mirror.find(fresh[i].second);
    *empty.at(i) = {fresh[i].second, block.tokens, true, block.was_evicted};
  }
}

void WatchedCache::name_chains() {
  chains_ = watcher_.mirror().chains();
  std::ranges::sort(chains_, {}, [&](const Chain& chain) {
    return watcher_.mirror().find(chain.blocks.back())->stored_at;
  });
  letters_.assign(chains_.size(), -1);
  std::set<int> used;
  for (size_t c = 0; c < chains_.size(); ++c) {
    const auto& blocks = chains_[c].blocks;
    for (auto name = blocks.rbegin(); name != blocks.rend() && letters_[c] < 0; ++name) {
      const auto had = letter_of_.find(*name);
      if (had != letter_of_.end() && used.insert(had->second).second) letters_[c] = had->second;
    }
  }
  letter_of_.clear();
  for (size_t c = 0; c < chains_.size(); ++c) {
    for (int free = 0; letters_[c] < 0; ++free) {
      if (used.insert(free).second) letters_[c] = free;
    }
    const auto& blocks = chains_[c].blocks;
    for (size_t i = blocks.size() - chains_[c].num_own; i < blocks.size(); ++i) {
      letter_of_[blocks[i]] = letters_[c];
    }
  }
  std::vector<size_t> order(chains_.size());
  for (size_t c = 0; c < order.size(); ++c) order[c] = c;
  std::ranges::sort(order, {}, [&](size_t c) { return letters_[c]; });
  std::vector<Chain> sorted;
  for (const size_t c : order) sorted.push_back(std::move(chains_[c]));
  chains_ = std::move(sorted);
  std::ranges::sort(letters_);
}

std::vector<std::string> WatchedCache::words(std::span<const int32_t> tokens) const {
  std::vector<std::string> all;
  for (const int32_t token : tokens) {
    std::string text = std::to_string(token);
    if (tokenizer_ && tokenizer_->has(token)) {
      text.clear();
      for (const char c : tokenizer_->decode({&token, 1})) {
        if (c == '\n') {
          text += "\\n";
        } else if (c != ' ' || !text.empty()) {
          text += c;
        }
      }
    }
    all.push_back(std::move(text));
  }
  return all;
}

Shown WatchedCache::shown() const {
  Shown shown{.pool = viz::pool_view(block_size_, 1, static_cast<int>(tiles_.size()),
                                     [](int32_t) { return 0; }),
              .queue = {},
              .tables = {},
              .num_found = {},
              .most_queued = kMostEvicted,
              .front = "evicted: forgotten next",
              .back = "evicted last \u2190",
              .nobody = "nothing has been evicted"};
  shown.pool.show_refs = false;
  std::map<BlockName, int32_t> id_of;
  for (size_t i = 0; i < tiles_.size(); ++i) {
    const Tile& tile = tiles_[i];
    if (!tile.is_known) continue;
    id_of[tile.name] = static_cast<int32_t>(i + 1);
    viz::BlockView& block = shown.pool.blocks[i];
    block.filled = block_size_;
    block.tokens = words(tile.tokens);
    const bool stands = watcher_.mirror().find(tile.name) != nullptr;
    block.ref_cnt = stands ? 1 : 0;
    if (!stands) block.state = viz::State::kEvicted;
    if (stands && tile.came_again) block.state = viz::State::kFound;
  }
  for (const BlockName& name : watcher_.mirror().evicted()) {
    if (const auto found = id_of.find(name); found != id_of.end()) {
      shown.queue.push_back(found->second);
    }
  }
  for (size_t c = 0; c < chains_.size(); ++c) {
    std::vector<int32_t> ids;
    for (const BlockName& name : chains_[c].blocks) ids.push_back(id_of.at(name));
    const viz::SequenceView sequence{viz::letters(letters_[c]), letters_[c] % viz::kNumHues};
    shown.tables.push_back(
        shown.pool.add(sequence, ids, static_cast<int>(std::ssize(ids)) * block_size_));
    shown.num_found.push_back(0);
  }
  return shown;
}

std::vector<viz::Counter> WatchedCache::counters() const {
  const Counts& counts = watcher_.counts();
  return {{"batch", static_cast<int64_t>(num_taken_), "batch", "Batches of the recording so far.",
           fmt::format("{} / {}", num_taken_, frames_.size())},
          {"standing", watcher_.mirror().num_blocks(), "standing", "Blocks in the server's cache."},
          {"prefixes", std::ssize(chains_), "prefixes", "That no longer one contains."},
          {"stored", counts.changes.stored, "stored", "Blocks stored so far."},
          {"again", counts.changes.again, "again", "Of these, blocks that had been evicted."},
          {"evicted", counts.changes.removed, "evicted", "Blocks evicted so far."},
          {"missing", counts.missing}};
}

std::vector<viz::LegendEntry> WatchedCache::legend() {
  return {{viz::State::kInUse, "stands in the cache"},
          {viz::State::kFound, "was evicted, came again"},
          {viz::State::kEvicted, "evicted"}};
}

}  // namespace lesson07
