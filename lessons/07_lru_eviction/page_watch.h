#pragma once

// A server's cache on the page of lesson 07: its blocks, as a mirror of its events has them.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/model/tokenizer.h"
#include "viz/page.h"
#include "viz/parts.h"
#include "watch/recording.h"
#include "watch/watcher.h"

namespace lesson07 {

/// What the picture of the page is made of.
struct Shown {
  viz::PoolView pool;  // with the words of blocks that are in a table or can be found
  std::vector<int32_t> queue;
  std::vector<viz::TableView> tables;
  std::vector<int> num_found;  // blocks of each table that its lookup found
  int most_queued = 0;         // places above; 0: as many as blocks
  std::string front = "\u2190 taken next: used longest ago", back = "freed last \u2190";
  std::string nobody = "no block is free";
};

/// Events name no blocks, so each hash gets a tile of its own. Below stand prefixes, above what was
/// evicted and may come again.
class WatchedCache {
 public:
  /// `file`: a recording, or "example". Throws UserError, for a cache of too many blocks, too.
  WatchedCache(const std::string& file, const std::filesystem::path& model_dir);

  /// Takes so many batches, and says what happened. Throws UserError at the end.
  std::string next(int count);
  std::string story() const;
  Shown shown() const;
  std::vector<viz::Counter> counters() const;
  static std::vector<viz::LegendEntry> legend();

 private:
  static constexpr int kMostTiles = 64, kMostEvicted = 16;
  void place();
  void name_chains();
  std::vector<std::string> words(std::span<const int32_t> tokens) const;

  std::vector<watch::Frame> frames_;
  size_t num_taken_ = 0;
  watch::Watcher watcher_;
  std::optional<kv::Tokenizer> tokenizer_;
  struct Tile {
    watch::BlockName name;
    std::vector<int32_t> tokens;
    bool is_known = false;  // it stands, or is shown among the evicted
    bool came_again = false;
  };
  std::vector<Tile> tiles_;  // tile i is block i + 1 of the picture
  int block_size_ = 1;
  std::vector<watch::Chain> chains_;
  std::vector<int> letters_;                   // of each chain: it keeps its own as it grows
  std::map<watch::BlockName, int> letter_of_;  // of the blocks that were a chain's own
  std::string happened_;
};

}  // namespace lesson07
