// Tests of lesson 03's kernels on the device kDevice, which the including file names: the CPU in
// engine_test.cpp, CUDA in gpu_test.cpp.

#include "numbered_rows.h"

using namespace lesson03_test;

/// Cases of tenths of a second on the simulated GPU.
static const doctest::test_suite kSmall("kernel");

/// Four rows to three blocks of two slots.
TEST_CASE("four rows go to their slots, and slot -1 is nowhere" * kSmall) {
  const kv::Stream stream(kDevice);
  lesson03::PagedKvCache pool = blocks_of_two(3, 1, 8, stream);
  const lesson03::KvBlocks cache = pool.layer(0);
  write_rows(cache, numbered({10, 11, 12, 13}, cache, stream),
             numbered({110, 111, 112, 113}, cache, stream), {5, lesson03::kNoSlot, 1, 3}, stream);
  INFO("rows 10 11 12 13 of K, and 110 111 112 113 of V, go to slots 5 -1 1 3");
  const std::string k = held(cache.k, cache, stream), v = held(cache.v, cache, stream);
  CHECK(k == ". 12 | . 13 | . 10");
  CHECK(v == ". 112 | . 113 | . 110");
}

/// Blocks 1 and 2 of a pool of four, as a cache of two. What goes to a slot that it does not have
/// is seen in the others.
TEST_CASE("a row of a slot that the cache does not have goes nowhere" * kSmall) {
  const kv::Stream stream(kDevice);
  lesson03::PagedKvCache pool = blocks_of_two(4, 2, 8, stream);
  const lesson03::KvBlocks all = pool.layer(0);
  lesson03::KvBlocks cache = off_by(all, 2, 2, stream.device());
  cache.num_blocks = 2;
  std::vector<int64_t> slots{3, lesson03::kNoSlot};
#ifdef NDEBUG  // a debug build rejects a slot outside the cache
  slots.insert(slots.end(), {4, -2});
#endif
  const Words rows = numbered({10, 11, 12, 13}, cache, stream);
  write_rows(cache, rows, rows, slots, stream);
  INFO("rows 10 11 12 13 go to slots 3 -1 4 -2 of the two blocks in the middle, slots 0 to 3");
  const std::string k = held(all.k, all, stream), v = held(all.v, all, stream);
  CHECK(k == ". . | . . | . 10 | . .");
  CHECK(v == ". . | . . | . 10 | . .");
}

/// Two sequences come out of four blocks of two slots, the second one first.
TEST_CASE("two sequences come out of their blocks in order" * kSmall) {
  const kv::Stream stream(kDevice);
  lesson03::PagedKvCache pool = blocks_of_two(4, 2, 8, stream);
  const lesson03::KvBlocks cache = pool.layer(0);
  number_slots(cache, stream);
  // Entries after a sequence's last block must not be followed. Both tables are wider than the
  // longest sequence: a table that begins too early begins with block 3.
  const Gathered got = gather_rows(cache, {3, 0, 1, 3, 2, -1, 1 << 30, -1}, {5, 1}, {1, 0}, stream);
  INFO("slot s holds s (K) and 100 + s (V), a block has two slots");
  INFO("a table has 4 entries, and those after the last block are never read");
  INFO("sequence 0: table 3 0 1, 5 tokens, to row 1 and on; sequence 1: table 2, 1 token, row 0");
  const std::string k = drawn(got.k, cache, 99, stream), v = drawn(got.v, cache, 99, stream);
  CHECK(k == "4 6 7 0 1 2");
  CHECK(v == "104 106 107 100 101 102");
}

