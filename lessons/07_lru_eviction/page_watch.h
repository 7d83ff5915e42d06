#pragma once

// A server's cache on the page of lesson 07: its blocks, as a mirror of its events has them.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/model/tokenizer.h"
#include "viz/page.h"
#include "viz/parts.h"
#include "watch/excerpt.h"
#include "watch/feed.h"
#include "watch/watcher.h"

namespace lesson07 {

/// What the picture of the page is made of.
struct Shown {
  viz::PoolView pool;  // with the words of blocks that are in a table or can be found
  std::vector<int32_t> queue;
  std::vector<viz::TableView> tables;
  std::vector<int> num_found;          // blocks of each table that its lookup found
  int most_queued = 0;                 // places above; 0: as many as blocks
  std::vector<std::string> cut = {};   // of tables: "6 of 2,000 blocks" if not all are shown
  std::vector<std::string> more = {};  // what has no room, in many words or in few
  std::string front = "\u2190 taken next: used longest ago", back = "freed last \u2190";
  std::string nobody = "no block is free";
};

/// Events name no blocks, so each hash gets a tile of its own. Below stand prefixes, above what was
/// evicted and may come again. Of a large cache there are as many as the page has room for: what
/// has just happened, then the newest and the longest prefixes.
class WatchedCache {
 public:
  /// The feed is kept by whoever undoes.
  WatchedCache(std::shared_ptr<watch::Feed> feed, const std::filesystem::path& model_dir);

  /// Takes so many batches, and says what happened. 0: one of a recording, all that a server has
  /// sent since.
  std::string next(int count);
  std::string why_not_next() const;  // empty: there is one
  /// Nothing has come yet, and something may.
  bool waits() const { return feed_->is_live() && num_taken_ == feed_->size(); }
  bool is_live() const { return feed_->is_live(); }
  std::string story() const { return happened_; }
  Shown shown() const;
  std::vector<viz::Counter> counters() const;
  static std::vector<viz::LegendEntry> legend();

 private:
  static constexpr size_t kMostStanding = 48, kMostEvicted = 16;
  struct Tile {
    watch::BlockName name;
    std::vector<int32_t> tokens;
    bool is_known = false;  // it stands, or is shown among the evicted
    bool came_again = false;
  };
  using Words = std::map<watch::BlockName, std::vector<int32_t>>;
  /// `gone`: what has just been evicted.
  void place(const Words& gone);
  void name_rows();
  std::vector<std::string> words(std::span<const int32_t> tokens) const;

  std::shared_ptr<watch::Feed> feed_;
  size_t num_taken_ = 0;
  watch::Watcher watcher_;
  watch::Excerpt excerpt_;
  std::optional<kv::Tokenizer> tokenizer_;
  // Tile i is block i + 1 of the picture. What one step drops from sight leaves its tile empty
  // until the next, so a tile is never two blocks in one: there are twice as many as are shown.
  std::vector<Tile> tiles_;
  int block_size_ = 1;
  std::vector<int> letters_;                   // of each row: it keeps its own as it grows
  std::map<watch::BlockName, int> letter_of_;  // of the blocks that were a row's own
  std::string happened_;
};

}  // namespace lesson07
