// Random operations against a symbolic model that says which block every table has afterwards, and
// what every slot holds. KV_RANDOM_OPS sets their number, KV_RANDOM_SEED the seed.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "block_manager.h"
#include "tests/support/shortened.h"

namespace {

using kvtest::require;
using lesson05::BlockCopy;
using lesson05::Growth;

constexpr size_t kMaxSequences = 8;  // live at a time
constexpr std::array kBlockSizes{1, 2, 3, 16};
constexpr std::array kPoolSizes{1, 2, 3, 5, 8, 13, 24};

struct CopyFailed : std::exception {};

/// A slot holds the number of one write instead of K and V. A number is written once, after one
/// prefix, so it stands for that prefix. A sequence that reads another number sees a block that was
/// written by another sequence, copied wrongly, or freed too early.
class Run {
 public:
  explicit Run(uint64_t settings)
      : block_size_(kBlockSizes[settings % kBlockSizes.size()]),
        num_blocks_(kPoolSizes[settings / 8 % kPoolSizes.size()]),
        slots_(num_blocks_ * block_size_),
        manager_(num_blocks_, block_size_,
                 [this](std::span<const BlockCopy> copies) { copy(copies); }) {
    for (int32_t id = num_blocks_ - 1; id >= 0; --id) free_.push_back(id);
  }
  Run(const Run&) = delete;  // the manager knows where slots_ is
  Run& operator=(const Run&) = delete;

  void operation(uint64_t op) {
    kvtest::Random random(op);
    const int kind = random.below(16);
    const bool has_room = sequences_.size() < kMaxSequences;
    if (sequences_.empty() || (kind < 2 && has_room)) {
      const int seq = manager_.add_sequence();
      text_ = fmt::format("new {}", seq);
      add(seq, {});
    } else if (kind < 5 && has_room) {
      const auto& [parent, sequence] = *any(random);
      const int seq = manager_.fork(parent);
      text_ = fmt::format("fork {} from {}", seq, parent);
      add(seq, sequence);
    } else if (kind < 8) {
      free(any(random)->first);
    } else {
      append(random);
    }
    compare();
  }
  /// Frees all sequences; no used block may be left.
  void finish() {
    while (!sequences_.empty()) free(sequences_.begin()->first);
    compare();
  }
  const std::string& text() const { return text_; }
  std::string settings() const { return fmt::format("{} blocks of {}", num_blocks_, block_size_); }

 private:
  struct Sequence {
    std::vector<uint64_t> writes;  // [tokens]
    std::vector<int32_t> blocks;
  };

  std::map<int, Sequence>::iterator any(kvtest::Random& random) {
    return std::next(sequences_.begin(), random.below(sequences_.size()));
  }

  void add(int seq, Sequence sequence) {
    require(seq == next_seq_++, "a new sequence has another number");
    sequences_.emplace(seq, std::move(sequence));
  }

  void free(int seq) {
    text_ = fmt::format("free {}", seq);
    manager_.free_sequence(seq);
    std::vector<int32_t> blocks = std::move(sequences_.at(seq).blocks);
    sequences_.erase(seq);
    const std::vector<int> held = ref_cnts();
    std::erase_if(blocks, [&](int32_t id) { return held[id] > 0; });
    free_.insert(free_.end(), blocks.rbegin(), blocks.rend());
  }

