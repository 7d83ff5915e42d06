#include "page_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lesson05 {
namespace {

size_t at(int64_t index) { return static_cast<size_t>(index); }

int64_t saved_blocks(const BlockManager& manager) {
  return manager.pool().num_references() - manager.pool().num_used();
}

std::vector<viz::CounterView> counters_of(const BlockManager& manager) {
  const BlockPool& pool = manager.pool();
  return {
      {"free", fmt::format("{} / {}", pool.num_free(), pool.num_blocks()),
       "Blocks that no table holds, of all blocks in the pool."},
      {"used", fmt::format("{}", pool.num_used()), "Blocks that at least one table holds."},
      {"shared", fmt::format("{}", pool.num_shared()),
       "Blocks that two tables or more hold: stored once, read by all."},
      {"sequences", fmt::format("{}", manager.tables().size()), "Block tables that exist."},
      {"as copies", fmt::format("{}", manager.pool().num_references()),
       "Blocks that the same sequences would fill if each had its own copy."},
      {"saved", fmt::format("{}", saved_blocks(manager)),
       "Blocks saved by sharing: as copies, less used."},
      {"copies made", fmt::format("{}", manager.num_copies()),
       "Blocks copied on write so far: a write to a shared block copies it first."},
  };
}

/// Everything but the texts and the highlights.
PageView books_of(const BlockManager& manager, std::vector<NamedSequence> sequences) {
  PageView view;
  const BlockPool& pool = manager.pool();
  view.counters = counters_of(manager);
  view.pool.block_size = manager.block_size();
  for (int32_t id = 0; id < pool.num_blocks(); ++id) {
    viz::BlockView block;
    block.id = id;
    block.ref_cnt = pool.ref_cnt(id);
    view.pool.blocks.push_back(std::move(block));
  }
  for (const NamedSequence& sequence : sequences) {
    const BlockTable& table = manager.table(sequence.number);
    const viz::SequenceView name{sequence.name, sequence.hue};
    viz::TableView shown;
    shown.sequence = name;
    shown.num_tokens = table.num_tokens();
    shown.block_size = table.block_size();
    for (int i = 0; i < table.num_blocks(); ++i) {
      const int32_t id = table.block_ids()[at(i)];
      viz::BlockView& block = view.pool.blocks[at(id)];
      block.owners.push_back(sequence.hue);
      const int fill = i + 1 < table.num_blocks() ? table.block_size() : table.last_block_fill();
      block.filled = std::max(block.filled, fill);
      shown.block_ids.push_back(id);
      shown.ref_cnts.push_back(pool.ref_cnt(id));
    }
    view.pool.sequences.push_back(name);
    view.tables.push_back(std::move(shown));
  }
  view.sequences = std::move(sequences);
  return view;
}

/// The tokens of the last two blocks, and the one that has no slot yet. What is shared is pale.
std::vector<viz::TokenView> last_tokens(const LiveSharing& live,
                                        const LiveSharing::Sequence& sequence) {
  const BlockTable& table = live.manager().table(sequence.number);
  std::vector<viz::TokenView> row;
  const int first = std::max(0, (table.num_blocks() - 2) * table.block_size());
  for (int token = first; token < static_cast<int>(sequence.tokens.size()); ++token) {
    viz::TokenView shown;
    shown.text = live.text(sequence.tokens[at(token)]);
    shown.hue = sequence.index;
    if (token < table.num_tokens()) {
      const lesson03::Place place = table.place(token);
      const int refs = live.manager().pool().ref_cnt(place.block_id);
      shown.strength = refs > 1 ? 0.35f : 1.0f;
      shown.tooltip = fmt::format("token {}: block {}, offset {}, slot {}; {}", token,
                                  place.block_id, place.offset, table.slot(token),
                                  refs > 1 ? fmt::format("shared by {}", refs) : "its own");
    } else {
      shown.strength = 0;
      shown.tooltip = fmt::format("token {}: drawn, not run yet: it has no slot", token);
    }
    row.push_back(std::move(shown));
  }
  return row;
}

}  // namespace

