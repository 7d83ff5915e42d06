#pragma once

// The page of lesson 03 without a picture: sequences that grow on a BlockManager.

#include <string>

#include "block_manager.h"
#include "page/check_manager.h"
#include "viz/named_tables.h"

namespace lesson03 {

class NamedSequences : public viz::NamedTables<BlockManager> {
 public:
  NamedSequences(int num_blocks, int block_size) : NamedTables(12, num_blocks, block_size) {}

  std::string append(const std::string& name, int num_tokens) {
    Sequence& sequence = all_.at(name);
    const size_t blocks = table(name).num_blocks();
    if (!manager_.extend(sequence.number, num_tokens)) {
      throw std::logic_error("why_not_append() found room");
    }
    for (int i = 0; i < num_tokens; ++i)  // token 17 of B is called B17
      write(sequence, fmt::format("{}{}", name, sequence.written.size()));
    const auto fresh = table(name).block_ids().subspan(blocks);
    const std::string what = fmt::format("{} grows by {}", name, kv::count_of(num_tokens, "token"));
    if (fresh.empty()) return what + ": no new block, its last one had room";
    if (fresh.size() == 1) return fmt::format("{} and takes the new block {}", what, fresh[0]);
    const size_t shown = std::min<size_t>(fresh.size(), 8);
    return fmt::format("{} and takes {}: {}{}", what, kv::count_of(std::ssize(fresh), "new block"),
                       fmt::join(fresh.first(shown), ", "), shown < fresh.size() ? " .." : "");
  }
  /// Why the tokens cannot be appended; empty if there is room.
  std::string why_not_append(const std::string& name, int num_tokens) const {
    return too_few(table(name).blocks_to_extend(num_tokens));
  }

  /// Throws std::logic_error unless the manager's counts are right and every token reads what its
  /// sequence wrote.
  void check() const {
    lesson03::check(manager_);
    check_texts();
  }
};

}  // namespace lesson03
