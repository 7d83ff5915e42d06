#pragma once

// A server's cache as a picture: its blocks, as a mirror of its events has them.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "instruments/watch/page/excerpt.h"
#include "instruments/watch/page/feed.h"
#include "instruments/watch/watcher.h"
#include "lessons/07_lru_eviction/page/picture.h"
#include "qwen3/tokenizer.h"
#include "viz/page.h"

namespace watch {

using lesson07::Shown;

/// Events have no block ids, so each hash gets a tile of its own. Prefixes stand below, evicted
/// blocks above. Of a large cache the page shows a part (see Excerpt).
class WatchedCache {
 public:
  /// Shares the feed with the page, which keeps it for an undo. Null means that nothing is watched.
  /// Tokens become words if `model_dir` has a tokenizer, and stay numbers otherwise.
  WatchedCache(std::shared_ptr<Feed> feed, const std::filesystem::path& model_dir);

  /// Takes `count` batches and says what happened. 0 takes one batch of a recording, or all that a
  /// server has sent since the last call.
  std::string next(int count);
  std::string why_not_next() const;  // empty if there is a batch
  /// A server may send more. What has come doesn't count: it comes between two questions, too.
  bool waits() const { return is_live(); }
  bool is_live() const { return feed_ && feed_->is_live(); }
  std::string story() const { return happened_; }
  Shown shown() const;
  std::vector<viz::Counter> counters() const;
  static std::vector<viz::LegendEntry> legend();

 private:
  static constexpr size_t kMaxStanding = 48, kMaxEvicted = 16;
  struct Tile {
    BlockName name;
    std::vector<int32_t> tokens;
    bool is_known = false;  // in the picture; false means that the tile is free
    bool came_again = false;
  };
  using Words = std::map<BlockName, std::vector<int32_t>>;
  /// `gone` has the tokens of blocks that were just evicted.
  void place(const Words& gone);
  size_t skip_dropped(size_t end);
  void name_rows();
  std::vector<std::string> words(std::span<const int32_t> tokens) const;

  std::shared_ptr<Feed> feed_;
  size_t num_taken_ = 0;
  Watcher watcher_;
  Excerpt excerpt_;
  std::optional<kv::Tokenizer> tokenizer_;
  // Tile i is block i + 1 of the picture. A tile that a step frees stays free until the next step,
  // so that no tile changes from one block to another. Therefore there are twice the shown tiles.
  std::vector<Tile> tiles_;
  int block_size_ = 1;
  std::vector<int> letters_;            // of each row; a row keeps its letter as it grows
  std::map<BlockName, int> letter_of_;  // of each block that is in one row alone
  std::string happened_;
};

}  // namespace watch
