#pragma once

// Attention over FP8 pages against lesson 04's kernel over rows of the activation dtype that were
// rounded through e4m3, bit for bit. For any device.

#include "tests/support/readable.h"  // before the checks

#include <utility>
#include <vector>

#include "codes.h"
#include "fp8_attention.h"
#include "kernels/round_kv.h"
#include "lessons/04_paged_attention/test/attend.h"

namespace lesson14_test {

using kvtest::HeadShape;
using kvtest::Outputs;
using kvtest::Part;
using kvtest::Sequence;
using lesson04_test::Blocks;

/// The bytes of guards, scales among them, that were written to (lesson 03's guards.h).
inline int64_t num_touched(const Fp8KvCache& cache, const kv::Stream& stream) {
  int64_t touched = 0;
  for (const lesson05::Region& region : cache.regions().list()) {
    lesson03_test::for_each_guard(region.base, cache.num_blocks(), region.bytes,
                                  lesson03_test::count_touched(touched, stream));
  }
  return touched;
}

/// The kernel over FP8 pages with the content of the pass's blocks, and lesson 04's over the same
/// blocks, rounded. Slots without a token hold NaN, which is written as the largest number. Of
/// blocks.first_block blocks in front the kernel over pages alone knows.
inline void check_pages(const HeadShape& shape, const std::vector<Part>& parts, Blocks blocks,
                        kv::Kernel kernel, kv::Device device) {
  const kv::Stream stream(device);
  lesson04_test::Pass of_pages(shape, parts, blocks, device);
  const int64_t in_front = std::exchange(blocks.first_block, 0);
  lesson04_test::Pass pass(shape, parts, blocks, device);
  const auto lesson04s = lesson04_test::op_of(kernel);
  const Outputs exact = pass.run(lesson04s);  // and all uploads are complete
  const lesson03::KvBlocks native = pass.args.cache;
  const int num_rows = native.num_blocks * native.block_size;
  const Fp8KvCache cache(kvtest::shape(1, shape.num_kv_heads, shape.head_dim), stream,
                         native.num_blocks, native.block_size);
  fill_pages(cache, 0xFF, stream);
  std::vector<int64_t> slots(num_rows);
  for (int i = 0; i < num_rows; ++i) {
    const bool in_guard = blocks.guards && i / native.block_size % 2 == 0;
    slots[i] = in_guard ? lesson03::kNoSlot : i;
  }
  const auto d_slots = kvtest::upload(slots, stream);
  lesson14::write_kv_fp8({.k = native.k,
                          .v = native.v,
                          .slot_mapping = d_slots.as<const int64_t>(),
                          .num_rows = num_rows,
                          .cache = cache.layer(0)},
                         stream);
  kv::round_kv({{native.k, native.v}, num_rows, shape.num_kv_heads, shape.head_dim}, stream);
  stream.synchronize();
  const Outputs wanted = pass.run(lesson04s);
  Fp8Blocks pages = cache.layer(0);
  const int64_t absent = in_front * pages.block_size * pages.row_width();
  pages.k = kvtest::without_first(pages.k, absent);
  pages.v = kvtest::without_first(pages.v, absent);
  pages.scales -= in_front * pages.scale_stride();
  pages.num_blocks += static_cast<int>(in_front);
  of_pages.args.cache = pages;
  const auto attend =
      kernel == kv::Kernel::kPlain ? lesson14::fp8_attention : lesson14::fast_fp8_attention;
  const Outputs found = of_pages.run({[&](const auto& args, const kv::Stream& on) {
                                        attend({args, pages.scales}, on);
                                      },
                                      lesson04s.workspace_bytes});
  lesson04_test::check_bits(found, wanted);
  if (blocks.guards) CHECK(num_touched(cache, stream) == 0);
  CHECK(lesson04_test::first_difference(found[0], exact[0]) != "");  // FP8 changes the numbers
}

/// Blocks whose codes, and whose scales, lie past 2^31 bytes.
constexpr Blocks kFarPages{.first_block = 80'000'000};

/// Block sizes, debug pools, windows, head sizes and groupings; decodes, chunks and prefills in one
/// pass.
inline void check_all_pages(kv::Device device) {
  for (const kv::Kernel kernel : {kv::Kernel::kPlain, kv::Kernel::kFast}) {
    CAPTURE(static_cast<int>(kernel));
    for (const HeadShape shape :
         {HeadShape{4, 2, 128}, HeadShape{8, 2, 32}, HeadShape{3, 1, 80}, HeadShape{6, 2, 96},
          HeadShape{8, 4, device == kv::Device::kCpu ? 256 : 128}}) {
      CAPTURE(shape.head_dim);
      Sequence a(shape, 259, 1);
      const Sequence b(shape, 33, 2), c(shape, 64, 3), d(shape, 2, 4);
      for (size_t i = 0; i < a.v.size(); ++i) {  // scales of all sizes: a window of 1 shows each
        const auto token = static_cast<int>(i / shape.kv_width());
        a.v[i] = kv::to_bfloat16(std::ldexp(kv::to_float(a.v[i]), 15 - 2 * (token % 40)));
      }
      for (const int block_size : {1, 16, 256}) {
        CAPTURE(block_size);
        check_pages(shape, {{&a, 1}, {&b, 1}, {&c, 1}, {&d, 1}}, {.block_size = block_size}, kernel,
                    device);
        check_pages(shape, {{&c, 7}, {&a, 40}, {&b, 33}},
                    {.block_size = block_size, .guards = true}, kernel, device);
      }
      check_pages(shape, {{&a, 5}, {&c, 3}}, kFarPages, kernel, device);
      for (const int window : {1, 17, 64, 200}) {
        CAPTURE(window);
        check_pages(shape, {{&a, 40}, {&b, 1}}, {.window = window}, kernel, device);
        check_pages(shape, {{&a, 1}, {&b, 1}, {&c, 2}}, {.window = window}, kernel, device);
      }
    }
  }
}

}  // namespace lesson14_test
