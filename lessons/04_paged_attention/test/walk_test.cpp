// Tests of the walk: its pieces, put together, are paged attention to the bit.

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "common/base/error.h"
#include "lessons/03_paged_blocks/block_table.h"
#include "program/walk.h"
#include "tests/support/naive_attention.h"
#include "tests/support/shipped_model.h"

namespace {

using lesson04::WalkStep;
constexpr int kHeads = 4, kKvHeads = 2, kHeadDim = 24, kBlockSize = 8;

/// Two sequences, of 3 tokens and of `len`; the pass has their last 2 rows each.
struct SmallPass {
  explicit SmallPass(int len) : lens{3, len} {
    std::mt19937_64 rng(static_cast<uint64_t>(len));
    const int blocks = lesson03::blocks_for(len, kBlockSize);
    const int pool = blocks + 2;
    const auto elements = static_cast<size_t>(pool * kBlockSize * kKvHeads * kHeadDim);
    k = kvtest::random_floats(rng, elements);
    v = kvtest::random_floats(rng, elements);
    q = kvtest::random_floats(rng, 4 * kHeads * kHeadDim);
    out.assign(q.size(), std::numeric_limits<float>::quiet_NaN());
    tables.assign(static_cast<size_t>(2 * blocks), -1);
    tables[0] = pool - 1;
    for (int b = 0; b < blocks; ++b) {  // backwards
      tables[static_cast<size_t>(blocks + b)] = blocks - 1 - b;
    }
    args.q = q.data();
    args.out = out.data();
    args.cache = {.k = k.data(),
                  .v = v.data(),
                  .num_blocks = pool,
                  .block_size = kBlockSize,
                  .block_stride = kBlockSize,
                  .num_kv_heads = kKvHeads,
                  .head_dim = kHeadDim};
    args.first_row = first_row.data();
    args.seq_len = lens.data();
    args.block_tables = tables.data();
    args.max_blocks_per_seq = blocks;
    args.num_seqs = args.max_rows_per_seq = 2;
    args.num_rows = 4;
    args.max_seq_len = len;
    args.num_heads = kHeads;
    lesson04::fast_paged_attention_cpu(args);
  }
  const float* out_of(int row, int head) const {
    return out.data() + (row * kHeads + head) * kHeadDim;
  }
  std::vector<int32_t> lens, tables, first_row{0, 2, 4};
  std::vector<float> k, v, q, out;
  lesson04::PagedAttentionArgs args;
};

}  // namespace

TEST_CASE("the last step of a walk has the bits of fast_paged_attention_cpu") {
  for (const int len : {2, 63, 64, 65, 256, 257, 320, 700}) {
    CAPTURE(len);
    const SmallPass pass(len);
    for (int row = 0; row < 4; ++row) {
      for (int head = 0; head < kHeads; ++head) {
        const std::vector<WalkStep> steps = lesson04::walk(pass.args, row, head);
        REQUIRE(!steps.empty());
        REQUIRE(steps.back().kind == WalkStep::Kind::kDivide);
        REQUIRE(steps.back().out.size() == kHeadDim);
        CHECK(std::memcmp(steps.back().out.data(), pass.out_of(row, head),
                          kHeadDim * sizeof(float)) == 0);
      }
    }
  }
}

TEST_CASE("a walk visits every tile once and merges in order") {
  const SmallPass pass(600);  // 10 tiles in 3 groups
  const std::vector<WalkStep> steps = lesson04::walk(pass.args, 3, 1);
  int tiles = 0, tile_merges = 0, group_merges = 0;
  for (const WalkStep& step : steps) {
    CHECK(step.num_tokens > 0);
    CHECK(step.block_ids.size() ==
          static_cast<size_t>(lesson03::blocks_for(step.num_tokens, kBlockSize)));
    CHECK(step.block_ids[0] == pass.tables[static_cast<size_t>(75 + step.first_token / 8)]);
    if (step.kind == WalkStep::Kind::kTile) {
      CHECK(step.tile == tiles);
      CHECK(step.first_token == 64 * tiles++);
      REQUIRE(step.scores.size() == static_cast<size_t>(step.num_tokens));
      REQUIRE(step.weights.size() == step.scores.size());
      float largest = -INFINITY, sum = 0.0f;
      for (const float score : step.scores) largest = std::max(largest, score);
      for (size_t t = 0; t < step.scores.size(); ++t) {
        CHECK(step.weights[t] == std::exp(step.scores[t] - largest));
        sum += step.weights[t];
      }
      CHECK(step.after.m == largest);
      CHECK(step.after.l == sum);
    }
    if (step.kind == WalkStep::Kind::kMergeTile) {
      CHECK(step.tile == tile_merges++);
      CHECK(step.before.acc.empty() == (step.tile % 4 == 0));
    }
    if (step.kind == WalkStep::Kind::kMergeGroup) {
      CHECK(step.group == group_merges++);
      CHECK(step.before.acc.empty() == (step.group == 0));
    }
    if (!step.before.acc.empty() && step.kind != WalkStep::Kind::kDivide) {
      CHECK(step.after.m == std::max(step.before.m, step.taken.m));
      const float before = std::exp(step.before.m - step.after.m);
      const float taken = std::exp(step.taken.m - step.after.m);
      CHECK(step.after.l == step.before.l * before + step.taken.l * taken);
    }
  }
  CHECK(tiles == 10);
  CHECK(tile_merges == 10);
  CHECK(group_merges == 3);
}

TEST_CASE("a row or a head that does not exist is refused") {
  const SmallPass pass(20);
  for (const auto& [row, head] : {std::pair{-1, 0}, {4, 0}, {0, -1}, {0, kHeads}}) {
    CHECK_THROWS_AS(lesson04::walk(pass.args, row, head), std::out_of_range);
  }
}

TEST_CASE("walk_prompt walks over a real model's layer in scattered blocks") {
  const kv::Request request = kvtest::request_of(150, 1);
  kv::Model& model = kvtest::shipped_model();
  const lesson04::ModelWalk walk = lesson04::walk_prompt(model, request.prompt, 16, 0, 3);
  CHECK(walk.block_table.size() == 10);
  CHECK(walk.block_table != std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  REQUIRE(walk.steps.size() == 3 + 3 + 1 + 1);
  // The same numbers wherever the blocks are and however large they are.
  const lesson04::ModelWalk other = lesson04::walk_prompt(model, request.prompt, 4, 0, 3);
  CHECK(other.steps.back().out == walk.steps.back().out);
  CHECK(lesson04::walk_prompt(model, request.prompt, 16, 0, 4).steps.back().out !=
        walk.steps.back().out);

  CHECK_THROWS_AS(lesson04::walk_prompt(model, {}, 16, 0, 0), kv::UserError);
  CHECK_THROWS_AS(lesson04::walk_prompt(model, request.prompt, 0, 0, 0), kv::UserError);
  CHECK_THROWS_AS(lesson04::walk_prompt(model, request.prompt, 3, 0, 0), kv::UserError);
  CHECK_THROWS_AS(lesson04::walk_prompt(model, request.prompt, 16, 99, 0), kv::UserError);
  CHECK_THROWS_AS(lesson04::walk_prompt(model, request.prompt, 16, 0, -1), kv::UserError);
}
