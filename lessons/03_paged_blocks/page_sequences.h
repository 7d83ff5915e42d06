#pragma once

// Sequences by name on a BlockManager, and what each wrote into its slots: the page of lesson 03
// without a picture.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "block_manager.h"

namespace lesson03 {

class NamedSequences {
 public:
  static constexpr int kMaxSequences = 12;
  static constexpr int kMaxBlocks = 4096;
  struct Sequence {
    int number = 0;  // the manager's
    int hue = 0;
  };

  /// Throws UserError unless 1 <= num_blocks <= kMaxBlocks and block_size is a power of two up to
  /// 256.
  NamedSequences(int num_blocks, int block_size);

  // Each says in plain words what it did, and throws UserError if it cannot: nothing has changed.
  std::string add(const std::string& name);
  std::string append(const std::string& name, int num_tokens);
  std::string free(const std::string& name);

  std::string why_not_add() const;
  std::string why_not_append(const std::string& name, int num_tokens) const;

  const BlockManager& manager() const { return manager_; }
  const BlockTable& table(const std::string& name) const;
  std::vector<std::string> names() const;  // by age
  const Sequence& find(const std::string& name) const;
  std::string free_name() const;
  /// What the slot of a token holds: "A17".
  const std::string& text(const std::string& name, int token) const;

  /// Throws std::logic_error unless the manager's books are right and every token reads what its
  /// sequence wrote.
  void check() const;

 private:
  BlockManager manager_;
  std::vector<std::string> slots_;  // [num_blocks * block_size]: who wrote what
  std::map<std::string, Sequence> sequences_;
};

}  // namespace lesson03
