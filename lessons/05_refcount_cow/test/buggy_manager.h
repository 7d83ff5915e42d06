#pragma once

// A second, plain manager with bugs to switch on, for tests: the random operations must find each
// of them, and none when no bug is on.

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "block_manager.h"

namespace random_ops {

enum class Bug {
  kNone,
  kNoCopy,             // an append writes into a shared tail
  kCopyAtBoundary,     // a full shared tail is copied too
  kEveryHolderCopies,  // also the last one, which could keep the block
  kReleaseFirst,       // the share is released before it is known that the copy fits
  kForkWithoutRef,     // the last block of a fork is not counted
  kLeakOnFailure,      // a failed append keeps what it had taken
  kPartialAppend,      // some of the sequences grow although not all can
  kDoubleFree,         // the first block is released twice
  kWrongDirection,     // the new block is copied over the old one
  kForgottenCopy,      // the table moves on and the bytes stay behind
  kNotRepointed,       // the copy is made and the table still has the old block
  kShareNotReleased,   // the old block keeps a reference of the sequence that left it
  kHeadFreedFirst,     // blocks come back in the wrong order
  kLeakOnThrow,        // a copy that throws loses its block
  kWriteShared,        // a write to the last block takes no copy
  kEnd
};

class BuggyManager {
 public:
  BuggyManager(int num_blocks, int block_size, lesson05::CopyBlocks copy, Bug bug)
      : bug_(bug), block_size_(block_size), pool_(num_blocks), copy_(std::move(copy)) {}

  int add_sequence() {
    tables_.emplace(next_, lesson05::BlockTable(block_size_));
    return next_++;
  }

  int fork(int seq) {
    const lesson05::BlockTable parent = table(seq);
    const auto ids = parent.block_ids();
    for (size_t i = 0; i < ids.size(); ++i) {
      if (bug_ != Bug::kForkWithoutRef || i + 1 < ids.size()) pool_.add_ref(ids[i]);
    }
    tables_.emplace(next_, parent);
    return next_++;
  }

  bool append(std::vector<lesson05::Growth> growths) {
    std::stable_sort(growths.begin(), growths.end(),
                     [](const auto& a, const auto& b) { return a.seq < b.seq; });
    std::vector<Step> steps = plan(growths);
    if (bug_ == Bug::kPartialAppend) {
      for (size_t i = 0; i < steps.size(); ++i) {
        if (!append_steps({steps[i]})) return false;
      }
      return true;
    }
    return append_steps(steps);
  }

  bool make_last_block_writable(int seq) {
    lesson05::BlockTable& table = tables_.at(seq);
    const int32_t last = table.block_ids().back();
    if (pool_.ref_cnt(last) == 1 || bug_ == Bug::kWriteShared) return true;
    if (pool_.num_free() == 0) return false;
    move_to_copy(table, last, *pool_.allocate());
    return true;
  }

  void free_sequence(int seq) {
    const auto ids = table(seq).block_ids();
    std::vector<int32_t> order(ids.rbegin(), ids.rend());
    if (bug_ == Bug::kHeadFreedFirst) std::reverse(order.begin(), order.end());
    for (const int32_t id : order) pool_.release(id);
    if (bug_ == Bug::kDoubleFree && !order.empty() && pool_.ref_cnt(order.back()) > 0) {
      pool_.release(order.back());
    }
    tables_.erase(seq);
  }

  const lesson05::BlockTable& table(int seq) const {
    const auto found = tables_.find(seq);
    if (found == tables_.end()) throw std::out_of_range("no sequence " + std::to_string(seq));
    return found->second;
  }
  const std::map<int, lesson05::BlockTable>& tables() const { return tables_; }
  const lesson05::BlockPool& pool() const { return pool_; }
  int64_t num_copies() const { return num_copies_; }
  int64_t num_blocks_without_sharing() const {
    int64_t sum = 0;
    for (const auto& [seq, table] : tables_) sum += table.num_blocks();
    return sum;
  }
  void check() const {}  // the harness is to find the bug by itself

 private:
  struct Step {
    int seq;
    int num_tokens;
    bool copies;
  };

  std::vector<Step> plan(const std::vector<lesson05::Growth>& growths) const {
    std::vector<Step> steps;
    std::map<int32_t, int> released;
    for (const lesson05::Growth& growth : growths) {
      if (growth.num_tokens == 0) continue;
      if (!steps.empty() && steps.back().seq == growth.seq) {
        steps.back().num_tokens += growth.num_tokens;
        continue;
      }
      const lesson05::BlockTable& grown = table(growth.seq);
      const int fill = grown.last_block_fill();
      const bool full = fill == block_size_ && bug_ != Bug::kCopyAtBoundary;
      Step step{growth.seq, growth.num_tokens, false};
      if (fill != 0 && !full && bug_ != Bug::kNoCopy) {
        const int32_t last = grown.block_ids().back();
        int& given_up = released[last];
        const int left = pool_.ref_cnt(last) - (bug_ == Bug::kEveryHolderCopies ? 0 : given_up);
        step.copies = left > 1;
        given_up += step.copies;
      }
      steps.push_back(step);
    }
    return steps;
  }

  bool append_steps(const std::vector<Step>& steps) {
    int needed = 0;
    for (const Step& step : steps) {
      const lesson05::BlockTable& grown = table(step.seq);
      if (bug_ == Bug::kReleaseFirst && step.copies && pool_.num_free() == 0) {
        pool_.release(grown.block_ids().back());
      }
      needed += step.copies + grown.blocks_to_extend(step.num_tokens);
    }
    if (needed > pool_.num_free()) {
      if (bug_ == Bug::kLeakOnFailure) pool_.allocate();
      return false;
    }
    std::vector<int32_t> taken;
    for (int i = 0; i < needed; ++i) taken.push_back(*pool_.allocate());
    size_t next = 0;
    try {
      for (const Step& step : steps) {
        if (!step.copies) continue;
        lesson05::BlockTable& grown = tables_.at(step.seq);
        move_to_copy(grown, grown.block_ids().back(), taken[next]);
        ++next;
      }
    } catch (...) {
      if (bug_ == Bug::kLeakOnThrow) taken.pop_back();
      for (auto id = taken.rbegin(); id != taken.rend(); ++id) pool_.release(*id);
      throw;
    }
    for (const Step& step : steps) {
      lesson05::BlockTable& grown = tables_.at(step.seq);
      const auto count = static_cast<size_t>(grown.blocks_to_extend(step.num_tokens));
      grown.extend(step.num_tokens, std::span(taken).subspan(next, count));
      next += count;
    }
    return true;
  }

  void move_to_copy(lesson05::BlockTable& table, int32_t from, int32_t to) {
    const lesson05::BlockCopy right{.source = from, .destination = to};
    const lesson05::BlockCopy wrong{.source = to, .destination = from};
    const lesson05::BlockCopy& copy = bug_ == Bug::kWrongDirection ? wrong : right;
    if (bug_ != Bug::kForgottenCopy) copy_({&copy, 1});
    if (bug_ != Bug::kShareNotReleased) pool_.release(from);
    if (bug_ != Bug::kNotRepointed) table.replace(table.num_blocks() - 1, to);
    ++num_copies_;
  }

  Bug bug_;
  int block_size_;
  lesson05::BlockPool pool_;
  lesson05::CopyBlocks copy_;
  std::map<int, lesson05::BlockTable> tables_;
  int next_ = 0;
  int64_t num_copies_ = 0;
};

}  // namespace random_ops
