// Tests of gather_layer on the CPU.

#include "gathers.h"

using namespace lesson13_test;

namespace {

const kv::Stream& stream() {
  static const kv::Stream kStream(kv::Device::kCpu);
  return kStream;
}

}  // namespace

TEST_CASE("gather_layer: all layers make the block as the host has it") {
  check_gathers(1, 8, 1, stream());
  check_gathers(8, 128, 16, stream());
  check_gathers(3, 80, 5, stream());
}

TEST_CASE("gather_layer: a layer of a block in FP8 has its scales") {
  check_gathers(1, 8, 1, stream(), kv::KvFormat::kFp8);
  check_gathers(8, 128, 16, stream(), kv::KvFormat::kFp8);
  check_gathers(3, 80, 5, stream(), kv::KvFormat::kFp8);
}

TEST_CASE("gather_layer refuses a layer or a block that is not there") {
  check_refused_gathers(stream());
}
