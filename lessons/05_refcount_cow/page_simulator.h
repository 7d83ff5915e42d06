#pragma once

// What the page's buttons do, without a picture: named sequences in a BlockManager, and a label for
// every token in every slot, moved by the manager's own copies. A copy made too late, in the wrong
// direction or not at all shows as a wrong label.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "block_manager.h"

namespace lesson05 {

/// Copies one block's labels to another; labels is [num_blocks * block_size].
using CopyLabels =
    std::function<void(std::vector<int32_t>& labels, const BlockCopy& copy, int block_size)>;
void copy_labels(std::vector<int32_t>& labels, const BlockCopy& copy, int block_size);

class Simulator {
 public:
  static constexpr int kMaxBlocks = 4096;
  static constexpr int kMaxSequences = 64;

  struct Sequence {
    int number = 0;               // the manager's
    int hue = 0;                  // stays as long as the sequence
    std::vector<int32_t> labels;  // [num_tokens] what it wrote
  };

  /// Throws UserError unless num_blocks is 1..kMaxBlocks and block_size a power of two up to 256.
  Simulator(int num_blocks, int block_size, CopyLabels copy = copy_labels);
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;

  // Each says in plain words what happened. Throws UserError for what cannot be done; nothing has
  // changed then.
  std::string add(const std::string& name);
  /// All of them by num_tokens each, or none.
  std::string append(std::span<const std::string> names, int num_tokens);
  std::string fork(const std::string& name, std::span<const std::string> children);
  std::string free(const std::string& name);

  // Empty, or why the operation above would be refused.
  std::string why_no_more(int num_sequences) const;
  std::string why_not_append(std::span<const std::string> names, int num_tokens) const;

  const BlockManager& manager() const { return manager_; }
  int num_blocks() const { return manager_.pool().num_blocks(); }
  int block_size() const { return manager_.block_size(); }
  const std::map<std::string, Sequence>& sequences() const { return sequences_; }
  std::vector<std::string> names() const;  // by the sequences' age
  /// The first `count` of A .. Z, AA .. that are not in use.
  std::vector<std::string> free_names(int count) const;
  /// What a slot holds: "B17" is what B wrote as its token 17.
  const std::string& text(int64_t slot) const;
  /// Blocks whose count or content the last operation changed, ascending.
  const std::vector<int32_t>& touched() const { return touched_; }

  /// Throws std::logic_error unless the manager's books are right and every slot of every sequence
  /// holds what that sequence wrote.
  void check() const;

 private:
  const Sequence& find(const std::string& name) const;
  void insert(const std::string& name, int number, std::vector<int32_t> labels);
  void set_label(const std::string& writer, Sequence& sequence, int token);
  void check_new_names(std::span<const std::string> names) const;
  std::string describe_copies() const;
  template <class Operation>
  auto tracked(Operation operation);

  CopyLabels copy_;
  std::vector<int32_t> labels_;     // [num_blocks * block_size], 0: nothing was written
  std::vector<std::string> texts_;  // by label
  std::vector<BlockCopy> copies_;   // of the last operation
  std::vector<int32_t> touched_;
  BlockManager manager_;
  std::map<std::string, Sequence> sequences_;
};

/// "needs 5 blocks, 3 are free".
std::string too_few_blocks(int64_t needed, int num_free);
/// "1 block", "2 blocks".
std::string count_of(int64_t count, std::string_view thing);
/// 0: "A", 25: "Z", 26: "AA".
std::string sequence_name(int index);

}  // namespace lesson05
