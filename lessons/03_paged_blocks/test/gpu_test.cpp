// Lesson 03 on a GPU: the kernels move every byte to the same place as their CPU twins.

#include <vector>

#include "engine.h"
#include "lessons/02_flat_cache/engine.h"
#include "paged_kv_cache.h"
#include "tests/support/same_bits.h"

constexpr auto kDevice = kv::Device::kCuda;
#include "kernel_cases.h"

namespace {

using kvtest::check_equal;
using kvtest::request_of;

const kv::Stream& stream() {
  static const kv::Stream kStream(kv::Device::kCuda);
  return kStream;
}

kv::Model& model() { return kvtest::shipped_model<kv::Device::kCuda>(); }

}  // namespace

TEST_CASE("a row is written whole, also one that is wider than a CTA" * kSmall) {
  lesson03::PagedKvCache pool = blocks_of_two(2, 24, 96, stream());
  const lesson03::KvBlocks cache = pool.layer(0);
  // An odd number of rows: so --races runs the CTAs of one row with different workers.
  write_rows(cache, numbered({10, 11, 12}, cache, stream()),
             numbered({110, 111, 112}, cache, stream()), {3, 0, 2}, stream());
  INFO("rows 10 11 12 of K, and 110 111 112 of V, go to slots 3 0 2");
  CHECK(held(cache.k, cache, stream()) == "11 . | 12 10");
  CHECK(held(cache.v, cache, stream()) == "111 . | 112 110");
}

TEST_CASE("rows are written after the kernel before has made them" * kSmall) {
  lesson03::PagedKvCache first = blocks_of_two(2, 2, 8, stream());
  lesson03::PagedKvCache second = blocks_of_two(2, 2, 8, stream());
  const lesson03::KvBlocks from = first.layer(0), to = second.layer(0);
  const auto rows = kvtest::upload(numbered({10, 11, 12}, from, stream()), stream());
  const auto slots = kvtest::upload(std::vector<int64_t>{1, 2, 0}, stream());
  start_write(from, rows.data(), rows.data(), slots.as<const int64_t>(), 3, stream());
  start_write(to, from.k, from.v, slots.as<const int64_t>(), 3, stream());
  INFO("rows 10 11 12 go to slots 1 2 0 of a cache, and what is there to slots 1 2 0 of another");
  const std::string k = held(to.k, to, stream()), v = held(to.v, to, stream());
  CHECK(k == "11 12 | 10 .");
  CHECK(v == "11 12 | 10 .");
}

TEST_CASE("slots are read after the kernel before has made them" * kSmall) {
  lesson03::PagedKvCache made = blocks_of_two(1, 1, 8, stream());
  lesson03::PagedKvCache pool = blocks_of_two(2, 2, 8, stream());
  const lesson03::KvBlocks slots = made.layer(0), cache = pool.layer(0);
  const auto wanted = kvtest::upload(std::vector<int64_t>{1, 2, 0, lesson03::kNoSlot}, stream());
  const auto in_order = kvtest::upload(std::vector<int64_t>{0, 1}, stream());
  const auto rows = kvtest::upload(numbered({10, 11, 12, 13}, cache, stream()), stream());
  start_write(slots, wanted.data(), wanted.data(), in_order.as<const int64_t>(), 2, stream());
  start_write(cache, rows.data(), rows.data(), static_cast<const int64_t*>(slots.k), 4, stream());
  INFO("a kernel writes the slots 1 2 0 -1, and the next one takes rows 10 11 12 13 there");
  const std::string k = held(cache.k, cache, stream()), v = held(cache.v, cache, stream());
  CHECK(k == "12 10 | 11 .");
  CHECK(v == "12 10 | 11 .");
}

TEST_CASE("rows are gathered after the kernel before has written them" * kSmall) {
  lesson03::PagedKvCache pool = blocks_of_two(2, 2, 8, stream());
  const lesson03::KvBlocks cache = pool.layer(0);
  const auto rows = kvtest::upload(numbered({10, 11, 12}, cache, stream()), stream());
  const auto slots = kvtest::upload(std::vector<int64_t>{2, 3, 0}, stream());
  const Gather gather(cache, {1, 0}, {3}, {0}, stream());
  start_write(cache, rows.data(), rows.data(), slots.as<const int64_t>(), 3, stream());
  gather.start(stream());
  INFO("rows 10 11 12 go to slots 2 3 0, and come back by the table 1 0");
  CHECK(drawn(words_of(gather.k, stream()), cache, 99, stream()) == "10 11 12");
  CHECK(drawn(words_of(gather.v, stream()), cache, 99, stream()) == "10 11 12");
}

