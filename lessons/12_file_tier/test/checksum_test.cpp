// The checksum of a block is the same on the device, in the host's memory and in a record. Any
// change of a word changes it.

#include "checksums.h"

using namespace lesson12_test;

namespace {

const kv::Stream kCpu(kv::Device::kCpu);

}  // namespace

TEST_CASE("checksum_blocks gives the checksum of the block's bytes in the host's order") {
  check_checksums({8, 8}, kCpu);
  check_checksums({1024, 1024}, kCpu);
  check_checksums({72, 72}, kCpu);
}

TEST_CASE("a checksum covers regions of different sizes") {
  check_checksums({8, 8, 16}, kCpu);
  check_checksums({256, 256, 64}, kCpu);
  check_checksums({24, 24, 16}, kCpu);
}

TEST_CASE("a byte of any region that changes on the device changes the checksum") {
  check_damage(kCpu);
}

TEST_CASE("a checksum as it was computed by hand") {
  const std::vector<uint64_t> words{0, 1, ~uint64_t{0}};
  CHECK(lesson12::checksum_of(std::as_bytes(std::span(words))) ==
        lesson12::mixed(0, 0) + lesson12::mixed(1, 1) + lesson12::mixed(~uint64_t{0}, 2));
  CHECK(lesson12::mixed(0, 0) == 0xE220A8397B1DCDAF);  // splitmix64's first number
  CHECK(lesson12::checksum_of({}) == 0);
}

TEST_CASE("every bit of a word, and the place of every word, counts") {
  std::vector<uint64_t> words(40);
  std::iota(words.begin(), words.end(), 1);
  const auto sum = [&] { return lesson12::checksum_of(std::as_bytes(std::span(words))); };
  const uint64_t first = sum();
  for (uint64_t& word : words) {
    for (int bit = 0; bit < 64; ++bit) {
      word ^= uint64_t{1} << bit;
      REQUIRE(sum() != first);
      word ^= uint64_t{1} << bit;
    }
  }
  for (size_t i = 1; i < words.size(); ++i) {
    std::swap(words[i - 1], words[i]);
    REQUIRE(sum() != first);
    std::swap(words[i - 1], words[i]);
  }
  CHECK(sum() == first);
}

TEST_CASE("checksum_blocks refuses what it cannot sum up") { check_refusals(kCpu); }
