#pragma once

// The page's operations, without a picture: sequences in a BlockManager, and the text of every
// slot, moved by the manager's own copies. A copy made too late, in the wrong direction or not at
// all shows as a wrong text.

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "block_manager.h"
#include "viz/named_tables.h"

namespace lesson05 {

class Simulator : public viz::NamedTables<BlockManager> {
 public:
  static constexpr int kMaxSequences = 64;

  /// The word that a sequence goes on with. At one place of a text all hues have words of one kind,
  /// and each another one, so that a text can be forked anywhere. A text of ten words goes on with
  /// the last three of the next hue's.
  static const char* next_word(const Sequence& sequence) {
    constexpr const char* kTexts[viz::kNumHues][10] = {
        {"The", "sky", "was", "dark", "and", "it", "snowed", "and", "all", "slept"},
        {"A", "night", "grew", "cold", "but", "fog", "rained", "but", "foxes", "ran"},
        {"One", "day", "felt", "long", "so", "skies", "shone", "so", "crows", "sang"},
        {"My", "road", "got", "lost", "then", "winds", "blew", "then", "owls", "woke"},
        {"His", "sea", "went", "wild", "while", "gales", "raged", "while", "cats", "hid"},
        {"Her", "hill", "lay", "white", "until", "lakes", "froze", "until", "dogs", "dug"},
        {"Our", "house", "stood", "bare", "when", "hail", "fell", "when", "birds", "left"},
        {"That", "moon", "rose", "late", "as", "rain", "ended", "as", "we", "sat"}};
    const size_t place = sequence.written.size(), again = place < 10 ? 0 : (place - 7) / 3;
    return kTexts[(static_cast<size_t>(sequence.hue) + again) % viz::kNumHues][place - 3 * again];
  }

  Simulator(int num_blocks, int block_size)
      : NamedTables(kMaxSequences, num_blocks, block_size,
                    [this, block_size](std::span<const BlockCopy> copies) {
                      for (const BlockCopy& one : copies) {
                        std::copy_n(slots_.begin() + int64_t{one.source} * block_size, block_size,
                                    slots_.begin() + int64_t{one.destination} * block_size);
                      }
                      copies_.assign(copies.begin(), copies.end());
                    }) {}

  /// Grows each of the sequences by num_tokens tokens, for which the pool has room: `words`, or if
  /// there are none, each sequence's own.
  std::string append(const std::vector<std::string>& names, int num_tokens,
                     std::span<const std::string> words = {}) {
    const int free_before = manager_.pool().num_free();
    copies_.clear();
    manager_.append(growths(names, num_tokens));
    for (const std::string& name : names) {
      Sequence& sequence = all_.at(name);
      for (size_t i = 0; i < static_cast<size_t>(num_tokens); ++i) {
        write(sequence, words.empty() ? next_word(sequence) : words[i]);
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
    if (names.size() == 1 && taken == 0) {
      story += fmt::format("; {} alone holds block {}, so nothing is copied", names[0],
                           table(names[0]).block_ids().back());
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
