#pragma once

// The blocks of a server's cache, as far as its events tell. They do not tell the size of the pool,
// the request that holds a block, or the block that is evicted next.

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "instruments/watch/kv_events.h"

namespace watch {

/// A block's name in the mirror: its hash and its place.
using BlockName = std::string;
BlockName name_of(const BlockHash& hash, const Place& place);

struct MirroredBlock {
  BlockHash hash = {};
  std::optional<BlockName> parent = {};
  std::vector<int32_t> tokens = {};  // none if the server does not say
  int block_size = 0;
  int num_copies = 0;        // blocks of the pool that hold this content
  bool was_evicted = false;  // evicted before, and stored again
  int64_t stored_at = 0;     // number of the store event that brought the first copy
};

/// Changes by one batch.
struct Changes {
  struct Evicted {
    BlockName name;
    std::vector<int32_t> tokens;
  };
  int64_t stored = 0;     // blocks
  int64_t again = 0;      // stored blocks that had been evicted before
  int64_t removed = 0;    // blocks
  int64_t not_there = 0;  // blocks removed that the mirror did not have: events were missed
  int64_t cleared = 0;    // times that the whole cache was cleared
  std::vector<Evicted> evicted = {};  // blocks whose last copy went in this batch; += skips them
  Changes& operator+=(const Changes& other);
};

/// A prefix that is not part of a longer one.
struct Chain {
  BlockName last;  // its last block
  size_t num_blocks = 0;
  int64_t num_tokens = 0;
  size_t num_own = 0;     // blocks at the end that no other chain has
  int64_t newest = 0;     // stored_at of the block that was stored last
  bool headless = false;  // the block before the first one is gone, so no lookup finds the chain
};

class EventMirror {
 public:
  /// Keeps the names of at most `max_remembered` evicted blocks, to recognise blocks that are
  /// stored again.
  explicit EventMirror(size_t max_remembered = size_t{1} << 20) : max_remembered_(max_remembered) {}

  Changes apply(const EventBatch& batch);
  /// Forgets all blocks, the evicted ones too.
  void clear();

  int64_t num_blocks() const { return num_blocks_; }  // each copy counts
  int64_t num_stored() const { return num_stored_; }  // up to now; the next block's stored_at
  const std::unordered_map<BlockName, MirroredBlock>& blocks() const { return blocks_; }
  const MirroredBlock* find(const BlockName& name) const;
  /// Names of blocks that were evicted and not stored again, in the order of their eviction.
  const std::list<BlockName>& evicted() const { return evicted_; }
  /// The longest first. Takes time in proportion to the blocks of the cache, also where many chains
  /// begin alike.
  std::vector<Chain> chains() const;
  /// The blocks of a chain, from the first on.
  std::vector<BlockName> blocks_of(const Chain& chain) const;

 private:
  void apply(const BlockStored& event, Changes& changes);
  void apply(const BlockRemoved& event, Changes& changes);
  void apply(const AllBlocksCleared& event, Changes& changes);
  void remember(const BlockName& name);

  size_t max_remembered_;
  std::unordered_map<BlockName, MirroredBlock> blocks_;
  int64_t num_blocks_ = 0;
  int64_t num_stored_ = 0;
  std::list<BlockName> evicted_;
  std::unordered_map<BlockName, std::list<BlockName>::iterator> remembered_;  // where, in evicted_
};

}  // namespace watch
