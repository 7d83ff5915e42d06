// Lesson 14 on a GPU: the writer, attention over its pages, and the engine.

#include "codes.h"
#include "pages.h"
#include "served_fp8.h"
#include "tiers.h"

using namespace lesson14_test;

namespace {

const kv::Stream& gpu() {
  static const kv::Stream stream(kv::Device::kCuda);
  return stream;
}

kv::Model& model_on_gpu() {
  static kv::Model model = [] {
    kv::Model loaded = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
    loaded.set_kv_format(kv::KvFormat::kFp8);
    return loaded;
  }();
  return model;
}

}  // namespace

TEST_CASE("each head of each row has the scale of its largest magnitude, at its own place" *
          doctest::test_suite("kernel")) {
  check_heads_and_slots(gpu());
}

TEST_CASE("the largest element of a head counts wherever it is, and a NaN does not" *
          doctest::test_suite("kernel")) {
  check_largest_of_head(gpu());
}

TEST_CASE("heads of zeros, tiny ones, infinities and NaN" * doctest::test_suite("kernel")) {
  check_extreme_heads(gpu());
}

TEST_CASE("rows are written after the kernel that rounds them" * doctest::test_suite("kernel")) {
  check_written_after(gpu());
}

TEST_CASE("a few scales with every bf16 value" * doctest::test_suite("kernel")) {
  check_all_values(gpu(), 31);
}

TEST_CASE("every bf16 value with every scale, written, decoded, and rounded") {
  check_all_values(gpu());
}

TEST_CASE("decodes and a chunk over FP8 pages: the bits of rounded rows") {
  const HeadShape shape{4, 2, 128};
  const Sequence a(shape, 75, 1), b(shape, 33, 2);
  for (const kv::Kernel kernel : {kv::Kernel::kPlain, kv::Kernel::kFast}) {
    check_pages(shape, {{&a, 1}, {&b, 1}, {&a, 33}}, {.block_size = 16}, kernel, kv::Device::kCuda);
    // Blocks of fewer than 16 tokens have the kernel for many queries.
    check_pages(shape, {{&a, 1}, {&b, 1}}, {.block_size = 4}, kernel, kv::Device::kCuda);
    check_pages(shape, {{&a, 1}, {&b, 5}}, {.window = 17}, kernel, kv::Device::kCuda);
  }
  const HeadShape odd{3, 1, 80};  // some lanes have no third element
  const Sequence c(odd, 32, 3);
  check_pages(odd, {{&c, 1}}, kFarPages, kv::Kernel::kPlain, kv::Device::kCuda);
}

TEST_CASE("many keys of any number of KV heads" * doctest::test_suite("kernel")) {
#ifdef KV_SIMT
  const std::vector<HeadShape> shapes{{4, 2, 128}, {3, 3, 64}};  // it has no runs
#else
  const std::vector<HeadShape> shapes{{4, 2, 128}, {8, 4, 128}, {16, 16, 128}, {9, 3, 128},
                                      {4, 2, 64},  {8, 4, 64},  {16, 8, 64},   {3, 3, 64},
                                      {16, 8, 80}, {8, 8, 96}};
#endif
  for (const HeadShape& shape : shapes) {
    CAPTURE(shape.head_dim);
    CAPTURE(shape.num_kv_heads);
    const Sequence a(shape, 600, 1), b(shape, 33, 2), c(shape, 300, 3);
    constexpr int kEnough = 6'000;  // as a bound: the plan expects much work, and streams
    check_pages(shape, {{&a, 1}, {&b, 1}, {&c, 1}, {&a, 1}}, {.seq_len_bound = kEnough},
                kv::Kernel::kFast, kv::Device::kCuda);
  }
}

