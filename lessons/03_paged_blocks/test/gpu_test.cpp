// Lesson 03 on a GPU: the kernels move every byte to the same place as their CPU twins.

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "common/base/device.h"
#include "engine.h"
#include "gather_kv.h"
#include "gathered_attention.h"
#include "guards.h"
#include "lessons/02_flat_cache/engine.h"
#include "tests/support/shipped_model.h"
#include "write_kv.h"

namespace {

using kvtest::request_of;

const kv::Stream& stream() {
  static const kv::Stream kStream(kv::Device::kCuda);
  return kStream;
}

std::vector<uint16_t> random_words(std::mt19937_64& rng, size_t n) {
  std::vector<uint16_t> words(n);
  for (uint16_t& word : words) word = static_cast<uint16_t>(rng());
  return words;
}

std::vector<uint16_t> to_host(const kv::DeviceBuffer& buffer) {
  std::vector<uint16_t> words(buffer.bytes() / 2);
  kv::copy_to_host(words.data(), buffer.data(), buffer.bytes(), stream());
  return words;
}

}  // namespace

TEST_CASE("rows go to their slots, and those of slot -1 nowhere: the whole cache is compared") {
  struct Shape {
    int kv_heads, head_dim, block_size;
  };
  for (const Shape shape :
       {Shape{8, 128, 16}, Shape{3, 8, 4}, Shape{1, 80, 1}, Shape{2, 64, 256}}) {
    CAPTURE(shape.block_size);
    std::mt19937_64 rng(7);
    constexpr int kBlocks = 9, kRows = 23;
    const auto width = static_cast<size_t>(shape.kv_heads * shape.head_dim);
    const auto num_slots = static_cast<size_t>(kBlocks * shape.block_size);
    std::vector<uint16_t> k = random_words(rng, num_slots * width),
                          v = random_words(rng, num_slots * width);
    const auto new_k = random_words(rng, kRows * width), new_v = random_words(rng, kRows * width);
    std::vector<int64_t> slots;  // distinct; every fourth is skipped
    for (size_t row = 0; row < kRows; ++row) {
      const size_t slot = (row * 5 + 3) % num_slots;
      slots.push_back(row % 4 == 0 || row >= num_slots ? lesson03::kNoSlot
                                                       : static_cast<int64_t>(slot));
    }
    const auto d_k = kv::to_device<uint16_t>(k, stream()),
               d_v = kv::to_device<uint16_t>(v, stream());
    const auto d_new_k = kv::to_device<uint16_t>(new_k, stream());
    const auto d_new_v = kv::to_device<uint16_t>(new_v, stream());
    const auto d_slots = kv::to_device<int64_t>(slots, stream());
    const lesson03::KvBlocks cache{.k = d_k.data(),
                                   .v = d_v.data(),
                                   .num_blocks = kBlocks,
                                   .block_size = shape.block_size,
                                   .block_stride = shape.block_size,
                                   .num_kv_heads = shape.kv_heads,
                                   .head_dim = shape.head_dim};
    lesson03::write_kv_cuda({.k = d_new_k.data(),
                             .v = d_new_v.data(),
                             .slot_mapping = d_slots.as<const int64_t>(),
                             .num_rows = kRows,
                             .cache = cache},
                            stream());
    for (size_t row = 0; row < kRows; ++row) {
      if (slots[row] < 0) continue;
      const auto to = static_cast<std::ptrdiff_t>(static_cast<size_t>(slots[row]) * width);
      const auto from = static_cast<std::ptrdiff_t>(row * width);
      std::copy_n(new_k.begin() + from, width, k.begin() + to);
      std::copy_n(new_v.begin() + from, width, v.begin() + to);
    }
    CHECK(to_host(d_k) == k);
    CHECK(to_host(d_v) == v);
#ifdef NDEBUG
    // A slot that the cache has not is none: a debug build rejects it.
    const std::vector<int64_t> outside{static_cast<int64_t>(num_slots), -2, int64_t{1} << 40};
    const auto d_outside = kv::to_device<int64_t>(outside, stream());
    lesson03::write_kv_cuda({.k = d_new_k.data(),
                             .v = d_new_v.data(),
                             .slot_mapping = d_outside.as<const int64_t>(),
                             .num_rows = static_cast<int>(outside.size()),
                             .cache = cache},
                            stream());
    CHECK(to_host(d_k) == k);
    CHECK(to_host(d_v) == v);
#endif

    // Two sequences over permuted blocks; entries after a sequence's last block are never read.
    const int len0 = shape.block_size * 2 + 1, len1 = shape.block_size;
    const std::vector<int32_t> tables{8, 0, 5, 3, -1, 1 << 30};
    const std::vector<int32_t> lens{len0, len1};
    const std::vector<int64_t> begin{len1, 0};
    const auto d_tables = kv::to_device<int32_t>(tables, stream());
    const auto d_lens = kv::to_device<int32_t>(lens, stream());
    const auto d_begin = kv::to_device<int64_t>(begin, stream());
    const kv::DeviceBuffer k_out(kv::Device::kCuda, static_cast<size_t>(len0 + len1) * width * 2);
    const kv::DeviceBuffer v_out(kv::Device::kCuda, k_out.bytes());
    kv::fill_bytes(k_out.data(), 0xFF, k_out.bytes(), stream());  // NaN
    kv::fill_bytes(v_out.data(), 0xFF, v_out.bytes(), stream());
    lesson03::gather_kv_cuda({.cache = cache,
                              .block_tables = d_tables.as<const int32_t>(),
                              .seq_len = d_lens.as<const int32_t>(),
                              .out_begin = d_begin.as<const int64_t>(),
                              .max_blocks_per_seq = 3,
                              .num_seqs = 2,
                              .max_seq_len = len0,
                              .k_out = k_out.data(),
                              .v_out = v_out.data()},
                             stream());
    std::vector<uint16_t> wanted_k, wanted_v;
    for (const size_t seq : {size_t{1}, size_t{0}}) {
      for (int t = 0; t < lens[seq]; ++t) {
        const int32_t id = tables[seq * 3 + static_cast<size_t>(t / shape.block_size)];
        const auto at = static_cast<std::ptrdiff_t>(
            static_cast<size_t>(id * shape.block_size + t % shape.block_size) * width);
        wanted_k.insert(wanted_k.end(), k.begin() + at,
                        k.begin() + at + static_cast<std::ptrdiff_t>(width));
        wanted_v.insert(wanted_v.end(), v.begin() + at,
                        v.begin() + at + static_cast<std::ptrdiff_t>(width));
      }
    }
    CHECK(to_host(k_out) == wanted_k);
    CHECK(to_host(v_out) == wanted_v);
  }
}