std::vector<NamedSequence> named_sequences(const Simulator& simulator) {
  std::vector<NamedSequence> sequences;
  for (const std::string& name : simulator.names()) {
    const Simulator::Sequence& sequence = simulator.sequences().at(name);
    sequences.push_back({name, sequence.hue, sequence.number});
  }
  return sequences;
}

std::vector<NamedSequence> named_sequences(const LiveSharing& live) {
  std::vector<NamedSequence> sequences;
  for (const LiveSharing::Sequence& sequence : live.sequences()) {
    sequences.push_back({sequence_name(sequence.index), sequence.index, sequence.number});
  }
  return sequences;
}

PageView view_of(const Simulator& simulator) {
  PageView view = books_of(simulator.manager(), named_sequences(simulator));
  for (viz::BlockView& block : view.pool.blocks) {
    const int64_t begin = int64_t{block.id} * simulator.block_size();
    for (int i = 0; i < block.filled; ++i) block.tokens.push_back(simulator.text(begin + i));
  }
  for (const int32_t id : simulator.touched()) view.pool.blocks[at(id)].highlight = true;
  return view;
}

PageView view_of(const LiveSharing& live, const PageView& before) {
  PageView view = books_of(live.manager(), named_sequences(live));
  for (viz::BlockView& block : view.pool.blocks) block.tokens.resize(at(block.filled));
  for (const LiveSharing::Sequence& sequence : live.sequences()) {
    const BlockTable& table = live.manager().table(sequence.number);
    for (int token = 0; token < table.num_tokens(); ++token) {
      const lesson03::Place place = table.place(token);
      std::string& text = view.pool.blocks[at(place.block_id)].tokens[at(place.offset)];
      if (text.empty()) text = live.text(sequence.tokens[at(token)]);
    }
  }
  for (const LiveSharing::Sequence& sequence : live.sequences()) {
    view.tokens.push_back(last_tokens(live, sequence));
  }
  if (before.pool.blocks.size() != view.pool.blocks.size()) return view;
  for (size_t id = 0; id < view.pool.blocks.size(); ++id) {
    viz::BlockView& block = view.pool.blocks[id];
    const viz::BlockView& old = before.pool.blocks[id];
    block.highlight = block.ref_cnt != old.ref_cnt || block.tokens != old.tokens;
  }
  return view;
}

std::optional<int64_t> counter_of(const BlockManager& manager,
                                  std::span<const NamedSequence> sequences, std::string_view name) {
  const BlockPool& pool = manager.pool();
  if (name == "total") return pool.num_blocks();
  if (name == "free") return pool.num_free();
  if (name == "used") return pool.num_used();
  if (name == "shared") return pool.num_shared();
  if (name == "sequences") return static_cast<int64_t>(manager.tables().size());
  if (name == "as_copies") return manager.pool().num_references();
  if (name == "saved") return saved_blocks(manager);
  if (name == "copies") return manager.num_copies();
  if (name == "block_size") return manager.block_size();
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  for (const NamedSequence& sequence : sequences) {
    if (sequence.name != name.substr(0, dot)) continue;
    const BlockTable& table = manager.table(sequence.number);
    const std::string_view what = name.substr(dot + 1);
    if (what == "tokens") return table.num_tokens();
    if (what == "blocks") return table.num_blocks();
    if (what == "last_ref") {
      return table.num_blocks() == 0 ? 0 : pool.ref_cnt(table.block_ids().back());
    }
  }
  return std::nullopt;
}

std::vector<std::string> counter_names_of(std::span<const NamedSequence> sequences) {
  std::vector<std::string> names{"total",     "free",  "used",   "shared",    "sequences",
                                 "as_copies", "saved", "copies", "block_size"};
  for (const NamedSequence& sequence : sequences) {
    for (const char* what : {"tokens", "blocks", "last_ref"}) {
      names.push_back(sequence.name + "." + what);
    }
  }
  return names;
}

}  // namespace lesson05
