// Lesson 12 on a GPU: the checksum of a block has the bits that the CPU gives it, and a restart
// changes no bit of an answer.

#include "checksums.h"
#include "restarts.h"

using namespace lesson12_test;

namespace {

const kv::Stream& stream() {
  static const kv::Stream kStream(kv::Device::kCuda);
  return kStream;
}

}  // namespace

TEST_CASE("checksum_blocks gives the checksum of the block's bytes in the host's order" *
          doctest::test_suite("kernel")) {
  check_checksums({16, 16}, stream());
  check_checksums({32'768, 32'768}, stream());
  check_checksums({2'400, 2'400}, stream());
}

TEST_CASE("checksum_blocks takes more blocks than one launch carries" *
          doctest::test_suite("kernel")) {
  check_checksums({16, 16}, stream(), 600);
}

TEST_CASE("a checksum covers regions of different sizes" * doctest::test_suite("kernel")) {
  check_checksums({16, 16, 16}, stream());
  check_checksums({16'384, 16'384, 256}, stream());
  check_checksums({1'200, 1'200, 32}, stream());
}

TEST_CASE("a byte of any region that changes on the device changes the checksum" *
          doctest::test_suite("kernel")) {
  check_damage(stream());
}

TEST_CASE("checksum_blocks refuses what it cannot sum up") { check_refusals(stream()); }

TEST_CASE("starts, rounds, pools of any size: the same bits on CUDA" *
          doctest::test_suite("sweep")) {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  check_starts(model, 16);
}
