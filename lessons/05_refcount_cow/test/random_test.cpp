// Millions of random operations against the symbolic model (random_ops.h), and the bugs that they
// must find. KV_RANDOM_OPS sets their number, KV_RANDOM_SEED the seed.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "block_manager.h"
#include "buggy_manager.h"
#include "random_search.h"

namespace {

using random_ops::Bug;
using random_ops::BuggyManager;
using random_ops::Shape;

#if defined(__SANITIZE_ADDRESS__)
constexpr int64_t kNumOps = 300'000;
#else
constexpr int64_t kNumOps = 10'000'000;
#endif

int64_t number_from(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoll(text);
}

/// A quarter of all operations, with blocks of one size in pools of several.
void run_with(int block_size) {
  const int64_t num_ops = number_from("KV_RANDOM_OPS", kNumOps) / 4;
  const auto seed = static_cast<uint64_t>(number_from("KV_RANDOM_SEED", 1));
  std::vector<Shape> shapes;
  for (const int num_blocks : {1, 2, 3, 5, 8, 13, 24}) shapes.push_back({num_blocks, block_size});
  const std::string report = random_ops::search<lesson05::BlockManager>(
      shapes, num_ops, seed + 1000u * static_cast<unsigned>(block_size));
  CHECK_MESSAGE(report.empty(), report);
}

const std::vector<Shape> kSmallShapes{{3, 1}, {2, 2}, {4, 2}, {6, 3}, {12, 4}};

/// Operations after which every bug has been found many times over.
constexpr int64_t kEnoughOps = 20'000;

}  // namespace

TEST_CASE("random operations with blocks of 1 keep every invariant") { run_with(1); }
TEST_CASE("random operations with blocks of 2 keep every invariant") { run_with(2); }
TEST_CASE("random operations with blocks of 3 keep every invariant") { run_with(3); }
TEST_CASE("random operations with blocks of 16 keep every invariant") { run_with(16); }

TEST_CASE("the plain manager without a bug passes") {
  CHECK(random_ops::search<BuggyManager>(kSmallShapes, kEnoughOps, 1, Bug::kNone) == "");
}

TEST_CASE("planted bugs are found") {
  struct Planted {
    Bug bug;
    std::string what;
  };
  const Planted planted[] = {
      {Bug::kNoCopy, "no copy on append"},
      {Bug::kCopyAtBoundary, "a copy at the boundary"},
      {Bug::kEveryHolderCopies, "a shared tail copied once too often"},
      {Bug::kReleaseFirst, "release before allocate"},
      {Bug::kForkWithoutRef, "a fork that counts one reference too few"},
      {Bug::kLeakOnFailure, "a leak when an append fails"},
      {Bug::kPartialAppend, "half an append"},
      {Bug::kDoubleFree, "a block released twice"},
      {Bug::kWrongDirection, "a copy in the wrong direction"},
      {Bug::kForgottenCopy, "no copy at all"},
      {Bug::kNotRepointed, "a table that was not repointed"},
      {Bug::kShareNotReleased, "a share that was not released"},
      {Bug::kHeadFreedFirst, "the head freed before the tail"},
      {Bug::kLeakOnThrow, "a leak when the copy throws"},
      {Bug::kWriteShared, "a write into a shared block"},
  };
  CHECK(std::size(planted) + 1 == static_cast<size_t>(Bug::kEnd));
  for (const Planted& p : planted) {
    const std::string report = random_ops::search<BuggyManager>(kSmallShapes, kEnoughOps, 1, p.bug);
    INFO(p.what << ": " << report);
    CHECK(report != "");
    CHECK(std::count(report.begin(), report.end(), '\n') <= 15);  // short enough to be read
  }
}
