#pragma once

// Random operations against a symbolic model, for tests. Nothing here computes attention: a slot
// holds the number of a *node*, and every write of a token makes a new node. As a node is written
// once, after one particular prefix, its number stands for that prefix exactly. If a sequence ever
// reads a number through its table that is not its own, someone has written into a shared block,
// copied too little, or given a block away too early.
//
// The model also predicts every block id, count and answer, and all of it is compared after every
// operation.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "block_manager.h"

namespace random_ops {

using lesson05::BlockCopy;
using lesson05::Growth;

constexpr size_t kMaxSequences = 8;  // live at a time

struct Shape {
  int num_blocks;
  int block_size;
};

enum class Kind { kNew, kAppend, kAppendMany, kFork, kWrite, kFree, kUnknown, kFailingCopy };

/// Numbers are reduced to what there is when the operation runs, so any subsequence of a run is a
/// run again.
struct Op {
  Kind kind;
  uint32_t which;       // of the live sequences
  uint32_t num_tokens;  // for kAppendMany: bit i stands for sequence i
};

/// SplitMix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint32_t below(uint32_t n) { return static_cast<uint32_t>((next() >> 32) % n); }
  uint64_t next() {
    uint64_t x = state_ += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }

 private:
  uint64_t state_;
};

inline Op random_op(Random& random, const Shape& shape) {
  static constexpr Kind kKinds[] = {
      Kind::kNew,    Kind::kAppend,     Kind::kAppend,     Kind::kAppend,
      Kind::kAppend, Kind::kAppendMany, Kind::kFork,       Kind::kFork,
      Kind::kWrite,  Kind::kFree,       Kind::kAppendMany, Kind::kFree,
      Kind::kNew,    Kind::kAppend,     Kind::kFork,       Kind::kUnknown};
  Op op{.kind = kKinds[random.below(16)], .which = random.below(1u << 16), .num_tokens = 0};
  const auto block = static_cast<uint32_t>(shape.block_size);
  if (op.kind == Kind::kAppend && random.below(16) == 0) op.kind = Kind::kFailingCopy;
  op.num_tokens = op.kind == Kind::kAppendMany ? random.below(1u << 16)
                  : random.below(8) == 0       ? random.below(4 * block + 2)
                                               : random.below(block + 2);
  return op;
}

struct CopyFailed : std::exception {
  const char* what() const noexcept override { return "the copy failed"; }
};