/// Rows go to their slots, those of slot -1 nowhere, and nothing else changes: the whole cache is
/// compared. Then two sequences come back out of permuted blocks, row by row.
TEST_CASE("rows go to their slots and come back, and those of slot -1 go nowhere" * kSmall) {
  const kv::Stream stream(kDevice);
  struct Shape {
    int kv_heads, head_dim, block_size;
  };
  for (const Shape shape :
       {Shape{8, 128, 16}, Shape{3, 8, 4}, Shape{1, 80, 1}, Shape{3, 64, 256}}) {
    CAPTURE(shape.block_size);
    std::mt19937_64 rng(7);
    constexpr int kBlocks = 9;
    constexpr size_t kRows = 23;
    lesson03::KvBlocks cache{.num_blocks = kBlocks,
                             .block_size = shape.block_size,
                             .num_kv_heads = shape.kv_heads,
                             .head_dim = shape.head_dim};
    const size_t width = width_of(cache, stream);
    const size_t num_slots = kBlocks * shape.block_size;
    Words k = random_words(rng, num_slots * width), v = random_words(rng, num_slots * width);
    const auto d_k = kvtest::upload(k, stream), d_v = kvtest::upload(v, stream);
    cache.k = d_k.data(), cache.v = d_v.data();
    const Words new_k = random_words(rng, kRows * width), new_v = random_words(rng, kRows * width);
    std::vector<int64_t> slots;  // distinct; every fourth row is skipped
    for (size_t row = 0; row < kRows; ++row) {
      const bool skipped = row % 4 == 0 || row >= num_slots;
      slots.push_back(skipped ? lesson03::kNoSlot
                              : static_cast<int64_t>((row * 5 + 3) % num_slots));
      if (skipped) continue;
      const auto from = static_cast<std::ptrdiff_t>(row * width);
      const auto to = slots.back() * static_cast<std::ptrdiff_t>(width);
      std::copy_n(new_k.begin() + from, width, k.begin() + to);
      std::copy_n(new_v.begin() + from, width, v.begin() + to);
    }
    write_rows(cache, new_k, new_v, slots, stream);
    CHECK(first_difference(words_of(d_k, stream), k, width) == "");
    CHECK(first_difference(words_of(d_v, stream), v, width) == "");
#ifdef NDEBUG  // a debug build rejects a slot outside the cache
    write_rows(cache, new_k, new_v, {static_cast<int64_t>(num_slots), -2, int64_t{1} << 40},
               stream);
    CHECK(first_difference(words_of(d_k, stream), k, width) == "");
    CHECK(first_difference(words_of(d_v, stream), v, width) == "");
#endif
    // Entries after a sequence's last block are never read.
    const int size = shape.block_size, len0 = 2 * size + 1, len1 = size;
    const std::vector<int32_t> tables{8, 0, 5, 3, -1, 1 << 30}, lens{len0, len1};
    const Gathered gathered = gather_rows(cache, tables, lens, {len1, 0}, stream);
    Words want_k, want_v;
    const auto expect = [&](int seq, int len) {
      for (int t = 0; t < len; ++t) {
        const int slot = tables[3 * seq + t / size] * size + t % size;
        const auto at = static_cast<std::ptrdiff_t>(width) * slot;
        want_k.insert(want_k.end(), k.begin() + at, k.begin() + at + static_cast<int>(width));
        want_v.insert(want_v.end(), v.begin() + at, v.begin() + at + static_cast<int>(width));
      }
    };
    expect(1, len1);
    expect(0, len0);
    CHECK(first_difference(gathered.k, want_k, width) == "");
    CHECK(first_difference(gathered.v, want_v, width) == "");
  }
}

TEST_CASE("slots of more than 31 bits are written" * kSmall) {
  const kv::Stream stream(kDevice);
  const FarBlock far(stream);
  const auto slots =
      kvtest::upload(std::vector<int64_t>{FarBlock::kSlot + 1, FarBlock::kSlot}, stream);
  start_write(far.cache, far.rows.data(), far.rows.data(), slots.as<const int64_t>(), 2, stream);
  INFO("rows 10 11 go to slots 2^31 + 1 and 2^31");
  CHECK(drawn(words_of(far.k, stream), far.cache, 2, stream) == "11 10");
  CHECK(drawn(words_of(far.v, stream), far.cache, 2, stream) == "11 10");
}

