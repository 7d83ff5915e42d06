#pragma once

// The blocks of somebody else's cache, as far as its events tell. It knows no pool: how large it
// is, who holds a block and who is next to go are in no event.

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kv_events.h"

namespace lesson07::watch {

/// A block's name in the mirror: its hash, and where it is.
using BlockName = std::string;
BlockName name_of(const BlockHash& hash, const Place& place);

struct MirroredBlock {
  BlockHash hash = {};
  std::optional<BlockName> parent = {};
  std::vector<int32_t> tokens = {};  // none if the server does not say
  int block_size = 0;
  int num_copies = 0;        // several blocks of the pool may hold the same
  bool was_evicted = false;  // and is here again
  int64_t stored_at = 0;     // order of the first copy
};

/// What one batch changed.
struct Changes {
  struct Evicted {
    BlockName name;
    std::vector<int32_t> tokens;
  };
  int64_t stored = 0, again = 0;  // blocks; of these, that had been evicted
  int64_t removed = 0;
  int64_t not_there = 0;  // removed, though nothing was known of them: events were missed
  int64_t cleared = 0;    // times that all were forgotten
  std::vector<Evicted> evicted = {};  // the last copies, of this batch alone: += leaves them out
  Changes& operator+=(const Changes& other);
};

/// A prefix that no longer one contains: its blocks from the first one on.
struct Chain {
  std::vector<BlockName> blocks;
  int64_t num_tokens = 0;
  size_t num_own = 0;     // the last blocks, that no other chain has
  bool headless = false;  // what came before the first one is gone: no lookup gets here
};

class EventMirror {
 public:
  /// `most_remembered`: names of evicted blocks that are kept, to know them when they come again.
  explicit EventMirror(size_t most_remembered = size_t{1} << 20)
      : most_remembered_(most_remembered) {}

  Changes apply(const EventBatch& batch);
  /// Nothing stands any more, and nothing is remembered: another server.
  void clear();

  int64_t num_blocks() const { return num_blocks_; }  // copies count
  int64_t num_stored() const { return num_stored_; }  // so far: the next stored_at
  const std::unordered_map<BlockName, MirroredBlock>& blocks() const { return blocks_; }
  const MirroredBlock* find(const BlockName& name) const;
  /// Names of blocks that were evicted and have not come again, the last one at the back.
  const std::list<BlockName>& evicted() const { return evicted_; }
  /// The longest first. Takes time with the number of their blocks.
  std::vector<Chain> chains() const;

 private:
  void apply(const BlockStored& event, Changes& changes);
  void apply(const BlockRemoved& event, Changes& changes);
  void apply(const AllBlocksCleared& event, Changes& changes);
  void remember(const BlockName& name);

  size_t most_remembered_;
  std::unordered_map<BlockName, MirroredBlock> blocks_;
  int64_t num_blocks_ = 0;
  int64_t num_stored_ = 0;
  std::list<BlockName> evicted_;
  std::unordered_map<BlockName, std::list<BlockName>::iterator> remembered_;  // where, in evicted_
};

}  // namespace lesson07::watch
