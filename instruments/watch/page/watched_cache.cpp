#include "instruments/watch/page/watched_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/error.h"
#include "common/table.h"
#include "viz/names.h"

namespace watch {

WatchedCache::WatchedCache(std::shared_ptr<Feed> feed, const std::filesystem::path& model_dir)
    : feed_(std::move(feed)), tiles_(2 * (kMaxStanding + kMaxEvicted)) {
  if (!feed_) {
    happened_ = "Nothing is watched. Name a server's endpoint or a recording, and press Watch.";
    return;
  }
  try {
    tokenizer_ = kv::Tokenizer::load(model_dir);
  } catch (const kv::UserError&) {  // tokens are shown as numbers
  }
  const std::string what =
      is_live() ? fmt::format("Listening to {}.", feed_->name())
                : fmt::format("A recording of {}.",
                              kv::count_of(static_cast<int64_t>(feed_->size()), "batch"));
  happened_ = what + " What the server stores stands below, each prefix in a row.";
}

std::string WatchedCache::why_not_next() const {
  if (!feed_) return "nothing is watched";
  if (num_taken_ < feed_->size()) return "";
  if (!is_live()) return "the recording has ended";
  if (const std::string error = feed_->error(); !error.empty()) return error;
  return fmt::format("nothing {} has come from {} yet", num_taken_ > 0 ? "new" : "at all",
                     feed_->name());
}

std::string WatchedCache::next(int count) {
  Changes changes;
  std::string notes;
  Words gone;
  const size_t end = feed_->end_of_step(num_taken_, count);
  if (const size_t dropped = skip_dropped(end); dropped > 0) {
    notes = fmt::format(" The page no longer keeps {} before this.",
                        kv::count_of(static_cast<int64_t>(dropped), "batch"));
  }
  const int64_t stored_before = watcher_.mirror().num_stored();
  for (; num_taken_ < end; ++num_taken_) {
    Watcher::Step step = watcher_.take(feed_->frame(num_taken_));
    changes += step.changes;
    for (Changes::Evicted& one : step.changes.evicted) gone[one.name] = std::move(one.tokens);
    if (!step.note.empty()) notes += " " + step.note + ".";
  }
  excerpt_ = excerpt(watcher_.mirror(), stored_before, kMaxStanding);
  place(gone);
  name_rows();
  happened_ = fmt::format("Batch {}: ", num_taken_);
  if (changes.stored > 0) happened_ += kv::count_of(changes.stored, "block") + " stored";
  if (changes.again > 0) happened_ += fmt::format(", {} of them again", changes.again);
  if (changes.removed > 0) {
    happened_ += fmt::format("{}{} evicted", changes.stored > 0 ? "; " : "", changes.removed);
  }
  if (changes.cleared > 0) happened_ += "; the cache was cleared";
  return happened_ += "." + notes;
}

/// Batches that the feed has dropped are one step: to the cache as it was after them. Returns how
/// many they are.
size_t WatchedCache::skip_dropped(size_t end) {
  const size_t dropped = feed_->num_dropped();
  if (num_taken_ >= dropped) return 0;
  watcher_ = feed_->after_dropped();
  num_taken_ = std::min(end, dropped);
  return dropped;
}

/// Keeps the tiles of what is still shown, and gives new blocks tiles that were empty before.
void WatchedCache::place(const Words& gone) {
  const EventMirror& mirror = watcher_.mirror();
  std::map<BlockName, std::vector<int32_t>> wanted;  // by name, with what is known of their tokens
  std::vector<std::pair<int64_t, BlockName>> fresh;  // of these, those without a tile; in order
  for (const Excerpt::Row& row : excerpt_.rows) {
    for (const size_t i : row.shown) {
      const BlockName& name = row.blocks[i];
      const MirroredBlock& block = *mirror.find(name);
      if (wanted.try_emplace(name, block.tokens).second) fresh.emplace_back(block.stored_at, name);
      block_size_ = std::max(block_size_, block.block_size);
    }
  }
  std::ranges::sort(fresh);
  size_t num_evicted = 0;
  for (auto name = mirror.evicted().rbegin();
       name != mirror.evicted().rend() && num_evicted < kMaxEvicted; ++name, ++num_evicted) {
    const auto words = gone.find(*name);
    if (words != gone.end()) fresh.emplace_back(INT64_MAX, *name);
    wanted[*name] = words == gone.end() ? std::vector<int32_t>() : words->second;
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
    tile.is_known = wanted.contains(tile.name);
    if (tile.is_known) placed.insert(tile.name);
  }
  auto next = empty.begin();
  for (const auto& [stored_at, name] : fresh) {
    if (!placed.insert(name).second) continue;
    const MirroredBlock* const block = mirror.find(name);
    **next++ = {name, wanted.at(name), true, block != nullptr && block->was_evicted};
  }
}

/// Letters in the order in which prefixes come; a row keeps the letter that its own blocks had.
void WatchedCache::name_rows() {
  std::vector<Excerpt::Row>& rows = excerpt_.rows;
  letters_.assign(rows.size(), -1);
  std::set<int> used;
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto& blocks = rows[r].blocks;
    for (auto name = blocks.rbegin(); name != blocks.rend() && letters_[r] < 0; ++name) {
      const auto had = letter_of_.find(*name);
      if (had != letter_of_.end() && used.insert(had->second).second) letters_[r] = had->second;
    }
  }
  letter_of_.clear();
  for (size_t r = 0; r < rows.size(); ++r) {
    for (int free = 0; letters_[r] < 0; ++free) {
      if (used.insert(free).second) letters_[r] = free;
    }
    const auto& blocks = rows[r].blocks;
    for (size_t i = blocks.size() - rows[r].chain.num_own; i < blocks.size(); ++i) {
      letter_of_[blocks[i]] = letters_[r];
    }
  }
  std::vector<size_t> order(rows.size());
  for (size_t r = 0; r < order.size(); ++r) order[r] = r;
  std::ranges::sort(order, {}, [&](size_t r) { return letters_[r]; });
  std::vector<Excerpt::Row> sorted;
  for (const size_t r : order) sorted.push_back(std::move(rows[r]));
  rows = std::move(sorted);
  std::ranges::sort(letters_);
}

