// Random operations: two managers that differ in nothing but their hash must do the same, and every
// hit must hold what a symbolic model says.

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "block_manager.h"

namespace {

using lesson06::BlockManager;
using lesson06::Growth;
using Tokens = std::vector<int32_t>;

constexpr int kBlocks = 24, kBlockSize = 2;

/// A manager, and for each block the exact prefix whose K and V stand in it.
struct Checked {
  explicit Checked(lesson06::BlockHasher hasher)
      : manager(kBlocks, kBlockSize, std::move(hasher)), holds(kBlocks) {}
  BlockManager manager;
  std::vector<Tokens> holds;  // [num_blocks]: token 0 up to the block's end
};

struct Live {
  int seq = 0;
  Tokens tokens;
};

int64_t num_operations() {
  const char* const set = std::getenv("KV_RANDOM_OPS");
  return set ? std::atoll(set) / 20 : 500'000;
}

/// Few different tokens, so that prefixes meet often.
Tokens some_tokens(std::mt19937_64& rng) {
  Tokens tokens(1 + rng() % 12);
  for (int32_t& token : tokens) token = static_cast<int32_t>(rng() % 2);
  return tokens;
}

/// Blocks of the sequence that are found must hold its own prefix.
void check_hits(const Checked& c, int seq, const Tokens& tokens, int num_cached) {
  const auto ids = c.manager.table(seq).block_ids();
  for (int i = 0; i < num_cached / kBlockSize; ++i) {
    const auto end = static_cast<std::ptrdiff_t>((i + 1) * kBlockSize);
    REQUIRE(c.holds[static_cast<size_t>(ids[static_cast<size_t>(i)])] ==
            Tokens(tokens.begin(), tokens.begin() + end));
  }
}

/// The model of a pass: K and V of all slots are written.
void write(Checked& c, int seq, const Tokens& tokens) {
  const auto ids = c.manager.table(seq).block_ids();
  for (size_t i = 0; i < ids.size(); ++i) {
    const size_t end = std::min(tokens.size(), (i + 1) * static_cast<size_t>(kBlockSize));
    c.holds[static_cast<size_t>(ids[i])] =
        Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(end));
  }
  c.manager.publish(seq, tokens);
}

void compare(const Checked& a, const Checked& b) {
  REQUIRE(a.manager.sequences() == b.manager.sequences());
  for (const int seq : a.manager.sequences()) {
    const auto x = a.manager.table(seq).block_ids(), y = b.manager.table(seq).block_ids();
    REQUIRE(std::vector<int32_t>(x.begin(), x.end()) == std::vector<int32_t>(y.begin(), y.end()));
  }
}

void run(uint64_t seed, int64_t operations, int bits) {
  CAPTURE(seed);
  CAPTURE(bits);
  std::mt19937_64 rng(seed);
  Checked wide(lesson06::xxh64_block), narrow(lesson06::narrow_hasher(bits));
  std::vector<Live> live;
  const auto grow = [&](Live& sequence, int num_tokens) {
    const Growth growth{.seq = sequence.seq, .num_tokens = num_tokens};
    const bool done = wide.manager.extend({&growth, 1});
    REQUIRE(narrow.manager.extend({&growth, 1}) == done);
    if (!done) return false;
    for (Checked* c : {&wide, &narrow}) write(*c, sequence.seq, sequence.tokens);
    return true;
  };
  const auto end = [&](size_t i) {
    for (Checked* c : {&wide, &narrow}) c->manager.free_sequence(live[i].seq);
    live[i] = std::move(live.back());
    live.pop_back();
  };
  for (int64_t operation = 0; operation < operations; ++operation) {
    const auto kind = rng() % 4;
    if (kind == 0 || live.empty()) {
      Live sequence{.seq = 0, .tokens = some_tokens(rng)};
      const auto a = wide.manager.start(sequence.tokens), b = narrow.manager.start(sequence.tokens);
      REQUIRE(a.seq == b.seq);
      REQUIRE(a.num_cached_tokens == b.num_cached_tokens);
      sequence.seq = a.seq;
      check_hits(narrow, a.seq, sequence.tokens, a.num_cached_tokens);
      live.push_back(sequence);
      if (!grow(live.back(), static_cast<int>(sequence.tokens.size()) - a.num_cached_tokens)) {
        end(live.size() - 1);
      }
    } else if (const size_t i = rng() % live.size(); kind == 1) {
      live[i].tokens.push_back(static_cast<int32_t>(rng() % 2));
      if (!grow(live[i], 1)) live[i].tokens.pop_back();
    } else {
      end(i);
    }
    if (operation % 16 == 0) {
      wide.manager.check();
      narrow.manager.check();
      compare(wide, narrow);
    }
  }
}

}  // namespace

TEST_CASE("random operations: hits and blocks are the same under any hash") {
  for (const int bits : {0, 1, 3, 8})
    run(static_cast<uint64_t>(bits) + 1, num_operations() / 4, bits);
}

TEST_CASE("the test above sees the mistake of trusting a hash") {
  // The same operations, with the check switched off: a hit on a block that holds something else.
  std::mt19937_64 rng(1);
  Checked c(lesson06::narrow_hasher(3));
  c.manager = BlockManager(kBlocks, kBlockSize, lesson06::narrow_hasher(3),
                           lesson06::PrefixIndex::Check::kHashOnly);
  bool seen = false;
  for (int i = 0; i < 1000 && !seen; ++i) {
    const Tokens tokens = some_tokens(rng);
    const auto start = c.manager.start(tokens);
    const auto ids = c.manager.table(start.seq).block_ids();
    for (int b = 0; b < start.num_cached_tokens / kBlockSize; ++b) {
      seen |= c.holds[static_cast<size_t>(ids[static_cast<size_t>(b)])] !=
              Tokens(tokens.begin(), tokens.begin() + (b + 1) * kBlockSize);
    }
    const Growth growth{.seq = start.seq,
                        .num_tokens = static_cast<int>(tokens.size()) - start.num_cached_tokens};
    if (c.manager.extend({&growth, 1})) write(c, start.seq, tokens);
    c.manager.free_sequence(start.seq);
  }
  CHECK(seen);
}