  void append(kvtest::Random& random) {
    std::vector<Growth> growths;  // some sequences, in any order
    const size_t most = random.below(2) == 0 ? 1 : 2 * block_size_ + 1;
    do {
      const int seq = any(random)->first;
      std::erase_if(growths, [&](const Growth& growth) { return growth.seq == seq; });
      growths.push_back({.seq = seq, .num_tokens = random.below(most + 1)});
    } while (random.below(2) == 0);
    copy_fails_ = random.below(16) == 0;
    text_ = copy_fails_ ? "append, and the copy fails:" : "append";
    for (const auto& [seq, num_tokens] : growths) text_ += fmt::format(" {}+{}", seq, num_tokens);

    std::vector<int> copying;  // sequences that leave a shared block
    std::vector<int> left = ref_cnts();
    size_t needed = 0;
    for (const auto& [seq, num_tokens] : growths) {
      const Sequence& sequence = sequences_.at(seq);
      const size_t length = sequence.writes.size(), size = block_size_;
      needed += (length + num_tokens + size - 1) / size - sequence.blocks.size();
      if (num_tokens == 0 || length % size == 0 || left[sequence.blocks.back()] == 1) continue;
      --left[sequence.blocks.back()];
      copying.push_back(seq);
    }
    needed += copying.size();
    require(manager_.blocks_to_append(growths) == static_cast<int64_t>(needed),
            "another number of blocks is needed");
    const bool fits = needed <= free_.size();
    const bool throws = fits && copy_fails_ && !copying.empty();
    try {
      require(manager_.append(growths) == fits, "an append is refused, or is not");
      require(!throws, "nothing was copied");
    } catch (const CopyFailed&) {
      require(throws, "something was copied");
    }
    if (!fits || throws) return;  // compare() sees that nothing has changed
    for (const int seq : copying) sequences_.at(seq).blocks.back() = take();
    num_copies_ += std::ssize(copying);
    for (const auto& [seq, num_tokens] : growths) write(seq, num_tokens);
  }

  /// Writes the tokens that the manager has made slots for.
  void write(int seq, int num_tokens) {
    Sequence& sequence = sequences_.at(seq);
    for (int i = 0; i < num_tokens; ++i) {
      const size_t token = sequence.writes.size();
      if (token % block_size_ == 0) sequence.blocks.push_back(take());
      sequence.writes.push_back(next_write_);
      slots_.at(manager_.table(seq).slot(static_cast<int>(token))) = next_write_++;
    }
  }

  void copy(std::span<const BlockCopy> copies) {
    if (copy_fails_) throw CopyFailed();
    for (const BlockCopy& one : copies) {
      std::copy_n(slots_.begin() + one.source * block_size_, block_size_,
                  slots_.begin() + one.destination * block_size_);
    }
  }

  int32_t take() {
    require(!free_.empty(), "there is no free block");
    const int32_t id = free_.back();
    free_.pop_back();
    return id;
  }

  std::vector<int> ref_cnts() const {
    std::vector<int> held(num_blocks_, 0);
    for (const auto& [seq, sequence] : sequences_) {
      for (const int32_t id : sequence.blocks) ++held[id];
    }
    return held;
  }

  void compare() const {
    manager_.check();  // counts the references of the tables, which are compared below
    const lesson05::BlockPool& pool = manager_.pool();
    require(pool.num_free() == std::ssize(free_), "another number of blocks is free");
    require(pool.num_shared() == std::ranges::count_if(ref_cnts(), [](int n) { return n > 1; }),
            "another number of blocks is shared");
    require(manager_.num_copies() == num_copies_, "another number of copies");
    require(manager_.tables().size() == sequences_.size(), "other sequences");
    for (const auto& [seq, sequence] : sequences_) {
      const lesson05::BlockTable& table = manager_.table(seq);
      require(table.num_tokens() == std::ssize(sequence.writes), "another number of tokens");
      require(std::ranges::equal(table.block_ids(), sequence.blocks), "a table has other blocks");
      for (int token = 0; token < table.num_tokens(); ++token) {
        require(slots_[table.slot(token)] == sequence.writes[token],
                "a sequence reads what it has not written");
      }
    }
  }

  int block_size_;
  int num_blocks_;
  std::vector<uint64_t> slots_;  // [num_blocks * block_size]
  std::vector<int32_t> free_;    // a stack
  std::map<int, Sequence> sequences_;
  int next_seq_ = 0;
  uint64_t next_write_ = 1;
  int64_t num_copies_ = 0;
  bool copy_fails_ = false;
  std::string text_;
  lesson05::BlockManager manager_;
};

}  // namespace

TEST_CASE("random operations: every table and every slot is the predicted one") {
  const auto report = kvtest::search<Run>(kvtest::num_random_ops(10'000'000, 300'000), 250);
  CHECK_MESSAGE(report.empty(), report);
}