/// One manager and the model of it. Manager has BlockManager's interface.
template <class Manager>
class Run {
 public:
  template <class... Extra>
  explicit Run(const Shape& shape, Extra... extra)
      : shape_(shape),
        memory_(static_cast<size_t>(shape.num_blocks * shape.block_size), 0),
        ref_cnt_(static_cast<size_t>(shape.num_blocks), 0),
        manager_(
            shape.num_blocks, shape.block_size,
            [this](std::span<const BlockCopy> copies) { copy(copies); }, extra...) {
    for (int32_t id = shape.num_blocks - 1; id >= 0; --id) free_.push_back(id);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// Empty, or what is wrong after the operation.
  std::string step(const Op& op) {
    try {
      apply(op);
      if (wrong_.empty()) compare();
    } catch (const std::exception& error) {
      wrong_ = fmt::format("threw: {}", error.what());
    }
    return wrong_;
  }
  /// Frees all sequences: nothing may be left.
  std::string finish() {
    while (!sequences_.empty() && wrong_.empty()) step({Kind::kFree, 0, 0});
    return wrong_;
  }
  /// The operations in words, if log is set.
  std::vector<std::string>* log = nullptr;

 private:
  struct Sequence {
    int number;                   // the manager's
    std::vector<uint64_t> nodes;  // one for each token
    std::vector<int32_t> blocks;  // predicted
  };
  struct Step {
    Sequence* sequence;
    int num_tokens;
    bool copies;
    size_t fresh;  // blocks
  };

  template <class... Args>
  void say(fmt::format_string<Args...> format, Args&&... args) {
    if (log) log->push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void apply(Op op) {
    if (sequences_.empty()) op.kind = Kind::kNew;
    const bool grows = op.kind == Kind::kNew || op.kind == Kind::kFork;
    if (grows && sequences_.size() == kMaxSequences) return;
    const size_t i = sequences_.empty() ? 0 : op.which % sequences_.size();
    switch (op.kind) {
      case Kind::kNew:
        return add();
      case Kind::kFork:
        return fork(sequences_[i]);
      case Kind::kFree:
        return free(i);
      case Kind::kWrite:
        return write(sequences_[i]);
      case Kind::kUnknown:
        return unknown();
      case Kind::kAppendMany: {
        std::vector<Growth> growths;  // some sequences, one token each, one of them two
        for (size_t s = sequences_.size(); s-- > 0;) {
          if (op.num_tokens >> s & 1) growths.push_back({sequences_[s].number, 1});
        }
        if (!growths.empty() && op.which % 4 == 0) growths.push_back(growths.front());
        return append(growths);
      }
      case Kind::kFailingCopy:
        fail_copy_ = true;
        say("the next copy fails");
        append({{sequences_[i].number, static_cast<int>(op.num_tokens)}});
        fail_copy_ = false;
        return;
      case Kind::kAppend:
        return append({{sequences_[i].number, static_cast<int>(op.num_tokens)}});
    }
  }

  void add() {
    const int number = manager_.add_sequence();
    say("new {}", number);
    expect(number == next_number_, "a new sequence's number");
    sequences_.push_back({.number = next_number_++, .nodes = {}, .blocks = {}});
  }

  void fork(const Sequence& parent) {
    const int number = manager_.fork(parent.number);
    say("fork {} -> {}", parent.number, number);
    expect(number == next_number_, "a fork's number");
    for (const int32_t id : parent.blocks) ++ref_cnt_[at(id)];
    sequences_.push_back(
        {.number = next_number_++, .nodes = parent.nodes, .blocks = parent.blocks});
  }

  void free(size_t i) {
    say("free {}", sequences_[i].number);
    manager_.free_sequence(sequences_[i].number);
    const std::vector<int32_t>& blocks = sequences_[i].blocks;
    for (size_t b = blocks.size(); b-- > 0;) {
      if (--ref_cnt_[at(blocks[b])] == 0) free_.push_back(blocks[b]);
    }
    sequences_.erase(sequences_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  void unknown() {
    for (const int number : {-1, next_number_}) {
      say("free and fork {}, which is unknown", number);
      for (const bool forks : {false, true}) {
        bool threw = false;
        try {
          if (forks) {
            manager_.fork(number);
          } else {
            manager_.free_sequence(number);
          }
        } catch (const std::out_of_range&) {
          threw = true;
        }
        expect(threw, "an unknown sequence was served");
      }
    }
  }

  void write(Sequence& sequence) {
    if (sequence.blocks.empty()) return;
    say("write {}", sequence.number);
    const int32_t last = sequence.blocks.back();
    const bool copies = ref_cnt_[at(last)] > 1;
    const bool fits = !copies || !free_.empty();
    expect(manager_.make_last_block_writable(sequence.number) == fits, "the answer to a write");
    if (!fits) return;
    if (copies) {
      --ref_cnt_[at(last)];
      sequence.blocks.back() = take();
      ++num_copies_;
    }
    const auto& table = manager_.table(sequence.number);
    sequence.nodes.back() = next_node_;
    memory_.at(static_cast<size_t>(table.slot(table.num_tokens() - 1))) = next_node_++;
  }

  /// What the growths need, in the order in which the manager serves them: by sequence.
  std::vector<Step> plan(const std::vector<Growth>& growths) {
    std::map<int, int> tokens;
    for (const Growth& growth : growths) tokens[growth.seq] += growth.num_tokens;
    std::vector<Step> steps;
    std::vector<int> left = ref_cnt_;
    const auto size = static_cast<size_t>(shape_.block_size);
    for (Sequence& sequence : sequences_) {  // ascending
      const auto found = tokens.find(sequence.number);
      if (found == tokens.end() || found->second == 0) continue;
      const size_t length = sequence.nodes.size();
      const size_t end = length + static_cast<size_t>(found->second);
      Step step{&sequence, found->second, false, (end + size - 1) / size - sequence.blocks.size()};
      if (length % size != 0 && left[at(sequence.blocks.back())] > 1) {
        --left[at(sequence.blocks.back())];
        step.copies = true;
      }
      steps.push_back(step);
    }
    return steps;
  }

  void append(const std::vector<Growth>& growths) {
    if (log) {
      std::string words;
      for (const Growth& growth : growths) {
        words += fmt::format("{} {} +{}", words.empty() ? "" : ",", growth.seq, growth.num_tokens);
      }
      say("append{}", words);
    }
    const std::vector<Step> steps = plan(growths);
    size_t copies = 0, needed = 0;
    for (const Step& step : steps) copies += step.copies, needed += step.fresh;
    const bool fits = needed + copies <= free_.size();
    const bool throws = fits && fail_copy_ && copies > 0;
    bool threw = false;
    try {
      expect(manager_.append(growths) == fits, "the answer to an append");
    } catch (const CopyFailed&) {
      threw = true;
    }
    expect(threw == throws, "whether the copy was called");
    if (!fits || throws) return;  // compare() sees that nothing has changed

    for (const Step& step : steps) {  // the copies take their blocks first
      if (!step.copies) continue;
      --ref_cnt_[at(step.sequence->blocks.back())];
      step.sequence->blocks.back() = take();
      ++num_copies_;
    }
    for (const Step& step : steps) {
      for (size_t i = 0; i < step.fresh; ++i) step.sequence->blocks.push_back(take());
      const auto& table = manager_.table(step.sequence->number);
      for (int t = table.num_tokens() - step.num_tokens; t < table.num_tokens(); ++t) {
        step.sequence->nodes.push_back(next_node_);
        memory_.at(static_cast<size_t>(table.slot(t))) = next_node_++;
      }
    }
  }

  void copy(std::span<const BlockCopy> copies) {
    if (fail_copy_) throw CopyFailed();
    const auto size = static_cast<std::ptrdiff_t>(shape_.block_size);
    for (const BlockCopy& copy : copies) {
      expect(copy.source != copy.destination, "a block is copied to itself");
      expect(ref_cnt_[at(copy.source)] > 0, "a free block is copied");
      std::copy_n(memory_.begin() + copy.source * size, size,
                  memory_.begin() + copy.destination * size);
    }
  }

  int32_t take() {
    const int32_t id = free_.back();
    free_.pop_back();
    ref_cnt_[at(id)] = 1;
    return id;
  }

  /// Every invariant: the manager's own, and everything that the model predicts.
  void compare() {
    manager_.check();
    const auto& pool = manager_.pool();
    expect(pool.num_free() == static_cast<int>(free_.size()), "num_free");
    expect(pool.num_free() + pool.num_used() == shape_.num_blocks, "free + used");
    int shared = 0;
    int64_t references = 0;
    for (size_t id = 0; id < ref_cnt_.size(); ++id) {
      expect(pool.ref_cnt(static_cast<int32_t>(id)) == ref_cnt_[id], "a ref count");
      shared += ref_cnt_[id] > 1;
      references += ref_cnt_[id];
    }
    expect(pool.num_shared() == shared, "num_shared");
    expect(pool.num_references() == references, "num_references");
    expect(manager_.num_blocks_without_sharing() == references, "blocks without sharing");
    expect(manager_.num_copies() == num_copies_, "num_copies");
    expect(manager_.tables().size() == sequences_.size(), "the number of sequences");
    for (const Sequence& sequence : sequences_) {
      const auto& table = manager_.table(sequence.number);
      const auto ids = table.block_ids();
      expect(table.num_tokens() == static_cast<int>(sequence.nodes.size()), "num_tokens");
      expect(std::equal(ids.begin(), ids.end(), sequence.blocks.begin(), sequence.blocks.end()),
             "a block table");
      if (!wrong_.empty()) return;
      compare_contents(sequence);
    }
  }

  /// The table is as predicted, so the blocks can be compared whole.
  void compare_contents(const Sequence& sequence) {
    const auto size = static_cast<size_t>(shape_.block_size);
    for (size_t begin = 0, b = 0; begin < sequence.nodes.size(); begin += size, ++b) {
      const size_t count = std::min(size, sequence.nodes.size() - begin);
      const uint64_t* slots = memory_.data() + at(sequence.blocks[b]) * size;
      expect(std::equal(slots, slots + count, sequence.nodes.data() + begin),
             "what a sequence reads back");
    }
  }

  void expect(bool right, const char* what) {
    if (!right && wrong_.empty()) wrong_ = fmt::format("wrong: {}", what);
  }
  static size_t at(int32_t id) { return static_cast<size_t>(id); }

  Shape shape_;
  std::vector<uint64_t> memory_;     // [num_blocks * block_size] nodes
  std::vector<int> ref_cnt_;         // [num_blocks]
  std::vector<int32_t> free_;        // the stack, predicted
  std::vector<Sequence> sequences_;  // ascending
  uint64_t next_node_ = 1;
  int next_number_ = 0;
  int64_t num_copies_ = 0;
  bool fail_copy_ = false;
  std::string wrong_;
  Manager manager_;
};

}  // namespace random_ops
