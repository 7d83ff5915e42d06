#pragma once

// Sequences by name on a BlockManager, and what each wrote into its slots: the page of lesson 03
// without a picture.

#include <string>
#include <vector>

#include "block_manager.h"
#include "viz/names.h"

namespace lesson03 {

class NamedSequences {
 public:
  struct Sequence : viz::SequenceView {
    int number = 0;  // the manager's
  };

  NamedSequences(int num_blocks, int block_size);

  // Each says what it did.
  std::string add(const std::string& name);
  std::string append(const std::string& name, int num_tokens);
  std::string free(const std::string& name);
  /// Why append() has no room; empty: it has.
  std::string why_not_append(const std::string& name, int num_tokens) const;

  const BlockManager& manager() const { return manager_; }
  const viz::NamedList<Sequence>& all() const { return all_; }
  const BlockTable& table(const std::string& name) const;
  /// What the slot of a token holds: "A17".
  const std::string& text(const std::string& name, int token) const;

  /// Throws std::logic_error unless the manager's counts are right and every token reads what its
  /// sequence wrote.
  void check() const;

 private:
  BlockManager manager_;
  std::vector<std::string> slots_;  // [num_blocks * block_size]: who wrote what
  viz::NamedList<Sequence> all_{"sequence", 12};
};

}  // namespace lesson03
