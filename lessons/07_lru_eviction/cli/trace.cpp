#include "trace.h"

#include <random>

namespace lesson07 {
namespace {

/// Random numbers that are the same with every standard library.
class Dice {
 public:
  explicit Dice(uint64_t seed) : rng_(seed) {}
  /// 0 .. n - 1.
  int below(int n) { return static_cast<int>(rng_() % static_cast<uint64_t>(n)); }
  /// Between half and one and a half times the mean.
  int around(int mean) { return mean / 2 + below(mean + 1); }
  /// 0 .. n - 1, number k in proportion to 1 / (k + 1).
  int zipf(int n) {
    double sum = 0;
    for (int k = 1; k <= n; ++k) sum += 1.0 / k;
    double left = static_cast<double>(rng_() >> 11) * 0x1p-53 * sum;
    for (int k = 1; k < n; ++k) {
      left -= 1.0 / k;
      if (left < 0) return k - 1;
    }
    return n - 1;
  }
  std::vector<int32_t> tokens(int count) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back(below(50'000));
    return tokens;
  }

 private:
  std::mt19937_64 rng_;
};

struct Conversation {
  std::vector<int32_t> so_far;
  int turns_left = 0;
};

void append(std::vector<int32_t>& all, const std::vector<int32_t>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

std::vector<TraceRequest> make_trace(const TraceOptions& options) {
  Dice dice(options.seed);
  std::vector<std::vector<int32_t>> systems;
  for (int i = 0; i < options.num_system_prompts; ++i) {
    systems.push_back(dice.tokens(dice.around(options.system_tokens)));
  }
  std::vector<Conversation> open(options.num_open);
  std::vector<TraceRequest> trace;
  while (static_cast<int>(trace.size()) < options.num_requests) {
    Conversation& talk = open[dice.below(options.num_open)];
    if (talk.turns_left == 0) {
      talk.so_far = systems[dice.zipf(options.num_system_prompts)];
      talk.turns_left = 1 + dice.below(options.max_turns);
    }
    --talk.turns_left;
    append(talk.so_far, dice.tokens(dice.around(options.turn_tokens)));
    TraceRequest request{.prompt = talk.so_far,
                         .answer = dice.tokens(dice.around(3 * options.turn_tokens))};
    append(talk.so_far, request.answer);
    trace.push_back(std::move(request));
  }
  return trace;
}

double play(const std::vector<TraceRequest>& trace, lesson06::CachePool& pool) {
  KvCacheManager manager(pool);
  int64_t asked = 0, found = 0;
  for (const TraceRequest& request : trace) {
    BlockHashes hashes;
    const lesson06::ComputedBlocks computed = manager.get_computed_blocks(request.prompt, hashes);
    const auto prompt = static_cast<int>(request.prompt.size());
    asked += prompt;
    if (!manager.allocate_slots(0, prompt - computed.num_tokens, computed)) continue;
    found += computed.num_tokens;
    manager.cache_blocks(0, request.prompt, hashes, prompt);
    std::vector<int32_t> tokens = request.prompt;
    append(tokens, request.answer);
    tokens.pop_back();  // the answer's last token is drawn and never run
    const auto all = static_cast<int>(tokens.size());
    if (manager.allocate_slots(0, all - prompt)) manager.cache_blocks(0, tokens, hashes, all);
    manager.free(0);
  }
  return static_cast<double>(found) / static_cast<double>(asked);
}

}  // namespace lesson07
