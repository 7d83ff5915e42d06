#include "forgery.h"

#include <algorithm>
#include <bit>
#include <span>
#include <stdexcept>
#include <utility>

namespace lesson06 {
namespace {

// XXH64 reads 32 bytes at a time into four lanes of 64 bits. Of each 32 bytes a lane takes 8, two
// tokens:
//   lane = rotl(lane + input * kPrime2, 31) * kPrime1
// The parent's 8 bytes go to lane 0 and nowhere else. Lane 2 begins as 0, and takes tokens 2 and 3,
// then 10 and 11, and so on. Let two different beginnings leave it in states X and Y. Then last
// inputs u and v with (u - v) * kPrime2 = Y - X make the states equal again, and with them the
// hash.
constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87, kPrime2 = 0xC2B2AE3D27D4EB4F;
constexpr size_t kFirstToken = 2, kTokensPerStripe = 8;

/// The number whose product with `odd` is 1, modulo 2^64: each round doubles the right bits.
constexpr uint64_t inverse(uint64_t odd) {
  uint64_t x = odd;
  for (int i = 0; i < 6; ++i) x *= 2 - odd * x;
  return x;
}

/// Tokens of the lane but for its last two, and the state they lead to.
struct Beginning {
  uint64_t state = 0;  // divided by kPrime2: u - v = y.state - x.state
  uint32_t seed = 0;   // of the tokens
};

/// The tokens of a beginning: drawn again from its seed rather than kept (splitmix64).
void draw(uint32_t seed, std::span<int32_t> tokens, int32_t vocab) {
  uint64_t state = uint64_t{seed} << 32;
  for (int32_t& token : tokens) {
    uint64_t z = state += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    token = static_cast<int32_t>((z ^ z >> 31) % static_cast<uint64_t>(vocab));
  }
}

/// Millions of beginnings, sorted by the lower word of their states: those that nearly agree in it
/// lie side by side.
std::vector<Beginning> beginnings(size_t num_tokens, int32_t vocab) {
  constexpr uint32_t kCount = 4'000'000;
  const uint64_t divide = inverse(kPrime2);
  std::vector<int32_t> tokens(num_tokens);
  std::vector<Beginning> all(kCount);
  for (uint32_t i = 0; i < kCount; ++i) {
    draw(i + 1, tokens, vocab);
    uint64_t lane = 0;
    for (size_t t = 0; t < num_tokens; t += 2) {
      const uint64_t input =
          static_cast<uint64_t>(tokens[t + 1]) << 32 | static_cast<uint32_t>(tokens[t]);
      lane = std::rotl(lane + input * kPrime2, 31) * kPrime1;
    }
    all[i] = {.state = lane * divide, .seed = i + 1};
  }
  std::sort(all.begin(), all.end(), [](const Beginning& a, const Beginning& b) {
    return static_cast<uint32_t>(a.state) < static_cast<uint32_t>(b.state);
  });
  return all;
}

/// a and b in 0 .. vocab - 1 with a - b == difference modulo 2^32.
std::optional<std::pair<int32_t, int32_t>> ids_that_differ_by(uint32_t difference, int32_t vocab) {
  const auto d = static_cast<int32_t>(difference);
  if (d <= -vocab || d >= vocab) return std::nullopt;
  return d >= 0 ? std::pair(d, 0) : std::pair(0, -d);
}

/// The pair with these beginnings, if its last two tokens are legal ids.
std::optional<ForgedPair> pair_of(const Beginning& x, const Beginning& y, size_t num_tokens,
                                  int32_t vocab, size_t block_size) {
  const uint64_t wanted = y.state - x.state;  // u - v: two words, with the borrow of the lower one
  const auto low = ids_that_differ_by(static_cast<uint32_t>(wanted), vocab);
  if (!low) return std::nullopt;
  const uint64_t rest = wanted - static_cast<uint64_t>(int64_t{low->first} - low->second);
  const auto high = ids_that_differ_by(static_cast<uint32_t>(rest >> 32), vocab);
  if (!high) return std::nullopt;
  std::vector<int32_t> lane_x(num_tokens), lane_y(num_tokens);
  draw(x.seed, lane_x, vocab);
  draw(y.seed, lane_y, vocab);
  if (lane_x == lane_y) return std::nullopt;
  lane_x.insert(lane_x.end(), {low->first, high->first});
  lane_y.insert(lane_y.end(), {low->second, high->second});
  ForgedPair pair;
  for (size_t i = 0; i < block_size; ++i) {  // the other lanes: anything, the same for both
    pair.first.push_back(static_cast<int32_t>(i) % vocab);
  }
  pair.second = pair.first;
  for (size_t i = 0; i < lane_x.size(); ++i) {
    const size_t at = kFirstToken + i / 2 * kTokensPerStripe + i % 2;
    pair.first[at] = lane_x[i];
    pair.second[at] = lane_y[i];
  }
  return pair;
}

}  // namespace

std::optional<ForgedPair> forge_pair(int32_t vocab_size, int block_size) {
  if (block_size < 16)
    throw std::invalid_argument("forge_pair: wanted blocks of 16 tokens or more");
  const size_t size = block_size;
  const size_t stripes = (sizeof(uint64_t) + size * sizeof(int32_t)) / 32;
  const size_t num_tokens = 2 * (stripes - 1);
  const std::vector<Beginning> all = beginnings(num_tokens, vocab_size);
  for (size_t i = 0; i < all.size(); ++i) {
    // Of the neighbours that fit in the lower word, few fit in the upper one, too.
    for (size_t j = i + 1; j < all.size(); ++j) {
      const auto apart = static_cast<uint32_t>(all[j].state) - static_cast<uint32_t>(all[i].state);
      if (apart >= static_cast<uint32_t>(vocab_size)) break;
      if (auto pair = pair_of(all[i], all[j], num_tokens, vocab_size, size)) return pair;
    }
  }
  return std::nullopt;
}

}  // namespace lesson06