#ifndef KV_SIMT
TEST_CASE("runs of a windowed layer, cut between a sequence's groups" *
          doctest::test_suite("kernel")) {
  for (const HeadShape& shape :
       {HeadShape{4, 2, 128}, HeadShape{8, 4, 64}, HeadShape{16, 8, 96}, HeadShape{16, 8, 128}}) {
    CAPTURE(shape.num_kv_heads);
    const Sequence a(shape, 560, 1), b(shape, 2'700, 2);
    std::vector<Part> parts(40, {&a, 1});
    for (size_t i = 0; i < parts.size(); i += 3) parts[i].sequence = &b;
    // Of 560 tokens 112 and 240 begin with a tile that begins no group; 2,100 are nine groups.
    for (const int window : {17, 112, 240, 2'100}) {
      CAPTURE(window);
      check_pages(shape, parts, {.window = window}, kv::Kernel::kFast, kv::Device::kCuda);
    }
  }
}
#endif

TEST_CASE("passes of many queries, with and without a window" * doctest::test_suite("kernel")) {
  for (const HeadShape& shape : {HeadShape{16, 2, 128}, HeadShape{8, 2, 64}, HeadShape{8, 1, 80}}) {
    CAPTURE(shape.head_dim);
    const Sequence a(shape, 259, 1), b(shape, 33, 2);
    for (const int window : {0, 64}) {
      CAPTURE(window);
      check_pages(shape, {{&a, 40}, {&b, 33}, {&a, 1}}, {.window = window}, kv::Kernel::kFast,
                  kv::Device::kCuda);
    }
  }
}

TEST_CASE("long prompts and chunks, in one or two warpgroups" * doctest::test_suite("sweep_gpu")) {
  for (const HeadShape& shape : {HeadShape{16, 8, 128}, HeadShape{4, 2, 64}, HeadShape{6, 2, 96}}) {
    CAPTURE(shape.head_dim);
    const Sequence a(shape, 1'500, 1), b(shape, 2'047, 2), c(shape, 700, 3);
    for (const int block_size : {16, 64, 256}) {
      CAPTURE(block_size);
      const Blocks blocks{.block_size = block_size};
      check_pages(shape, {{&a, 1'500}}, blocks, kv::Kernel::kFast, kv::Device::kCuda);
      check_pages(shape, {{&a, 700}, {&b, 1}, {&b, 2'047}, {&c, 1}, {&c, 65}}, blocks,
                  kv::Kernel::kFast, kv::Device::kCuda);
    }
  }
}

TEST_CASE("attention over FP8 pages has the bits of lesson 04's over rounded rows" *
          doctest::test_suite("kernel")) {
#ifdef KV_SIMT
  MESSAGE("skipped: minutes on a simulated GPU");
#else
  check_all_pages(kv::Device::kCuda);
#endif
}

TEST_CASE(
    "the engine over FP8 pages has the bits of a flat cache with rounded rows, fast and plain") {
  kv::Model& model = model_on_gpu();
  const auto requests = lesson08_test::mixed(4);
  for (const auto kernel : {kv::Kernel::kFast, kv::Kernel::kPlain}) {
    model.set_kernel(kernel);
    lesson14::Fp8Engine engine(model, {.block_size = 4, .num_blocks = 20},
                               {.scheduler = {.max_tokens_per_pass = 48, .max_chunk = 16}});
    kvtest::check_equal(engine.generate(requests), lesson08_test::flat(model, requests));
  }
}

TEST_CASE("pools, blocks, chunks, preemption, caching: FP8 pages have the bits of rounded rows" *
          doctest::test_suite("sweep")) {
  model_on_gpu().set_kernel(kv::Kernel::kFast);
  check_configurations(model_on_gpu(), 12);
}

TEST_CASE("blocks that go to the host and into a file come back with their scales" *
          doctest::test_suite("sweep_gpu")) {
  model_on_gpu().set_kernel(kv::Kernel::kFast);
  check_file(model_on_gpu(), 12);
}

TEST_CASE("blocks that go into a store come back with their scales, on another server" *
          doctest::test_suite("sweep_gpu")) {
  model_on_gpu().set_kernel(kv::Kernel::kFast);
  check_store(model_on_gpu(), 12);
}
