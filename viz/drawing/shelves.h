#pragma once

// Pools of blocks one above the other, as shelves: what their blocks hold, and the blocks that
// travel between two shelves.

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "viz/drawing/parts.h"

namespace viz {

// Of the motion of a command: a copy that is complete goes to its place, and the blocks change.
inline constexpr Span kLands{0, 0.45f}, kFills{0.35f, 0.6f};

/// Of a file: a header and below it a content, and which of the two are there.
struct ShelfRecord {
  bool header = false, content = false;
};

struct ShelfBlock {
  State state = State::kFree;              // kReserved: it is being copied to
  bool cached = false;                     // can be found
  bool has_copy = false;                   // on the shelf below, or on its way there
  bool is_copy = false;                    // of a block of another shelf
  int order = -1;                          // in the free queue; 0: overwritten next
  int hue = -1;                            // of the sequence that its content is of
  std::string name = {};                   // "A2": of A's text the block after two others
  std::string tooltip = {};                // further lines
  std::string foot = {};                   // below the name
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

/// "shelf 0" with "shelf 0/name"; its blocks "0/block 7" with "0/block 7/name A2", "0/block 7/foot
/// 9b49", and a bar "0/block 7/copy" if they have a copy. A record of which only one part is there,
/// or whose parts do not belong together, has its number "0/block 7/number", "0/block 7/header" and
/// "0/block 7/content". A block's place in the queue is told to the mouse.
void shelf(Scene& scene, int number, const std::string& title, const ShelfBlocks& blocks,
           const Place& at);

/// An arrow "id" with a name "id/name" between two shelves, from the left on.
void arrow(Scene& scene, const std::string& id, const Place& at, bool down,
           const std::string& name);

/// "id" and "id/name": the tokens that the shelves have saved, if any, and how.
void saved(Scene& scene, const std::string& id, const Place& at, int64_t before, int64_t now);
/// "request 0", ... in a height of `h`, and saved() "found" beside or below. Returns their height.
float shelf_head(Scene& scene, const std::vector<Chip>& all, float h, int64_t was, int64_t now);
/// The note "note" above the shelves, unless a sentence tells it, and "note/ring" around the block
/// that it is about.
void shelf_note(Scene& scene, const Place& at, const std::string& words, const std::string& about);
/// The block in `box` travels there from the shape `from`, with its label `name`; its own box looks
/// as now when it is there. Call it when all shapes have their places.
void let_come(Scene& scene, const std::string& from, const std::string& box,
              const std::string& name, Span when);

}  // namespace viz