std::vector<std::string> WatchedCache::words(std::span<const int32_t> tokens) const {
  std::vector<std::string> all;
  for (const int32_t token : tokens) {
    std::string text = std::to_string(token);
    if (tokenizer_ && tokenizer_->has(token)) {
      text = tokenizer_->shown({&token, 1});
      text.erase(0, text.find_first_not_of(' '));
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
              .max_queued = kMaxEvicted,
              .cut = {},
              .more = {},
              .front = "evicted: forgotten next",
              .back = "evicted last \u2190",
              .none = "nothing has been evicted"};
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
  for (size_t r = 0; r < excerpt_.rows.size(); ++r) {
    const auto& [chain, blocks, places] = excerpt_.rows[r];
    std::vector<int32_t> ids;
    for (const size_t i : places) ids.push_back(id_of.at(blocks[i]));
    const viz::SequenceView sequence{viz::letters(letters_[r]), letters_[r] % viz::kNumHues};
    shown.tables.push_back(
        shown.pool.add(sequence, ids, static_cast<int>(std::ssize(ids)) * block_size_));
    shown.num_found.push_back(0);
    const auto num_blocks = std::ssize(blocks);
    shown.cut.push_back(
        std::ssize(ids) == num_blocks
            ? ""
            : fmt::format("{} of {}", ids.size(), kv::count_of(num_blocks, "block")));
  }
  if (excerpt_.num_more > 0) {
    shown.more = {
        fmt::format(
            "and {} in {}", kv::count_of(excerpt_.num_more, "more block"),
            excerpt_.num_cut == 1 ? "1 prefix" : kv::with_commas(excerpt_.num_cut) + " prefixes"),
        fmt::format("and {} more", kv::with_commas(excerpt_.num_more))};
  }
  return shown;
}

std::vector<viz::Counter> WatchedCache::counters() const {
  const Counts& counts = watcher_.counts();
  return {{"batch", static_cast<int64_t>(num_taken_), "batch",
           "Batches so far, of those that are here.",
           fmt::format("{} / {}", num_taken_, feed_ ? feed_->size() : 0)},
          {"standing", watcher_.mirror().num_blocks(), "standing", "Blocks in the server's cache."},
          {"prefixes", excerpt_.num_prefixes, "prefixes", "That no longer one contains."},
          {"stored", counts.changes.stored, "stored", "Blocks stored so far."},
          {"again", counts.changes.again, "again", "Of these, blocks that had been evicted."},
          {"evicted", counts.changes.removed, "evicted", "Blocks evicted so far."},
          {"missing", counts.missing},
          {"restarts", counts.restarts},
          {"more", excerpt_.num_more}};
}

std::vector<viz::LegendEntry> WatchedCache::legend() {
  return {{viz::State::kInUse, "stands in the cache"},
          {viz::State::kFound, "was evicted, came again"},
          {viz::State::kEvicted, "evicted"}};
}

}  // namespace watch
