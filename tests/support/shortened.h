#pragma once

// Random operations that can be told again: made from one number, and short enough to be read when
// they fail.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace kvtest {

/// SplitMix64: the same numbers everywhere, and cheap to start over for every operation.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  int below(size_t n) { return static_cast<int>(next() % n); }
  int from(int least, int most) { return least + below(static_cast<size_t>(most - least + 1)); }

 private:
  uint64_t state_;
};

/// The fault that an operation has shown.
struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};
inline void require(bool holds, const char* what) {
  if (!holds) throw Wrong(what);
}

/// Drops ever smaller pieces, as long as `fails` still holds of what is left.
template <class Op, class Fails>
std::vector<Op> shortened(std::vector<Op> ops, const Fails& fails) {
  for (size_t piece = std::max<size_t>(1, ops.size() / 2);; piece /= 2) {
    bool dropped = false;
    for (size_t begin = 0; begin < ops.size();) {
      std::vector<Op> fewer(ops.begin(), ops.begin() + static_cast<std::ptrdiff_t>(begin));
      const size_t end = std::min(ops.size(), begin + piece);
      fewer.insert(fewer.end(), ops.begin() + static_cast<std::ptrdiff_t>(end), ops.end());
      if (fails(fewer)) {
        ops = std::move(fewer);
        dropped = true;
      } else {
        begin = end;
      }
    }
    if (piece == 1 && !dropped) return ops;
    piece = std::max<size_t>(piece, 2);  // pieces of one, until nothing more can go
  }
}

/// The value of an environment variable, or `otherwise`.
inline int64_t number_from(const char* variable, int64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoll(text);
}

/// The number of random operations: KV_RANDOM_OPS, or `usual`, or `sanitized` in a build with
/// sanitizers.
inline int64_t num_random_ops(int64_t usual, [[maybe_unused]] int64_t sanitized) {
#if defined(KV_SANITIZED)
  usual = sanitized;
#endif
  return number_from("KV_RANDOM_OPS", usual);
}

/// Runs of `ops_per_run` operations, each a number, until `num_ops` are done. Run is made from
/// (settings of the run: a number) and has operation(number), which throws for what is wrong, and
/// text() of the last one. KV_RANDOM_SEED sets the seed. Empty, or a report: seed, run, what is
/// wrong, and a sequence that still shows it, of which nothing can be left out.
template <class Run>
std::string search(int64_t num_ops, int ops_per_run) {
  const auto seed = static_cast<uint64_t>(number_from("KV_RANDOM_SEED", 1));
  const auto failure = [](uint64_t settings, const std::vector<uint64_t>& ops, std::string* told) {
    try {
      Run run(settings);
      for (const uint64_t op : ops) {
        try {
          run.operation(op);
        } catch (...) {
          if (told) *told += "  " + run.text() + "\n";
          throw;
        }
        if (told) *told += "  " + run.text() + "\n";
      }
      run.finish();
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  int64_t run = 0;
  for (int64_t done = 0; done < num_ops; done += ops_per_run, ++run) {
    Random random(seed * 1'000'003 + static_cast<uint64_t>(run));
    const uint64_t settings = random.next();
    std::vector<uint64_t> ops(static_cast<size_t>(ops_per_run));
    for (uint64_t& op : ops) op = random.next();
    if (failure(settings, ops, nullptr).empty()) continue;
    const auto few = shortened(
        ops, [&](const auto& fewer) { return !failure(settings, fewer, nullptr).empty(); });
    std::string told;
    const std::string what = failure(settings, few, &told);
    return "seed " + std::to_string(seed) + ", run " + std::to_string(run) + ", " +
           Run(settings).settings() + ": " + what + "\n" + told;
  }
  return "";
}

}  // namespace kvtest
