#pragma once

// Pools of blocks one above the other, as shelves: what their blocks hold, in which order they will
// be overwritten, and copies on their way between two shelves.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "viz/drawing/parts.h"

namespace viz {

// Of the motion of a command: a copy that is complete goes to its place, the blocks change, and new
// copies set out.
inline constexpr Span kLands{0, 0.45f}, kFills{0.35f, 0.6f}, kSetsOut{0.5f, 1};

/// Of a file: a header and below it a content, and which of the two are there.
struct ShelfRecord {
  bool header = false, content = false;
};

struct ShelfBlock {
  State state = State::kFree;              // kReserved: it is being copied to
  bool cached = false;                     // can be found
  bool has_copy = false;                   // on the shelf below, or on its way there
  int order = -1;                          // in the free queue; 0: overwritten next
  int hue = -1;                            // of the sequence that its content is of
  std::string name = {};                   // "A2": of A's text the block after two others
  std::string tooltip = {};                // further lines
  std::string foot = {};                   // below the name: a checksum's last digits
  std::optional<ShelfRecord> record = {};  // of a file
};
/// By id. There is none with the id 0.
using ShelfBlocks = std::vector<ShelfBlock>;

/// The blocks of a lesson's pool. name_of(content): hue and name of what a block holds.
template <class Pool, class NameOf>
ShelfBlocks shelf_blocks(const Pool& pool, NameOf name_of) {
  ShelfBlocks blocks(static_cast<size_t>(pool.num_blocks()) + 1);
  int order = 0;
  for (const auto* const block : pool.queue().all()) {
    blocks[static_cast<size_t>(block->id)].order = order++;
  }
  for (int32_t id = 1; id <= pool.num_blocks(); ++id) {
    ShelfBlock& block = blocks[static_cast<size_t>(id)];
    const auto* const content = pool.index().block(id);
    block.cached = content != nullptr;
    block.state = pool.ref_cnt(id) > 0 ? State::kInUse
                  : block.cached       ? State::kCached
                                       : State::kFree;
    if (block.cached) std::tie(block.hue, block.name) = name_of(*content);
  }
  return blocks;
}

/// The id of a block's shape: "0/block 7".
std::string shelf_block_id(int shelf, int32_t block);

/// "shelf 0" with "shelf 0/name"; its blocks "0/block 7" with "0/block 7/name A2", their place in
/// the queue "0/block 7/order", "0/block 7/foot 9b49", and a bar "0/block 7/copy" if they have a
/// copy. A record has its number "#7", and "0/block 7/header" or "0/block 7/content" if only one of
/// the two is there, or they do not belong together.
void shelf(Scene& scene, int number, const std::string& title, const ShelfBlocks& blocks,
           const Place& at);

/// An arrow "id" with a name "id/name" between two shelves, from the left on; it stands out while
/// blocks move that way.
void arrow(Scene& scene, const std::string& id, const Place& at, bool down, bool moves,
           const std::string& name);

/// A block that is to be copied from one shelf to another.
struct Copying {
  std::string id;        // unique: "copy 3.7"
  bool down = true;      // to a lower shelf
  std::string from, to;  // shapes
  int hue = -1;
  std::string name = {};
};
/// Chips between two shelves: those that go down on the left, "link/offload", and those that go up
/// on the right, "link/load". A copy of `before` that is there no more goes to its place.
void copies(Scene& scene, std::span<const Copying> before, std::span<const Copying> now,
            const Place& at);

}  // namespace viz
