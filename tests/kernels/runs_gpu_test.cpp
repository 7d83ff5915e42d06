// How a pass is cut into runs: every group is in one of them, and they are as short as they can be.

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "kernels/attention/contract.h"
#include "runs_kernel.h"
#include "tests/support/device_arrays.h"

namespace {

using kernels_test::PieceOfCta;
using kv::attention::kGroupTiles;
using kv::attention::kTileTokens;

int divide_up(int a, int b) { return (a + b - 1) / b; }
/// Tiles from the first group on of which the last token sees a key.
int tiles_of(int len, int window) {
  const int first_group = kv::attention::first_key(len - 1, window) / kv::attention::kGroupTokens;
  return divide_up(len, kTileTokens) - first_group * kGroupTiles;
}

/// The pieces of a pass of one query each, in order; a length of 0 is a place without a sequence.
std::vector<PieceOfCta> pieces_of(const std::vector<int>& lengths, int num_ctas, int window) {
  const kv::Stream stream(kv::Device::kCuda);
  std::vector<int32_t> first_row{0};
  int most = 1;
  for (const int len : lengths) {
    first_row.push_back(first_row.back() + (len > 0 ? 1 : 0));
    most += divide_up(len, kv::attention::kGroupTokens);
  }
  const auto rows = kv::to_device<int32_t>(first_row, stream);
  const auto lens = kv::to_device<int32_t>(lengths, stream);
  const kv::DeviceBuffer found(kv::Device::kCuda, sizeof(PieceOfCta) * static_cast<size_t>(most));
  const auto count = kv::to_device<int32_t>(std::vector<int32_t>{0}, stream);
  kernels_test::find_pieces({.first_row = rows.as<const int32_t>(),
                             .seq_len = lens.as<const int32_t>(),
                             .num_seqs = static_cast<int>(lengths.size()),
                             .num_heads = 8,
                             .num_kv_heads = 8,
                             .head_dim = 64,
                             .window = window},
                            num_ctas, found.as<PieceOfCta>(), count.as<int>(), stream);
  const auto num = static_cast<size_t>(kvtest::download<int>(count.data(), 1, stream)[0]);
  std::vector<PieceOfCta> pieces = kvtest::download<PieceOfCta>(found.data(), num, stream);
  std::ranges::sort(pieces, {}, [](const PieceOfCta& p) { return std::pair(p.seq, p.begin); });
  return pieces;
}

void check_runs(const std::vector<int>& lengths, int num_ctas, int window = 0) {
  CAPTURE(lengths.size());
  CAPTURE(num_ctas);
  CAPTURE(window);
  const std::vector<PieceOfCta> pieces = pieces_of(lengths, num_ctas, window);
  std::vector<int> tiles(static_cast<size_t>(num_ctas), 0);
  size_t at = 0;
  int cta = 0, all_tiles = 0, all_groups = 0;
  for (size_t seq = 0; seq < lengths.size(); ++seq) {
    const int tiles_here = tiles_of(lengths[seq], window);
    const int groups_here = divide_up(tiles_here, kGroupTiles);
    all_tiles += tiles_here;
    all_groups += groups_here;
    const size_t first = at;
    for (int group = 0; group < groups_here; group = pieces[at++].end) {
      REQUIRE(at < pieces.size());
      const PieceOfCta& piece = pieces[at];
      REQUIRE(piece.seq == static_cast<int>(seq));
      REQUIRE(piece.begin == group);
      REQUIRE(piece.end > group);
      CHECK(piece.cta >= cta);
      cta = piece.cta;
      tiles[static_cast<size_t>(cta)] +=
          std::min(piece.end * kGroupTiles, tiles_here) - piece.begin * kGroupTiles;
      CHECK(piece.first_groups == pieces[first].end);
    }
    for (size_t i = first; i < at; ++i) CHECK(pieces[i].num_pieces == static_cast<int>(at - first));
  }
  CHECK(at == pieces.size());
  // The shorter of the two ways to cut: by whole groups, or by tiles, and then a group's rest.
  const int by_groups = divide_up(all_groups, num_ctas) * kGroupTiles;
  const int by_tiles = std::max(kGroupTiles, divide_up(all_tiles, num_ctas)) + kGroupTiles - 1;
  CHECK(std::ranges::max(tiles) <= std::min(by_groups, by_tiles));
}

}  // namespace

TEST_CASE("runs: a few sequences, and none" * doctest::test_suite("kernel")) {
  for (const int num_ctas : {1, 3}) {
    check_runs({}, num_ctas);
    check_runs({0, 1, 0}, num_ctas);
    check_runs({64, 65, 256, 257, 1000}, num_ctas);
  }
}

TEST_CASE("runs: equal sequences, and many that end with a short group") {
  for (const int num_ctas : {1, 13, 132}) {
    check_runs(std::vector<int>(64, 4096), num_ctas);
    check_runs(std::vector<int>(256, 257), num_ctas);
    check_runs({133 * 256}, num_ctas);
  }
}

TEST_CASE("runs: random lengths") {
  std::mt19937 random(1);
  for (int i = 0; i < 40; ++i) {
    const auto below = [&](int end) {
      return static_cast<int>(random() % static_cast<unsigned>(end));
    };
    std::vector<int> lengths(static_cast<size_t>(below(300)));
    const int longest = 1 + below(3000);
    for (int& len : lengths) len = below(longest);
    check_runs(lengths, i % 2 == 0 ? 132 : 1 + below(140));
    check_runs(lengths, 132, 1 + below(longest));
  }
}
