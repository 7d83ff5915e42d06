// Tests of lesson 04's CPU kernels: they give lesson 01's bits for any blocks, batch, number of
// queries, bounds of the lengths and content of unused slots. Tests also of their pieces, the rows
// of a tile and the merge.

#include <sys/mman.h>
#include <unistd.h>

#include "common/device.h"

constexpr auto kDevice = kv::Device::kCpu;
#include "attention_cases.h"
#include "fast.h"
#include "tests/support/readable.h"

namespace {

using lesson04::Partial;

/// The slots in which find_paged_rows finds the rows of a sequence's tokens first .. first + n - 1:
/// tables 2 0 3 and 1 4 2^25, two KV heads of 8. Nothing is read there.
void check_rows_found(int seq, int kv_head, int first, int n, const std::vector<int>& slots,
                      int block_size = 4) {
  std::vector<int32_t> tables(6);
  std::vector<float> k(1), v = k;
  const lesson04::PagedAttentionArgs args{.cache = {.k = k.data(),
                                                    .v = v.data(),
                                                    .num_blocks = (1 << 25) + 1,
                                                    .block_size = block_size,
                                                    .num_kv_heads = 2,
                                                    .head_dim = 8},
                                          .block_tables = tables.data(),
                                          .max_blocks_per_seq = 3,
                                          .num_seqs = 2};
  kv::attention::TileRows rows{};
  lesson04::find_paged_rows(args, seq, kv_head, first, n, rows);
  tables.assign({2, 0, 3, 1, 4, 1 << 25});  // the next pass has other tables, in the same place
  lesson04::find_paged_rows(args, seq, kv_head, first, n, rows);
  const std::string table = seq == 0 ? "2 0 3" : "1 4 33554432";
  INFO("blocks of ", block_size, " slots, the table is ", table, ", KV head ", kv_head);
  INFO("the slots of tokens ", first, " to ", first + n - 1);
  const auto found = [&](const float* const* of, const std::vector<float>& in) {
    std::vector<int> in_slots;
    for (int i = 0; i < n; ++i) {
      const std::ptrdiff_t at = of[i] == nullptr ? -1001 : of[i] - in.data() - 8 * kv_head;
      CHECK_MESSAGE(at % 16 == 0, "a row does not begin where that head's does");
      in_slots.push_back(static_cast<int>(at / 16));
    }
    return in_slots;
  };
  CHECK(found(rows.k, k) == slots);
  CHECK(found(rows.v, v) == slots);
  INFO("no place after the last token's is written");
  CHECK(rows.k[n] == nullptr);
  CHECK(rows.v[n] == nullptr);
}

/// The partial result of keys with these scores, whose V are (10, 1), (20, 1), (30, 1), ...
Partial partial_of(const std::vector<float>& scores, int first = 0) {
  Partial partial{};
  for (size_t i = 0; i < scores.size(); ++i) {
    const float v[] = {10.0f * static_cast<float>(first + static_cast<int>(i) + 1), 1.0f};
    lesson04::merge(partial, scores[i], 1.0f, v, 2);
  }
  return partial;
}

void check_partial(const Partial& found, double m, double l, double acc0, double acc1) {
  CHECK(found.m == doctest::Approx(m));
  CHECK(found.l == doctest::Approx(l));
  CHECK(found.acc[0] == doctest::Approx(acc0));
  CHECK(found.acc[1] == doctest::Approx(acc1));
}

}  // namespace

TEST_CASE("the rows of a tile are found in the blocks of its table") {
  check_rows_found(0, 0, 0, 4, {8, 9, 10, 11});
  check_rows_found(0, 0, 3, 6, {11, 0, 1, 2, 3, 12});
  check_rows_found(0, 0, 0, 12, {8, 9, 10, 11, 0, 1, 2, 3, 12, 13, 14, 15});
}

TEST_CASE("a few rows of one block, another sequence and another KV head") {
  check_rows_found(0, 0, 5, 2, {1, 2});
  check_rows_found(1, 0, 2, 4, {6, 7, 16, 17});
  check_rows_found(1, 1, 6, 2, {18, 19});
  check_rows_found(0, 1, 11, 1, {15});
}

TEST_CASE("rows past 2^31 elements, and those of blocks of 8 and 128") {
  check_rows_found(1, 1, 11, 1, {(1 << 27) + 3});
  check_rows_found(0, 0, 7, 2, {23, 0}, /*block_size=*/8);
  check_rows_found(0, 0, 64, 2, {320, 321}, /*block_size=*/128);
}

TEST_CASE("merging into nothing gives the part itself") {
  for (const float m : {2.0f, 0.0f, -700.0f, 700.0f}) {
    CAPTURE(m);
    Partial sum{};
    const float acc[] = {30.0f, -3.0f, 99.0f};  // 99 is the next head's
    lesson04::merge(sum, m, 3.0f, acc, 2);
    check_partial(sum, m, 3.0, 30.0, -3.0);
    CHECK(sum.acc[2] == 0.0f);
  }
}

