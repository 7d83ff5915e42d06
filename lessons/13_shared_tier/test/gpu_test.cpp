// Lesson 13 on a GPU: a gathered block has the bytes of the CPU, and blocks that travel between
// servers change no bit of an answer.

#include "gathers.h"
#include "lessons/03_paged_blocks/cli/fill_blocks.h"
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
  check_gathers(1, 8, 1, stream());
  check_gathers(8, 128, 16, stream());
  check_gathers(3, 80, 5, stream());
}

TEST_CASE("gather_layer takes more blocks than one launch carries" *
          doctest::test_suite("kernel")) {
  check_gathers(1, 8, 1, stream(), kv::KvFormat::kActivations, 600);
}

TEST_CASE("gather_layer: a layer of a block in FP8 has its scales" *
          doctest::test_suite("kernel")) {
  check_gathers(1, 16, 1, stream(), kv::KvFormat::kFp8);
  check_gathers(8, 128, 16, stream(), kv::KvFormat::kFp8);
  check_gathers(3, 80, 5, stream(), kv::KvFormat::kFp8);
}

TEST_CASE("gather_layer: a block past 2^31 bytes of the host is written where it belongs") {
  constexpr int kHost = 2'050;  // blocks of 1 MiB
  lesson13::PagedKvCache cache(kvtest::shape(1, 8, 128), stream(), 1, 256);
  const lesson13::HostBlocks host(cache.bytes_per_block(), kv::Device::kCuda, kHost);
  lesson03::fill_blocks(cache, 0x11, stream());
  const Moves moves{{0, kHost - 1}};
  lesson13::gather_layer({.cache = &cache, .host = &host, .layer = 0, .moves = moves}, stream());
  stream().synchronize();
  CHECK(all_are(host.block(kHost - 1), std::byte{0x11}));
}

TEST_CASE("gather_layer refuses a layer or a block that is not there") {
  check_refused_gathers(stream());
}

TEST_CASE("two servers, rounds, pools of any size: the same bits on CUDA") {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  check_servers(model, 16);
}
