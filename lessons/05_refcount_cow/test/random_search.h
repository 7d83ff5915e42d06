#pragma once

// Looks for a run of random operations that fails, and makes it short enough to be read.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "random_ops.h"

namespace random_ops {

/// Runs the operations on a new manager. Empty, or what is wrong; `done` gets their number.
template <class Manager, class... Extra>
std::string failure_of(const Shape& shape, const std::vector<Op>& ops,
                       std::vector<std::string>* log, Extra... extra) {
  Run<Manager> run(shape, extra...);
  run.log = log;
  for (const Op& op : ops) {
    const std::string wrong = run.step(op);
    if (!wrong.empty()) return wrong;
  }
  return run.finish();
}

/// Drops ever smaller pieces of the run, and makes its numbers small, as long as it still fails.
template <class Manager, class... Extra>
std::vector<Op> shortened(const Shape& shape, std::vector<Op> ops, Extra... extra) {
  const auto take_if_failing = [&](std::vector<Op> candidate) {
    if (failure_of<Manager>(shape, candidate, nullptr, extra...).empty()) return false;
    ops = std::move(candidate);
    return true;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t piece = std::max<size_t>(1, ops.size() / 2); piece > 0; piece /= 2) {
      for (size_t begin = 0; begin < ops.size();) {
        std::vector<Op> fewer = ops;
        const auto first = fewer.begin() + static_cast<std::ptrdiff_t>(begin);
        const size_t count = std::min(piece, ops.size() - begin);
        fewer.erase(first, first + static_cast<std::ptrdiff_t>(count));
        if (take_if_failing(std::move(fewer))) {
          changed = true;
        } else {
          begin += piece;
        }
      }
    }
    for (size_t i = 0; i < ops.size(); ++i) {
      if (ops[i].kind == Kind::kAppendMany || ops[i].kind == Kind::kFailingCopy) {
        std::vector<Op> other = ops;
        other[i] = {Kind::kAppend, ops[i].which, 1};
        if (take_if_failing(std::move(other))) changed = true;
      }
      for (uint32_t small = 0; small < ops[i].which && small < kMaxSequences; ++small) {
        std::vector<Op> other = ops;
        other[i].which = small;
        if (take_if_failing(std::move(other))) changed = true;
      }
      for (uint32_t small = 0; small < ops[i].num_tokens && small < 4; ++small) {
        std::vector<Op> other = ops;
        other[i].num_tokens = small;
        if (take_if_failing(std::move(other))) changed = true;
      }
    }
    // Without the operation that made a sequence, those behind it have a lower index.
    for (uint32_t index = 0; index < kMaxSequences; ++index) {
      for (size_t i = 0; i < ops.size(); ++i) {
        std::vector<Op> fewer = ops;
        fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
        for (size_t j = i; j < fewer.size(); ++j) fewer[j].which -= fewer[j].which > index;
        if (take_if_failing(std::move(fewer))) changed = true;
      }
    }
  }
  return ops;
}

/// `num_ops` operations in runs of kOpsPerRun. Empty, or a report: the seed, what is wrong, and the
/// shortest sequence found that still fails.
template <class Manager, class... Extra>
std::string search(const std::vector<Shape>& shapes, int64_t num_ops, uint64_t seed,
                   Extra... extra) {
  constexpr int64_t kOpsPerRun = 250;
  for (int64_t done = 0; done < num_ops; done += kOpsPerRun) {
    const uint64_t run_seed = seed * 1'000'003 + static_cast<uint64_t>(done / kOpsPerRun);
    Random random(run_seed);
    const Shape& shape = shapes[random.below(static_cast<uint32_t>(shapes.size()))];
    std::vector<Op> ops;
    for (int i = 0; i < kOpsPerRun; ++i) ops.push_back(random_op(random, shape));
    if (failure_of<Manager>(shape, ops, nullptr, extra...).empty()) continue;

    const std::vector<Op> few = shortened<Manager>(shape, ops, extra...);
    std::vector<std::string> log;
    const std::string wrong = failure_of<Manager>(shape, few, &log, extra...);
    std::string report = fmt::format("seed {}, run {}: {} blocks of {}: {}\n", seed,
                                     done / kOpsPerRun, shape.num_blocks, shape.block_size, wrong);
    for (const std::string& line : log) report += "  " + line + "\n";
    return report;
  }
  return "";
}

}  // namespace random_ops
