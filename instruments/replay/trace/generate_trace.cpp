// A made-up trace: what users of a chat server share, and what only they have.

#include <fmt/format.h>

#include <random>

#include "instruments/replay/trace/trace_file.h"
#include "programs/run_main.h"

namespace replay {
namespace {

constexpr int kSystems = 200;     // system prompts; number k is drawn in proportion to 1 / (k + 1)
constexpr int kOpen = 64;         // conversations at the same time
constexpr int kMaxTurns = 8;      // of a conversation
constexpr int kSystemBlocks = 6;  // of a system prompt, on average
constexpr int kTurnBlocks = 2;    // of a question and of an answer, on average
constexpr int kBurst = 40;        // requests of a burst, on average
constexpr int kGap = 200;         // milliseconds between requests, on average
constexpr int kBurstGap = 5;      // and in a burst

/// The same numbers with every standard library.
class Dice {
 public:
  explicit Dice(uint64_t seed) : rng_(seed) {
    for (int k = 1; k <= kSystems; ++k) sum_ += 1.0 / k;
  }
  int64_t below(int64_t n) { return static_cast<int64_t>(rng_() % static_cast<uint64_t>(n)); }
  /// 1 .. 2 mean - 1.
  int64_t around(int64_t mean) { return 1 + below(2 * mean - 1); }
  size_t zipf() {
    double left = static_cast<double>(rng_() >> 11) * 0x1p-53 * sum_;
    for (size_t k = 0; k + 1 < kSystems; ++k) {
      left -= 1.0 / static_cast<double>(k + 1);
      if (left < 0) return k;
    }
    return kSystems - 1;
  }

 private:
  std::mt19937_64 rng_;
  double sum_ = 0;
};

struct Conversation {
  std::vector<uint64_t> full;  // its blocks that are full
  int64_t tokens = 0;
  int64_t turns_left = 0;
};

class Generator {
 public:
  Generator(uint64_t seed, int block_size) : dice_(seed), block_size_(block_size) {
    for (int i = 0; i < kSystems; ++i) {
      Conversation system;
      grow(system, dice_.around(int64_t{kSystemBlocks} * block_size));
      systems_.push_back(std::move(system));
    }
    open_.resize(kOpen);
  }

  std::string next_line() {
    Conversation& talk = open_[static_cast<size_t>(dice_.below(kOpen))];
    if (talk.turns_left == 0) {
      talk = systems_[dice_.zipf()];
      talk.turns_left = dice_.around(kMaxTurns / 2);
    }
    --talk.turns_left;
    grow(talk, dice_.around(int64_t{kTurnBlocks} * block_size_));
    const int64_t answer = dice_.around(int64_t{kTurnBlocks} * block_size_);
    tick();
    std::string ids;
    for (const uint64_t id : talk.full) ids += fmt::format("{}{}", ids.empty() ? "" : ", ", id);
    if (talk.tokens % block_size_ != 0) {  // a block that is not full is never found
      ids += fmt::format("{}{}", ids.empty() ? "" : ", ", next_id_++);
    }
    std::string line = fmt::format(
        R"({{"timestamp": {}, "input_length": {}, "output_length": {}, "hash_ids": [{}])", now_,
        talk.tokens, answer, ids);
    if (block_size_ != kMooncakeBlockSize)
      line += fmt::format(R"(, "block_size": {})", block_size_);
    grow(talk, answer);
    return line + "}\n";
  }

 private:
  void grow(Conversation& talk, int64_t tokens) {
    talk.tokens += tokens;
    while (std::ssize(talk.full) < talk.tokens / block_size_) talk.full.push_back(next_id_++);
  }
  void tick() {
    if (burst_left_ == 0 && dice_.below(kBurst) == 0) burst_left_ = dice_.around(kBurst);
    burst_left_ -= burst_left_ > 0;
    now_ += dice_.around(burst_left_ > 0 ? kBurstGap : kGap);
  }

  Dice dice_;
  int block_size_;
  std::vector<Conversation> systems_, open_;
  uint64_t next_id_ = 0;
  int64_t now_ = 0, burst_left_ = 0;
};

}  // namespace

void generate_trace(const kv::Console& out, int64_t num_requests, uint64_t seed, int block_size) {
  Generator generator(seed, block_size);
  for (int64_t i = 0; i < num_requests && !kv::interrupted(); ++i) out.write(generator.next_line());
}

}  // namespace replay
