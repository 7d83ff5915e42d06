#pragma once

// What the page's buttons do, without a picture: named sequences in a BlockManager, and a label for
// every token in every slot, moved by the manager's own copies. A copy made too late, in the wrong
// direction or not at all shows as a wrong label.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "block_manager.h"
#include "viz/names.h"

namespace lesson05 {

/// Copies one block's labels to another; labels is [num_blocks * block_size].
using CopyLabels =
    std::function<void(std::vector<int32_t>& labels, const BlockCopy& copy, int block_size)>;
void copy_labels(std::vector<int32_t>& labels, const BlockCopy& copy, int block_size);

class Simulator {
 public:
  static constexpr int kMaxSequences = 64;

  struct Sequence : viz::SequenceView {
    int number = 0;               // the manager's
    std::vector<int32_t> labels;  // [num_tokens] what it wrote
    std::string parent;           // whom it was forked from
  };

  Simulator(int num_blocks, int block_size, CopyLabels copy = copy_labels);
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;

  // Each says in plain words what happened. Names are of all(), or may be added to it.
  std::string add(const std::string& name);
  /// All of them by num_tokens each; there is room for them. Without words for them the tokens are
  /// called A0, A1, ..
  std::string append(const std::vector<std::string>& names, int num_tokens,
                     std::span<const std::string> words = {});
  std::string fork(const std::string& name, const std::vector<std::string>& children);
  std::string free(const std::string& name);
  /// Why append() would be refused; empty: it would not.
  std::string why_not_append(const std::vector<std::string>& names, int num_tokens) const;

  const BlockManager& manager() const { return manager_; }
  const viz::NamedList<Sequence>& all() const { return all_; }
  /// Made by the last operation.
  const std::vector<BlockCopy>& copies() const { return copies_; }
  /// What a slot holds: a word, or "B17" for what B wrote as its token 17.
  const std::string& text(int64_t slot) const;

  /// Throws std::logic_error unless the manager's counts are right and every slot of every sequence
  /// holds what that sequence wrote.
  void check() const;

 private:
  void add_label(Sequence& sequence, std::string text);
  std::string describe_copies() const;

  CopyLabels copy_;
  std::vector<int32_t> labels_;     // [num_blocks * block_size], 0: nothing was written
  std::vector<std::string> texts_;  // by label
  std::vector<BlockCopy> copies_;   // of the last operation
  BlockManager manager_;
  viz::NamedList<Sequence> all_{"sequence", kMaxSequences};
};

/// What its next token is called if it has no word.
std::string next_label(const Simulator::Sequence& sequence);

}  // namespace lesson05