/// The third of three tables of 2^30 entries; no other has memory, or a token.
TEST_CASE("slots and table entries of more than 31 bits are gathered" * kSmall) {
  const kv::Stream stream(kDevice);
  const FarBlock far(stream);
  const auto table = kvtest::upload(std::vector<int32_t>{FarBlock::kId}, stream);
  const auto seq_len = kvtest::upload(std::vector<int32_t>{0, 0, 2}, stream);
  const auto begin = kvtest::upload(std::vector<int64_t>{0, 0, FarBlock::kSlot}, stream);
  const auto k = kvtest::poisoned(far.rows.bytes(), stream),
             v = kvtest::poisoned(k.bytes(), stream);
  const auto row_bytes = static_cast<int64_t>(k.bytes()) / 2;
  lesson03::KvBlocks cache = far.cache;
  cache.v = kvtest::without_first(far.rows.data(), FarBlock::kId * static_cast<int64_t>(k.bytes()));
  cache.k = cache.v;
  const void* const tables = kvtest::without_first(table.data(), int64_t{2} * FarBlock::kId * 4);
  lesson03::gather_kv({.cache = cache,
                       .block_tables = static_cast<const int32_t*>(tables),
                       .seq_len = seq_len.as<const int32_t>(),
                       .out_begin = begin.as<const int64_t>(),
                       .max_blocks_per_seq = FarBlock::kId,
                       .num_seqs = 3,
                       .max_seq_len = 2,
                       .k_out = kvtest::without_first(k.data(), FarBlock::kSlot * row_bytes),
                       .v_out = kvtest::without_first(v.data(), FarBlock::kSlot * row_bytes)},
                      stream);
  INFO("rows 10 11 come out of block 2^30, which is entry 2^31 of all tables, to row 2^31");
  CHECK(drawn(words_of(k, stream), cache, 2, stream) == "10 11");
  CHECK(drawn(words_of(v, stream), cache, 2, stream) == "10 11");
}

/// write_kv and gather_kv of whole blocks, the first and the last of the pool among them. The
/// guards stay as they are, and none of them is gathered. A kernel that is off by one row is found
/// by the guards.
TEST_CASE("in a debug pool the guards tell a kernel that is off by one row" * kSmall) {
  const kv::Stream stream(kDevice);
  constexpr int kBlocks = 5, kLayers = 2;
  constexpr uint16_t kGuard = 0xFFFF;
  for (const int block_size : {1, 4, 16}) {
    const std::vector<int32_t> table{between_guards(kBlocks - 1), between_guards(0)};
    std::vector<int64_t> slots;
    for (const int32_t id : table) {
      for (int i = 0; i < block_size; ++i) slots.push_back(int64_t{id} * block_size + i);
    }
    for (const Off off : kOffByOne) {
      CAPTURE(block_size);
      CAPTURE(off.k);
      CAPTURE(off.v);
      lesson03::PagedKvCache cache(kvtest::shape(kLayers, 3, 8), stream, with_guards(kBlocks),
                                   block_size);
      fill_blocks(cache, 0, stream);
      fill_guards(cache, stream);
      for (int layer = kLayers - 1; layer >= 0; --layer) {
        const auto blocks = off_by(cache.layer(layer), off.k, off.v, stream.device());
        const Gathered rows = gather_rows(blocks, table, {2 * block_size}, {0}, stream);
        const bool clean =
            std::ranges::count(rows.k, kGuard) == 0 && std::ranges::count(rows.v, kGuard) == 0;
        CHECK(clean == off.right());
        const Words ones(slots.size() * width_of(blocks, stream), 0x3F3F);
        write_rows(blocks, ones, ones, slots, stream);
        CHECK((num_touched(cache, stream) == 0) == off.right());
      }
    }
  }
}
