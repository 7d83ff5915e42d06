#pragma once

// Block tables as cards above their pool, with a line from each entry to its block.

#include <string>
#include <vector>

#include "viz/drawing/parts.h"

namespace viz {

struct TableCard : TableView {
  std::string origin = {};   // name of the card that it continues: its own, or its parent's
  std::string text = {};     // the last words of a live sequence
  std::string waiting = {};  // a token that is drawn and has no slot yet
  std::string score = {};    // of a beam: stands before its text
  bool ended = false;        // of a sequence that holds no table any more
};

/// A card "A/card" with "A/bar", "A/name", entries "A/entry 0" with their block "A/entry 0/id", its
/// "A/score", "A/text" and "A/waiting" with "A/waiting/token"; lines "A/link 0" (with "../rim",
/// "../down", "../dot"), which are always drawn if they are few or of the selected sequence; and
/// all blocks, as viz::block() draws them. A click on a card selects its sequence. `below`: height
/// of the room that stays empty, under the pool. Returns whether lines are left out.
bool linked_tables(Scene& scene, const PoolView& pool, const std::vector<TableCard>& tables,
                   const Place& room, float below, const std::string& selected);

/// When the parts of a card move.
struct CardTimes {
  Span forks;    // a new card slides out of its origin's
  Span flips;    // an entry names another block, or is new
  Span settles;  // the rest
  Span shifts;   // lines of other entries
};
/// `before`: the cards that were there; `card` is one of those that are there now.
void move_card(Scene& scene, const std::vector<TableCard>& before, const TableCard& card,
               const CardTimes& when);
/// A card that is gone now: its name and its words are struck out.
void end_card(Scene& scene, const TableCard& card, const Span& when);
/// Null if there is no such card.
const TableCard* find_card(const std::vector<TableCard>& cards, const std::string& name);

}  // namespace viz
