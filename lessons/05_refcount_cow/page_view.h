#pragma once

// What the page shows of a BlockManager, be it the simulator's or the running engine's.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "block_manager.h"
#include "page_live.h"
#include "page_simulator.h"
#include "viz/widgets.h"

namespace lesson05 {

struct NamedSequence {
  std::string name;
  int hue = 0;
  int number = 0;  // the manager's
};

/// One state of the page, ready to be drawn.
struct PageView {
  std::vector<NamedSequence> sequences;
  viz::PoolView pool;
  std::vector<viz::TableView> tables;               // one for each sequence
  std::vector<std::vector<viz::TokenView>> tokens;  // of the last blocks, a row for each sequence
  std::vector<viz::CounterView> counters;
};

PageView view_of(const Simulator& simulator);
/// `before` is the view of the state before: what differs from it is highlighted.
PageView view_of(const LiveSharing& live, const PageView& before);

std::vector<NamedSequence> named_sequences(const Simulator& simulator);
std::vector<NamedSequence> named_sequences(const LiveSharing& live);

/// total, free, used, shared, sequences, as_copies, saved, copies, block_size; for a sequence A:
/// A.tokens, A.blocks, A.last_ref (of its last block).
std::optional<int64_t> counter_of(const BlockManager& manager,
                                  std::span<const NamedSequence> sequences, std::string_view name);
std::vector<std::string> counter_names_of(std::span<const NamedSequence> sequences);

}  // namespace lesson05