TEST_CASE("of two parts the one with the smaller score is shrunk") {
  const float first[] = {10.0f, 2.0f}, second[] = {100.0f, 40.0f};
  INFO("parts with m = 3 and m = 3 - log(4): the second one's l and acc count a quarter");
  Partial sum{};
  lesson04::merge(sum, 3.0f, 1.0f, first, 2);
  lesson04::merge(sum, 3.0f - std::log(4.0f), 2.0f, second, 2);
  check_partial(sum, 3.0, 1.0 + 0.5, 10.0 + 25.0, 2.0 + 10.0);

  INFO("and in the other order");
  Partial other{};
  lesson04::merge(other, 3.0f - std::log(4.0f), 2.0f, second, 2);
  lesson04::merge(other, 3.0f, 1.0f, first, 2);
  check_partial(other, 3.0, 0.5 + 1.0, 25.0 + 10.0, 10.0 + 2.0);

  INFO("and a third one with m = 3, which counts in full");
  lesson04::merge(other, 3.0f, 1.0f, first, 2);
  check_partial(other, 3.0, 1.5 + 1.0, 35.0 + 10.0, 12.0 + 2.0);
  const float large[] = {5e5f, 0.0f};  // of a fourth one a hundred-thousandth
  lesson04::merge(other, 3.0f - std::log(1e5f), 1.0f, large, 2);
  check_partial(other, 3.0, 2.5 + 1e-5, 45.0 + 5.0, 14.0);
}

TEST_CASE("scores of thousands neither overflow nor vanish") {
  const float first[] = {10.0f, 2.0f}, second[] = {100.0f, 40.0f};
  Partial sum{};
  lesson04::merge(sum, -5000.0f, 1.0f, first, 2);
  check_partial(sum, -5000.0, 1.0, 10.0, 2.0);
  lesson04::merge(sum, 5000.0f, 1.0f, second, 2);
  check_partial(sum, 5000.0, 1.0, 100.0, 40.0);
}

TEST_CASE("keys one by one, or in parts that are merged: the same attention") {
  const std::vector<float> scores{0.5f, 3.0f, -1.0f, 2.5f, 4.0f, 0.0f};
  const Partial all = partial_of(scores);
  for (std::ptrdiff_t cut = 1; cut < 6; ++cut) {
    CAPTURE(cut);
    Partial sum = partial_of({scores.begin(), scores.begin() + cut});
    const Partial rest = partial_of({scores.begin() + cut, scores.end()}, static_cast<int>(cut));
    lesson04::merge(sum, rest.m, rest.l, rest.acc, 2);
    check_partial(sum, all.m, all.l, all.acc[0], all.acc[1]);
  }
}

TEST_CASE("random shapes and blocks give the bits of lesson 01") {
  std::mt19937_64 rng(404);
  const auto below = [&](int n) { return static_cast<int>(rng() % static_cast<uint64_t>(n)); };
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    const int kv_heads = 1 + below(4);
    const HeadShape shape{kv_heads * (1 + below(5)), kv_heads, 1 + below(140)};
    const Sequence s(shape, 1 + below(600), rng());
    const std::vector<Part> parts{{&s, 1 + below(std::min(s.len, 12))}};
    const Blocks blocks{.block_size = 1 << below(9), .shuffle = rng(), .guards = below(2) == 1};
    check_bits(kFast.attend(blocks)(shape, parts), wanted(kFast, shape, parts));
  }
}

TEST_CASE("a context of zero tokens has no query and touches nothing") {
  const HeadShape shape{4, 2, 40};
  const Sequence empty(shape, 0, 1), full(shape, 20, 2);
  const std::vector<Part> parts{{&empty, 0}, {&full, 1}, {&empty, 0}};
  for (const Run& run : runs_on(kDevice))
    check_bits(run.attend()(shape, parts), wanted(run, shape, parts));
}

TEST_CASE("the bits of a query depend on its keys alone" * doctest::test_suite("sweep")) {
  for (const Run& run : runs_on(kDevice))
    kvtest::check_bits_of_a_query(run.attend(), /*chunks=*/true);
}

TEST_CASE("huge scores neither overflow nor lose the largest") {
  kvtest::check_extreme_scores(kPlain.attend());
}

TEST_CASE("a full table is read to its end, and not beyond") {
  // The table ends where a page does, and the next page cannot be read.
  const size_t page = sysconf(_SC_PAGESIZE);
  void* const memory =
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  REQUIRE(mprotect(static_cast<char*>(memory) + page, page, PROT_NONE) == 0);
  const HeadShape shape{2, 1, 64};
  for (const int len : {1, 3, 4, 8}) {
    const Sequence s(shape, len, 1);
    Pass pass(shape, {{&s, len}}, {.block_size = 4}, kDevice);
    const size_t n = lesson03::blocks_for(len, 4);
    const auto table = reinterpret_cast<int32_t*>(static_cast<char*>(memory) + page) - n;
    std::copy_n(pass.args.block_tables, n, table);
    pass.args.block_tables = table;
    pass.args.max_blocks_per_seq = static_cast<int>(n);
    for (const Run& run : runs_on(kDevice)) {
      check_bits(pass.run(op_of(run.kernel)), wanted(run, shape, {{&s, len}}));
    }
  }
  munmap(memory, 2 * page);
}