TEST_CASE("attention reads gathered rows after they are gathered" * kSmall) {
  const kv::Stream& on = stream();
  lesson03::PagedKvCache pool = blocks_of_two(2, 1, 32, on);
  number_slots(pool.layer(0), on);
  const Gather gather(pool.layer(0), {1, 0}, {3}, {0}, on);
  const auto first_row = kvtest::upload(std::vector<int32_t>{0, 1}, on);
  const auto q = kvtest::poisoned(64, on, 0), out = kvtest::poisoned(64, on);
  gather.start(on);
  lesson02::fast_decode_attention({.q = q.data(),
                                   .k_cache = gather.k.data(),
                                   .v_cache = gather.v.data(),
                                   .out = out.data(),
                                   .first_row = first_row.as<const int32_t>(),
                                   .seq_len = gather.seq_len.as<const int32_t>(),
                                   .slab_begin = gather.begin.as<const int64_t>(),
                                   .num_seqs = 1,
                                   .num_rows = 1,
                                   .max_rows_per_seq = 1,
                                   .max_seq_len = 3,
                                   .num_heads = 1,
                                   .num_kv_heads = 1,
                                   .head_dim = 32},
                                  on);
  INFO("slot s holds 100 + s (V), the table is 1 0, and all three tokens weigh the same");
  CHECK(drawn(words_of(out, on), pool.layer(0), 99, on) ==
        "101.5");  // the mean of 102, 103 and 100 in bf16
}

TEST_CASE("a sequence of more words than the grid has threads is gathered whole") {
  // 17 MB of K, too much for races. The table is 0 1 2 0 1 2 ...: a second word is elsewhere.
  lesson03::PagedKvCache pool(kvtest::shape(1, 64, 128), stream(), 3, 16);
  const lesson03::KvBlocks cache = pool.layer(0);
  number_slots(cache, stream());
  std::vector<int32_t> tables(2 * 65);  // the second sequence has one token
  for (size_t i = 0; i < 65; ++i) tables[i] = static_cast<int32_t>(i % 3);
  const Gathered got = gather_rows(cache, tables, {1040, 1}, {0, 1040}, stream());
  const auto row = [&](size_t token) {
    const size_t width = width_of(cache, stream());
    const Words words(got.k.begin() + static_cast<std::ptrdiff_t>(token * width),
                      got.k.begin() + static_cast<std::ptrdiff_t>((token + 1) * width));
    return drawn(words, cache, 1, stream());
  };
  CHECK(row(0) == "0");
  CHECK(row(1023) == "15");
  CHECK(row(1024) == "16");
  CHECK(row(1039) == "31");
}

TEST_CASE("rows past 2^31 elements land where they belong") {
  // One layer of 2.2e9 elements: 4.4 GB each for K and V.
  constexpr int kBlockSize = 16, kBlocks = 134'500;
  lesson03::PagedKvCache cache(kvtest::shape(1, 8, 128), stream(), kBlocks, kBlockSize);
  const size_t width = width_of(cache.layer(0), stream());
  std::mt19937_64 rng(5);
  const auto k = random_words(rng, 2 * width);
  const auto v = random_words(rng, 2 * width);
  const std::vector<int64_t> slots{int64_t{kBlocks - 1} * kBlockSize + 15, 0};
  write_rows(cache.layer(0), k, v, slots, stream());
  // The last slot of all as the last of 16 tokens, then slot 0 as the only one.
  const auto got = gather_rows(cache.layer(0), {kBlocks - 1, 0}, {16, 1}, {0, 16}, stream());
  CHECK(std::ranges::equal(std::span(got.k).last(2 * width), k));
  CHECK(std::ranges::equal(std::span(got.v).last(2 * width), v));
}

TEST_CASE("a model in a debug pool: the same logits, and no guard is touched") {
  check_model_in_debug_pool<lesson03::GatheredAttention>(model());
}

TEST_CASE("the engine gives lesson 02's bits for any block size and content of unused slots" *
          doctest::test_suite("sweep")) {
  const std::vector<kv::Request> requests{request_of(4, 20), request_of(1, 5), request_of(300, 3)};
  const auto flat = lesson02::make_engine(model(), {})->generate(requests);
  for (const int block_size : {1, 16, 256}) {
    CAPTURE(block_size);
    lesson03::PagedEngine engine(model(), {.block_size = block_size});
    check_equal(engine.generate(requests), flat);
    for (const int byte : {0xFF, 0x7F, 0x00}) {  // NaN, huge, zero
      CAPTURE(byte);
      lesson03::fill_blocks(*engine.cache(), byte, model().stream());
      check_equal(engine.generate(requests), flat);
    }
  }
}

TEST_CASE("attention never reads a row before it is gathered, however often it is tried" *
          doctest::test_suite("sweep")) {
  // Without a barrier one run in some hundred read rows of the layer before, while other work ran
  // on the GPU.
  const std::vector<kv::Request> requests{request_of(4, 40), request_of(70, 40)};
  const auto flat = lesson02::make_engine(model(), {})->generate(requests);
  const auto engine = lesson03::make_engine(model(), {});
  for (int i = 0; i < 100; ++i) {
    CAPTURE(i);
    check_equal(engine->generate(requests), flat);
  }
}
