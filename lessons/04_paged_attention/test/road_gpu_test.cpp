// Every step of the road against attention in double precision over the same bf16 values.

#include "attend.h"
#include "lessons/04_paged_attention/road/road.h"

using namespace lesson04_test;
using lesson04::road::kSteps;
constexpr auto kCuda = kv::Device::kCuda;

namespace {

/// A decode step of sequences of these lengths, in a debug pool.
void check_steps(const HeadShape& shape, const std::vector<int>& lens, Blocks blocks,
                 size_t first_step = 0) {
  blocks.guards = true;
  const std::vector<Sequence> sequences = kvtest::sequences_of(shape, lens);
  const std::vector<Part> parts = kvtest::last_tokens_of(sequences, 1);
  // p is rounded to bf16 (by at most 2^-8 of itself) and so is the result; 2 % of that for fp32.
  constexpr kvtest::Tolerance kTolerance{1.02 * 0x1p-8, 1.02 * 0x1p-8};
  for (size_t i = first_step; i < kSteps.size(); ++i) {
    CAPTURE(shape.num_heads);
    CAPTURE(blocks.block_size);
    CAPTURE(kSteps[i].idea);
    const Outputs got =
        attend_by({kSteps[i].attend, kSteps[i].workspace_bytes}, kCuda, blocks)(shape, parts);
    for (size_t part = 0; part < parts.size(); ++part) {
      kvtest::check_close(got[part], kvtest::in_double(shape, parts[part], false),
                          kvtest::in_double(shape, parts[part], true), kTolerance);
    }
  }
}

}  // namespace

TEST_CASE(
    "every step is right for an uneven batch and for any number of heads that share K and V") {
  for (const int group : {1, 2, 4, 8}) {
    check_steps({2 * group, 2, 128}, {1, 15, 16, 17, 255, 256, 257, 4096}, {});
  }
}

TEST_CASE("every step is right for one sequence and for any block size") {
  for (const int block_size : {1, 8, 32, 256}) {
    check_steps({4, 2, 128}, {700}, {.block_size = block_size});
    check_steps({4, 2, 128}, {33, 1, 300}, {.block_size = block_size});
  }
}

TEST_CASE("every step from the partitions on is right when few long ones are enough") {
  // By the bound of the lengths there are 1,024 CTAs with partitions of 1,024 tokens.
  check_steps({4, 4, 128}, {1, 1023, 1024, 1025, 2500, 40, 64, 600}, {.seq_len_bound = 32 * 1024},
              2);
  check_steps({32, 4, 128}, {2100, 1030, 30}, {.seq_len_bound = 96 * 1024}, 2);
}

TEST_CASE("what a step does not do is refused") {
  const HeadShape shape{4, 2, 128};
  const Sequence s(shape, 40, 1);
  const kv::Stream stream(kCuda);
  lesson04::PagedAttentionArgs args = Pass(shape, {{&s, 1}}, {.seq_len_bound = 9000}, kCuda).args;
  CHECK_THROWS_AS(lesson04::road::shared_scores(args, stream), std::invalid_argument);
  args.num_heads = 6;
  CHECK_THROWS_AS(lesson04::road::grouped_heads(args, stream), std::invalid_argument);
  for (size_t i = 1; i < 6; ++i) {
    lesson04::PagedAttentionArgs other = args;
    other.cache.head_dim = 64;
    CHECK_THROWS_AS(kSteps[i].attend(other, stream), std::invalid_argument);
    other = args, other.max_rows_per_seq = 2;
    CHECK_THROWS_AS(kSteps[i].attend(other, stream), std::invalid_argument);
    other = args, other.num_heads = 18;
    CHECK_THROWS_AS(kSteps[i].attend(other, stream), std::invalid_argument);
  }
}
