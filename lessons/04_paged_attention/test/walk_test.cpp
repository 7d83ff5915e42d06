// Tests of the walk: its pieces, put together, are paged attention to the bit.

#include "cli/walk.h"
#include "attend.h"
#include "common/error.h"
#include "kernels/exp.h"
#include "tests/support/shipped_model.h"

namespace {

using lesson04::WalkStep;
constexpr int kBlockSize = 8;
constexpr kvtest::HeadShape kShape{4, 2, 24};

/// Two sequences, of 3 tokens and of `len`; the pass has their last 2 rows each.
struct SmallPass {
  explicit SmallPass(int len)
      : a(kShape, 3, 1),
        b(kShape, len, 2),
        pass(kShape, {{&a, 2}, {&b, 2}}, {.block_size = kBlockSize}, kv::Device::kCpu) {}
  kvtest::Sequence a, b;
  lesson04_test::Pass pass;
};

}  // namespace

TEST_CASE("the last step of a walk has the bits of fast_paged_attention_cpu") {
  for (const int len : {2, 63, 64, 65, 256, 257, 320, 700}) {
    CAPTURE(len);
    SmallPass small(len);
    const auto outputs = small.pass.run(lesson04_test::op_of(kv::Kernel::kFast));
    for (int row = 0; row < 4; ++row) {
      std::vector<float> out;
      for (int head = 0; head < kShape.num_heads; ++head) {
        const std::vector<WalkStep> steps = lesson04::walk(small.pass.args, row, head);
        REQUIRE(!steps.empty());
        REQUIRE(steps.back().kind == WalkStep::Kind::kDivide);
        out.insert(out.end(), steps.back().out.begin(), steps.back().out.end());
      }
      const auto& of_sequence = outputs[row / 2];
      const auto at = of_sequence.begin() + row % 2 * static_cast<std::ptrdiff_t>(out.size());
      CHECK(kvtest::same_bits(out, {at, at + static_cast<std::ptrdiff_t>(out.size())}));
    }
  }
}

TEST_CASE("a walk visits every tile once, and its steps are those of the contract") {
  const SmallPass small(600);  // 10 tiles in 3 groups
  const lesson04::PagedAttentionArgs& args = small.pass.args;
  const std::vector<WalkStep> steps = lesson04::walk(args, 3, 1);
  int tiles = 0, groups = 0, moves = 0;
  for (const WalkStep& step : steps) {
    CHECK(step.num_tokens > 0);
    CHECK(step.block_ids.size() ==
          static_cast<size_t>(lesson03::blocks_for(step.num_tokens, kBlockSize)));
    CHECK(step.block_ids[0] == args.block_tables[args.max_blocks_per_seq + step.first_token / 8]);
    const float shrink = step.before.acc.empty() ? 0 : kv::exp_of(step.before.m - step.after.m);
    if (step.kind == WalkStep::Kind::kTile) {
      CHECK(step.tile == tiles);
      CHECK(step.first_token == 64 * tiles++);
      CHECK(step.before.acc.empty() == (step.tile % 4 == 0));
      REQUIRE(std::ssize(step.scores) == step.num_tokens);
      REQUIRE(step.weights.size() == step.scores.size());
      const float largest = std::ranges::max(step.scores);
      const bool is_far = largest > step.before.m + std::log(256.0f);
      CHECK(step.m_moves() == (!step.before.acc.empty() && is_far));
      CHECK(step.after.m == (step.before.acc.empty() || is_far ? largest : step.before.m));
      float sum = step.before.l * shrink;
      for (size_t t = 0; t < step.scores.size(); ++t) {
        CHECK(step.weights[t] == kv::exp_of(step.scores[t] - step.after.m));
        sum += step.weights[t];
      }
      CHECK(step.after.l == sum);
      moves += step.m_moves();
    }
    if (step.kind == WalkStep::Kind::kGroup) {
      CHECK(step.group == groups++);
      CHECK(step.before.acc.empty() == (step.group == 0));
      if (step.group == 0) continue;
      CHECK(step.after.m == std::max(step.before.m, step.taken.m));
      const float taken = kv::exp_of(step.taken.m - step.after.m);
      CHECK(step.after.l == step.before.l * shrink + step.taken.l * taken);
    }
  }
  CHECK(tiles == 10);
  CHECK(groups == 3);
  CHECK(moves > 0);
}

TEST_CASE("a row or a head that does not exist is refused") {
  const SmallPass small(20);
  for (const auto& [row, head] : {std::pair{-1, 0}, {4, 0}, {0, -1}, {0, kShape.num_heads}}) {
    CHECK_THROWS_AS(lesson04::walk(small.pass.args, row, head), std::out_of_range);
  }
}

TEST_CASE("walk_prompt walks over a real model's layer in scattered blocks") {
  const kv::Request request = kvtest::request_of(150, 1);
  kv::Model& model = kvtest::shipped_model();
  const lesson04::ModelWalk walk = lesson04::walk_prompt(model, request.prompt, 16, 0, 3);
  CHECK(walk.block_table.size() == 10);
  CHECK(walk.block_table != std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  REQUIRE(walk.steps.size() == 3 + 1 + 1);
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
