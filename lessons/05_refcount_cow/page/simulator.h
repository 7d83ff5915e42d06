#pragma once

// The page's operations, without a picture: sequences in a BlockManager, and the text of every
// slot, moved by the manager's own copies. A copy made too late, in the wrong direction or not at
// all shows as a wrong text.

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "block_manager.h"
#include "viz/named_tables.h"

namespace lesson05 {

/// Copies one block's texts to another; slots is [num_blocks * block_size].
using CopyTexts =
    std::function<void(std::vector<std::string>& slots, const BlockCopy& copy, int block_size)>;
inline void copy_texts(std::vector<std::string>& slots, const BlockCopy& copy, int block_size) {
  std::copy_n(slots.begin() + static_cast<std::ptrdiff_t>(copy.source) * block_size, block_size,
              slots.begin() + static_cast<std::ptrdiff_t>(copy.destination) * block_size);
}

class Simulator : public viz::NamedTables<BlockManager> {
 public:
  static constexpr int kMaxSequences = 64;

  Simulator(int num_blocks, int block_size, CopyTexts copy = copy_texts)
      : NamedTables(kMaxSequences, num_blocks, block_size,
                    [this, copy = std::move(copy)](std::span<const BlockCopy> copies) {
                      for (const BlockCopy& one : copies) copy(slots_, one, manager_.block_size());
                      copies_.assign(copies.begin(), copies.end());
                    }) {}

  /// Grows each of the sequences by num_tokens tokens, for which the pool has room. Without `words`
  /// the tokens are called A0, A1, ...
  std::string append(const std::vector<std::string>& names, int num_tokens,
                     std::span<const std::string> words = {}) {
    const int free_before = manager_.pool().num_free();
    copies_.clear();
    manager_.append(growths(names, num_tokens));
    for (const std::string& name : names) {
      Sequence& sequence = all_.at(name);
      for (size_t i = 0; i < static_cast<size_t>(num_tokens); ++i) {
        write(sequence, words.empty() ? next_text(sequence) : words[i]);
      }
    }
    const int taken = free_before - manager_.pool().num_free();
    std::string story =
        fmt::format("{} {} by {}: {}", fmt::join(names, ", "), names.size() == 1 ? "grows" : "grow",
                    kv::count_of(num_tokens, "token"),
                    taken == 0 ? "no new block" : kv::count_of(taken, "new block"));
    for (const BlockCopy& copy : copies_) {
      story += fmt::format("; block {} was shared, so it was copied to block {} first", copy.source,
                           copy.destination);
    }
    return story;
  }
  /// Why append() would be refused; empty if it would not.
  std::string why_not_append(const std::vector<std::string>& names, int num_tokens) const {
    if (names.empty()) return "there is no sequence";
    return too_few(manager_.blocks_to_append(growths(names, num_tokens)));
  }

  std::string fork(const std::string& name, const std::vector<std::string>& children) {
    const Sequence parent = all_.at(name);
    const auto num_shared = std::ssize(manager_.table(parent.number).block_ids());
    for (const std::string& child : children) {
      all_.add(child, {{}, manager_.fork(parent.number), parent.written, name});
    }
    return fmt::format("{} now {} the {} of {}, and nothing is copied; {} saved by sharing",
                       fmt::join(children, ", "), children.size() == 1 ? "shares" : "share",
                       kv::count_of(num_shared, "block"), name,
                       manager_.pool().num_references() - manager_.pool().num_used());
  }

  /// Throws std::logic_error unless the manager's counts are right and every slot of every sequence
  /// holds what that sequence wrote.
  void check() const {
    manager_.check();
    check_texts();
  }

 private:
  std::vector<Growth> growths(const std::vector<std::string>& names, int num_tokens) const {
    std::vector<Growth> growths;
    for (const std::string& name : names) growths.push_back({all_.at(name).number, num_tokens});
    return growths;
  }

  std::vector<BlockCopy> copies_;  // of the last append()
};

}  // namespace lesson05