TEST_CASE("rows past 2^31 elements land where they belong") {
  // One layer of 2.2e9 elements: 4.4 GB each for K and V.
  constexpr int kKvHeads = 8, kHeadDim = 128, kBlockSize = 16, kBlocks = 134'500;
  constexpr size_t kWidth = kKvHeads * kHeadDim;
  const auto bytes = static_cast<size_t>(kBlocks) * kBlockSize * kWidth * 2;
  const kv::DeviceBuffer k(kv::Device::kCuda, bytes), v(kv::Device::kCuda, bytes);
  std::mt19937_64 rng(5);
  const auto new_k = random_words(rng, 2 * kWidth), new_v = random_words(rng, 2 * kWidth);
  const auto d_new_k = kv::to_device<uint16_t>(new_k, stream());
  const auto d_new_v = kv::to_device<uint16_t>(new_v, stream());
  const std::vector<int64_t> slots{int64_t{kBlocks - 1} * kBlockSize + 15, 3};
  const auto d_slots = kv::to_device<int64_t>(slots, stream());
  const lesson03::KvBlocks cache{.k = k.data(),
                                 .v = v.data(),
                                 .num_blocks = kBlocks,
                                 .block_size = kBlockSize,
                                 .block_stride = kBlockSize,
                                 .num_kv_heads = kKvHeads,
                                 .head_dim = kHeadDim};
  lesson03::write_kv_cuda({.k = d_new_k.data(),
                           .v = d_new_v.data(),
                           .slot_mapping = d_slots.as<const int64_t>(),
                           .num_rows = 2,
                           .cache = cache},
                          stream());
  const std::vector<int32_t> table{kBlocks - 1}, lens{16};
  const std::vector<int64_t> begin{0};
  const auto d_table = kv::to_device<int32_t>(table, stream());
  const auto d_lens = kv::to_device<int32_t>(lens, stream());
  const auto d_begin = kv::to_device<int64_t>(begin, stream());
  const kv::DeviceBuffer k_out(kv::Device::kCuda, 16 * kWidth * 2),
      v_out(kv::Device::kCuda, 16 * kWidth * 2);
  lesson03::gather_kv_cuda({.cache = cache,
                            .block_tables = d_table.as<const int32_t>(),
                            .seq_len = d_lens.as<const int32_t>(),
                            .out_begin = d_begin.as<const int64_t>(),
                            .max_blocks_per_seq = 1,
                            .num_seqs = 1,
                            .max_seq_len = 16,
                            .k_out = k_out.data(),
                            .v_out = v_out.data()},
                           stream());
  const auto last_row = [&](const kv::DeviceBuffer& gathered) {
    const std::vector<uint16_t> words = to_host(gathered);
    return std::vector<uint16_t>(words.end() - kWidth, words.end());
  };
  const auto third_row = [&](const kv::DeviceBuffer& all) {
    std::vector<uint16_t> words(kWidth);
    kv::copy_to_host(words.data(), all.as<uint16_t>() + 3 * kWidth, kWidth * 2, stream());
    return words;
  };
  const auto row = [&](const std::vector<uint16_t>& rows, size_t i) {
    const auto at = rows.begin() + static_cast<std::ptrdiff_t>(i * kWidth);
    return std::vector<uint16_t>(at, at + kWidth);
  };
  CHECK(last_row(k_out) == row(new_k, 0));
  CHECK(last_row(v_out) == row(new_v, 0));
  CHECK(third_row(k) == row(new_k, 1));
  CHECK(third_row(v) == row(new_v, 1));
}

