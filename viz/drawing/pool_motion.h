#pragma once

// Motion of what viz::block() and viz::pool() draw: tokens that travel to slots and drop out of
// them, rings around what is looked at. A page says when; these say which shapes move.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "viz/drawing/parts.h"

namespace viz {

std::string block_id(int64_t block);            // "block 7"
std::string slot_id(int64_t block, int64_t i);  // "slot 7/3"

inline constexpr float kBlink = 0.004f;  // of a motion: what is not to be seen coming

/// Part i of n equal parts of a span, each `each` long: they follow one another closely.
Span staggered(const Span& span, int64_t i, int64_t n, float each);
/// The same, each half as long as all of them.
Span staggered(const Span& span, int64_t i, int64_t n);

/// A shape's motion, if there is such a shape.
void during(Scene& scene, const std::string& id, const Span& span);
/// All shapes of a block change then.
void block_changes(Scene& scene, int32_t block, const Span& span);
/// Entries that have left a table, "A/entry 3" with "A/entry 3/id", go to their blocks, the last
/// one first.
void leave_table(Scene& scene, const std::string& table, std::span<const int32_t> before,
                 std::span<const int32_t> now, const Span& span);

/// A box and its text ("id/text") travel from the middle of one place to the middle of another.
void send(Scene& scene, const std::string& id, const Place& from, const Place& to,
          const Span& span);
/// A token that is in no scene travels; what it passes does not shine through. `name`: unique.
void send_token(Scene& scene, const std::string& name, const std::string& token, int hue,
                const Place& from, const Place& to, const Span& span);
/// A ring around a shape, seen for a while. `name`: unique.
void ring(Scene& scene, const std::string& name, const std::string& id, Ink ink, const Span& span);
/// Tokens are copied, one after the other, from the slots of block `source` to those of `target`.
void copy_tokens(Scene& scene, const std::vector<std::string>& tokens, int64_t source,
                 const BlockView& target, int hue, const Span& span);
/// The tokens of a block that is freed drop out of their slots.
void drop_tokens(Scene& scene, const PoolView& pool, const BlockView& was, const Span& span);

}  // namespace viz
