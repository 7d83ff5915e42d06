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
  check_checksums(1, 8, 1, stream());
  check_checksums(8, 128, 16, stream());
  check_checksums(3, 80, 5, stream());
}

TEST_CASE("checksum_blocks takes more blocks than one launch carries" *
          doctest::test_suite("kernel")) {
  check_checksums(1, 8, 1, stream(), kv::KvFormat::kActivations, 600);
}

TEST_CASE("a block in FP8 has a checksum over its codes and scales" *
          doctest::test_suite("kernel")) {
  check_checksums(1, 16, 1, stream(), kv::KvFormat::kFp8);
  check_checksums(8, 128, 16, stream(), kv::KvFormat::kFp8);
  check_checksums(3, 80, 5, stream(), kv::KvFormat::kFp8);
}

TEST_CASE("a byte of any piece that changes on the device changes the checksum" *
          doctest::test_suite("kernel")) {
  check_damage(stream());
}

TEST_CASE("checksum_blocks refuses what it cannot sum up") { check_refusals(stream()); }

TEST_CASE("starts, rounds, pools of any size: the same bits on CUDA") {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  check_starts(model, 16);
}
