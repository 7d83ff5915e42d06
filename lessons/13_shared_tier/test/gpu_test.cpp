// Lesson 13 on a GPU: a gathered block has the bytes of the CPU, and blocks that travel between
// servers change no bit of an answer.

#include "gathers.h"
#include "servers.h"

using namespace lesson13_test;

namespace {

const kv::Stream& stream() {
  static const kv::Stream kStream(kv::Device::kCuda);
  return kStream;
}

}  // namespace

TEST_CASE("gather_layer: all layers make the block as the host has it" *
          doctest::test_suite("kernel")) {
  check_gathers({16, 16}, stream());
  check_gathers({32'768, 32'768}, stream());
  check_gathers({2'400, 2'400}, stream());
}

TEST_CASE("gather_layer takes more blocks than one launch carries" *
          doctest::test_suite("kernel")) {
  check_gathers({16, 16}, stream(), 600);
}

TEST_CASE("gather_layer: regions of different sizes" * doctest::test_suite("kernel")) {
  check_gathers({16, 16, 16}, stream());
  check_gathers({16'384, 16'384, 256}, stream());
  check_gathers({1'200, 1'200, 32}, stream());
}

TEST_CASE("gather_layer: a block past 2^31 bytes is copied to where it belongs") {
  check_gathers_past_2_to_the_31(stream());
}

TEST_CASE("gather_layer refuses a layer or a block that is not there") {
  check_refused_gathers(stream());
}

TEST_CASE("two servers, rounds, pools of any size: the same bits on CUDA" *
          doctest::test_suite("sweep")) {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  check_servers(model, 16);
}