TEST_CASE("in a debug pool the guards tell a kernel that is off by one row") {
  lesson03_test::check_write_and_gather_in_debug_pool(stream());
}

TEST_CASE("a model in a debug pool: the same logits, and no guard is touched") {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  lesson03_test::check_model_in_debug_pool<lesson03::GatheredAttention>(model);
}

TEST_CASE("the engine gives lesson 02's bits for any block size") {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  const std::vector<kv::Request> requests{request_of(4, 20), request_of(1, 5), request_of(300, 3)};
  const auto flat = lesson02::make_engine(model, {})->generate(requests);
  for (const int block_size : {1, 16, 256}) {
    CAPTURE(block_size);
    const auto paged = lesson03::make_engine(model, {.block_size = block_size})->generate(requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      CHECK(paged.completions[i].tokens == flat.completions[i].tokens);
      CHECK(paged.completions[i].logits_xxh64 == flat.completions[i].logits_xxh64);
    }
  }
}

TEST_CASE("attention never reads a row before it is gathered, however often it is tried") {
  // The kernel starts before its predecessors have ended. One step in a few hundred read the rows
  // of the layer before when it took all but the newest for old ones.
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  const std::vector<kv::Request> requests{request_of(4, 40), request_of(70, 40)};
  const auto flat = lesson02::make_engine(model, {})->generate(requests);
  const auto engine = lesson03::make_engine(model, {});
  for (int i = 0; i < 100; ++i) {
    CAPTURE(i);
    const auto gathered = engine->generate(requests);
    for (size_t r = 0; r < requests.size(); ++r) {
      REQUIRE(gathered.completions[r].logits_xxh64 == flat.completions[r].logits_xxh64);
    }
  }
}

TEST_CASE("what unused slots hold leaves no trace") {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  const std::vector<kv::Request> requests{request_of(4, 20), request_of(17, 5)};
  const auto flat = lesson02::make_engine(model, {})->generate(requests);
  for (const int byte : {0xFF, 0x7F, 0x00}) {  // NaN, huge, zero
    CAPTURE(byte);
    const auto engine = lesson03::make_engine(model, {});
    engine->generate(requests);
    dynamic_cast<lesson03::PagedEngine&>(*engine).cache()->fill(byte, model.stream());
    const auto poisoned = engine->generate(requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      CHECK(poisoned.completions[i].logits_xxh64 == flat.completions[i].logits_xxh64);
    }
  }
}
