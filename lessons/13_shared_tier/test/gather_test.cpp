// Tests of gather_layer on the CPU.

#include "gathers.h"

using namespace lesson13_test;

namespace {

const kv::Stream kCpu(kv::Device::kCpu);

}  // namespace

TEST_CASE("gather_layer: all layers make the block as the host has it") {
  check_gathers({32, 32}, kCpu);
  check_gathers({65'536, 65'536}, kCpu);
  check_gathers({4'800, 4'800}, kCpu);
}

TEST_CASE("gather_layer: regions of different sizes") {
  check_gathers({8, 8, 16}, kCpu);
  check_gathers({16'384, 16'384, 256}, kCpu);
  check_gathers({1'200, 1'200, 32}, kCpu);
}

TEST_CASE("gather_layer: a block past 2^31 bytes is copied to where it belongs") {
  check_gathers_past_2_to_the_31(kCpu);
}

TEST_CASE("gather_layer refuses a layer or a block that is not there") {
  check_refused_gathers(kCpu);
}
