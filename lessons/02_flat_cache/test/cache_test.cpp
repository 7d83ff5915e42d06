// Tests of lesson 02's structures: the flat cache and the arena.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/reservation_arena.h"
#include "common/error.h"
#include "flat_kv_cache.h"
#include "qwen3/known_models.h"
#include "tests/support/kv_shape.h"

namespace {

using lesson02::FlatKvCache;
using lesson02::kv_cache_bytes;
using lesson02::ReservationArena;
using lesson02::SlotRange;

/// A model shape with pairwise distinct, awkward numbers.
kv::ModelConfig small_config() {
  kv::ModelConfig config = kvtest::shape(3, 5, 7);
  config.num_heads = 10;
  return config;
}

FlatKvCache small_cache(int batch, int max_seq_len) {
  return FlatKvCache(small_config(), kv::Device::kCpu, batch, max_seq_len);
}

/// Appends the rows `values`, each filled with its value, to one slab, in every layer.
void append(FlatKvCache& cache, int slab, const std::vector<float>& values) {
  const int width = small_config().kv_width();
  std::vector<float> k, v;
  std::vector<int32_t> row_position;
  for (const float value : values) {
    k.insert(k.end(), width, value);
    v.insert(v.end(), width, -value);
    row_position.push_back(cache.position(slab) + static_cast<int>(row_position.size()));
  }
  const std::vector<int32_t> row_seq(values.size(), 0);  // a pass of one sequence
  const int64_t slab_begin = cache.slab_begin(slab);
  for (int layer = 0; layer < small_config().num_layers; ++layer) {
    lesson02::append_kv_cpu({.k = k.data(),
                             .v = v.data(),
                             .row_seq = row_seq.data(),
                             .row_position = row_position.data(),
                             .slab_begin = &slab_begin,
                             .num_rows = static_cast<int>(values.size()),
                             .row_elements = width,
                             .k_cache = cache.k_layer(layer),
                             .v_cache = cache.v_layer(layer)});
    for (float& value : k) value += 1000.0f;  // so that layers differ
    for (float& value : v) value -= 1000.0f;
  }
  cache.advance(slab, static_cast<int>(values.size()));
}

/// Whether the slab holds exactly these rows, in every layer, in K and in V.
bool holds(FlatKvCache& cache, int slab, const std::vector<float>& values) {
  if (cache.position(slab) != static_cast<int>(values.size())) return false;
  const int width = small_config().kv_width();
  for (int layer = 0; layer < small_config().num_layers; ++layer) {
    const float shift = 1000.0f * static_cast<float>(layer);
    const float* k = static_cast<float*>(cache.k_layer(layer)) + cache.slab_begin(slab) * width;
    const float* v = static_cast<float*>(cache.v_layer(layer)) + cache.slab_begin(slab) * width;
    for (size_t i = 0; i < values.size() * static_cast<size_t>(width); ++i) {
      const float wanted = values[i / static_cast<size_t>(width)] + shift;
      if (k[i] != wanted || v[i] != -wanted) return false;
    }
  }
  return true;
}

/// 2 x 3 layers x 5 KV heads x 7 elements x 4 bytes.
constexpr int64_t kTokenBytes = 840;

}  // namespace

TEST_CASE("the bytes of one token, and of many") {
  CHECK(kv_cache_bytes(small_config(), 1, 1, 4) == kTokenBytes);
  CHECK(kv_cache_bytes(small_config(), 6, 10, 4) == 60 * kTokenBytes);
  CHECK(kv_cache_bytes(small_config(), 6, 10, 2) == 30 * kTokenBytes);
}

TEST_CASE("a slab takes tokens up to its last slot") {
  FlatKvCache cache = small_cache(/*batch=*/2, /*max_seq_len=*/4);
  const auto check = [&](int of_slab_0, int of_slab_1) {
    CHECK(cache.position(0) == of_slab_0);
    CHECK(cache.position(1) == of_slab_1);
  };
  check(0, 0);
  cache.advance(1, 3);
  check(0, 3);
  cache.check_room(1, 1);  // only checks, and changes nothing
  cache.check_room(0, 4);
  check(0, 3);
  cache.advance(1, 1);
  cache.advance(0, 0);
  cache.check_room(1, 0);  // none more fit into a full slab, too
  check(0, 4);
}

TEST_CASE("what does not fit is refused with both numbers, and changes nothing") {
  FlatKvCache cache = small_cache(6, 100);
  cache.advance(5, 67);
  const auto refused = [&](int num_tokens, auto&& call) {
    INFO("slab 5 holds 67 tokens of 100, asked for ", num_tokens, " more");
    std::string message = "nothing was thrown";
    try {
      call(num_tokens);
    } catch (const kv::UserError& error) {
      message = error.what();
    }
    INFO("the error, which should name slab 5, 67 and 100: ", message);
    CHECK(message.find("5") != std::string::npos);
    CHECK(message.find("67") != std::string::npos);
    CHECK(message.find("100") != std::string::npos);
    CHECK(cache.position(5) == 67);
  };
  for (const int num_tokens : {34, 1000, 2147483647, -1}) {
    refused(num_tokens, [&](int n) { cache.check_room(5, n); });
    refused(num_tokens, [&](int n) { cache.advance(5, n); });
  }
  CHECK(cache.position(0) == 0);
}

TEST_CASE("bytes used are those of computed tokens") {
  FlatKvCache cache = small_cache(2, 8);
  CHECK(cache.bytes_used() == 0);
  cache.advance(0, 3);
  CHECK(cache.bytes_used() == 3 * kTokenBytes);
  cache.advance(1, 8);
  CHECK(cache.bytes_used() == 11 * kTokenBytes);
  cache.clear(0);
  CHECK(cache.bytes_used() == 8 * kTokenBytes);
  CHECK(cache.bytes_reserved() == 16 * kTokenBytes);
  constexpr int kMany = 2'600'000;  // their bytes are more than an int counts; none is touched
  FlatKvCache large = small_cache(1, kMany);
  large.advance(0, kMany);
  CHECK(large.bytes_used() == kMany * kTokenBytes);
}

TEST_CASE("every row of a long pass is appended, whichever thread takes it") {
  FlatKvCache cache = small_cache(2, 500);
  std::vector<float> rows(500);
  std::iota(rows.begin(), rows.end(), 1.0f);
  append(cache, 1, rows);
  INFO("500 rows: kv::parallel_for gives a thread rows begin to end - 1");
  CHECK(holds(cache, 1, rows));
}

TEST_CASE("the size formula gives the published figures") {
  const kv::ModelConfig& qwen = kv::known_model("Qwen3-0.6B").config;
  const kv::ModelConfig& llama2 = kv::known_model("Llama 2 7B").config;
  CHECK(kv_cache_bytes(qwen, 1, 1, 2) == 114'688);
  CHECK(kv_cache_bytes(qwen, 1, 1024, 2) == (112LL << 20));
  CHECK(kv_cache_bytes(kv::known_model("Llama 3 70B").config, 1, 1, 2) == (320 << 10));
  CHECK(kv_cache_bytes(llama2, 1, 1, 2) == (512 << 10));
  CHECK(kv_cache_bytes(llama2, 1, 4096, 2) == (2LL << 30));
  CHECK(kv_cache_bytes(llama2, 4, 4096, 2) == (8LL << 30));
  // More tokens than an int counts, one sequence of more bytes, and bytes that a float has not.
  CHECK(kv_cache_bytes(qwen, 1, 40'960, 2) == 40'960LL * 114'688);
  CHECK(kv_cache_bytes(qwen, 10'000'019, 4096, 2) == 10'000'019LL * 4096 * 114'688);
  // 1,024 + 512 + 200 + 512 of 4 x 1,024 slots: 45.1 % wasted, 202 of 448 MiB.
  const int64_t reserved = kv_cache_bytes(qwen, 4, 1024, 2);
  const int64_t used = kv_cache_bytes(qwen, 1, 1024 + 512 + 200 + 512, 2);
  CHECK(reserved == (448LL << 20));
  CHECK((reserved - used) / (1 << 20) == 202);
  CHECK(1000 * (reserved - used) / reserved == 451);
  CHECK(1000 * (2048 - 80) / 2048 == 960);  // 96.09 %: 80 tokens in a slab of 2,048
  CHECK(qwen.qkv_width() == 4096);
  CHECK(kv::known_model("Gemma 3 27B").config.qkv_width() == 8192);
  CHECK(kv::known_model("Llama 3 70B").config.qkv_width() == 10240);
  CHECK(llama2.qkv_width() == 12288);
}

TEST_CASE("the formula is what is allocated") {
  for (const int batch : {1, 2, 5}) {
    for (const int max_seq_len : {1, 15, 16, 17}) {
      const FlatKvCache cache = small_cache(batch, max_seq_len);
      CHECK(cache.bytes_reserved() == kv_cache_bytes(small_config(), batch, max_seq_len, 4));
      CHECK(cache.bytes_used() == 0);
    }
  }
}

TEST_CASE("an unknown slab is named and nothing changes") {
  FlatKvCache cache = small_cache(3, 8);
  cache.advance(2, 5);
  for (const int slab : {-1, 3, 2147483647}) {
    const std::string wanted = "no slab " + std::to_string(slab);
    const doctest::Contains naming_it(wanted.c_str());
    CHECK_THROWS_WITH_AS(static_cast<void>(cache.position(slab)), naming_it, std::out_of_range);
    CHECK_THROWS_WITH_AS(cache.check_room(slab, 1), naming_it, std::out_of_range);
    CHECK_THROWS_WITH_AS(cache.advance(slab, 0), naming_it, std::out_of_range);
    CHECK_THROWS_WITH_AS(cache.clear(slab), naming_it, std::out_of_range);
  }
  CHECK(cache.position(2) == 5);
  CHECK_THROWS_AS(small_cache(0, 8), std::invalid_argument);
  CHECK_THROWS_AS(small_cache(1, 0), std::invalid_argument);
  CHECK_THROWS_AS(small_cache(-1, -1), std::invalid_argument);
}

TEST_CASE("random appends and clears keep every slab as a simple model has it") {
  constexpr int kBatch = 5, kMax = 19;
  for (uint32_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    std::mt19937 rng(seed);
    FlatKvCache cache = small_cache(kBatch, kMax);
    std::vector<std::vector<float>> model(kBatch);
    float next = 1.0f;
    for (int step = 0; step < 60; ++step) {
      const auto slab = static_cast<int>(rng() % kBatch);
      std::vector<float>& rows = model[slab];
      const size_t wanted = rng() % 8;
      if (rng() % 10 == 0) {
        cache.clear(slab);
        rows.clear();
      } else if (rows.size() + wanted > kMax) {
        CHECK_THROWS_AS(cache.check_room(slab, static_cast<int>(wanted)), kv::UserError);
      } else {
        std::vector<float> values;
        for (size_t i = 0; i < wanted; ++i) values.push_back(next++);
        append(cache, slab, values);
        rows.insert(rows.end(), values.begin(), values.end());
      }
      int64_t tokens = 0;
      for (int i = 0; i < kBatch; ++i) {
        REQUIRE(holds(cache, i, model[i]));
        tokens += cache.position(i);
      }
      CHECK(cache.bytes_used() == kv_cache_bytes(small_config(), 1, tokens, 4));
    }
  }
}

TEST_CASE("free holes do not add up to room for a request") {
  ReservationArena arena(4096);
  std::vector<SlotRange> ranges;
  for (const int64_t size : {1024, 640, 1024, 512, 896}) ranges.push_back(*arena.reserve(size));
  CHECK(arena.total_free() == 0);
  CHECK(arena.largest_hole() == 0);
  CHECK_FALSE(arena.reserve(1).has_value());
  arena.release(ranges[1]);
  arena.release(ranges[3]);
  CHECK(arena.total_free() == 1152);
  CHECK(arena.largest_hole() == 640);
  CHECK_FALSE(arena.reserve(1024).has_value());  // although 1,152 slots are free
  CHECK(arena.total_free() == 1152);             // and nothing has changed
  CHECK(arena.reserve(640) == SlotRange{1024, 640});
  arena.release(ranges[2]);  // between a reserved range and a hole: the holes join
  CHECK(arena.holes() == std::vector<SlotRange>{{1664, 1536}});
}

TEST_CASE("equal reservations leave no external fragmentation") {
  ReservationArena arena(4096);
  std::mt19937 rng(1);
  std::vector<SlotRange> live;
  for (int step = 0; step < 500; ++step) {
    if (!live.empty() && rng() % 2 == 0) {
      std::swap(live[rng() % live.size()], live.back());
      arena.release(live.back());
      live.pop_back();
    }
    if (const auto range = arena.reserve(256))
      live.push_back(*range);
    else
      CHECK(arena.total_free() < 256);
  }
}

TEST_CASE("releasing what is not reserved is an error that names it") {
  ReservationArena arena(100);
  const SlotRange range = *arena.reserve(30);
  const auto check_refused = [&](SlotRange bad, const char* wanted) {
    CHECK_THROWS_WITH_AS(arena.release(bad), doctest::Contains(wanted), std::invalid_argument);
  };
  check_refused({0, 29}, "slots 0 to 28 are not reserved");
  check_refused({1, 29}, "slots 1 to 29 are not reserved");
  check_refused({30, 10}, "slots 30 to 39 are not reserved");
  CHECK(arena.total_free() == 70);
  arena.release(range);
  check_refused(range, "slots 0 to 29 are not reserved");  // twice
  CHECK(arena.total_free() == 100);
  CHECK_THROWS_AS(arena.reserve(0), std::invalid_argument);
  CHECK_THROWS_AS(arena.reserve(-5), std::invalid_argument);
  CHECK_THROWS_AS(ReservationArena(0), std::invalid_argument);
  CHECK_FALSE(arena.reserve(101).has_value());
}

TEST_CASE("random reservations agree with a map of single slots") {
  constexpr int64_t kCapacity = 97;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 rng(seed);
    ReservationArena arena(kCapacity);
    std::vector<bool> taken(kCapacity, false);
    std::vector<SlotRange> live;
    for (int step = 0; step < 60; ++step) {
      if (live.empty() || rng() % 3 != 0) {
        const int64_t size = 1 + static_cast<int64_t>(rng() % 30);
        const auto first = std::search_n(taken.begin(), taken.end(), size, false);
        const auto got = arena.reserve(size);
        REQUIRE(got.has_value() == (first != taken.end()));
        if (!got) continue;
        CHECK(*got == SlotRange{first - taken.begin(), size});  // the first that fits
        std::fill_n(first, size, true);
        live.push_back(*got);
      } else {
        std::swap(live[rng() % live.size()], live.back());
        arena.release(live.back());
        std::fill_n(taken.begin() + live.back().begin, live.back().size, false);
        live.pop_back();
      }
      CHECK(arena.total_free() == std::count(taken.begin(), taken.end(), false));
      int64_t tiled = 0, in_holes = 0;
      for (const SlotRange& range : arena.reserved()) tiled += range.size;
      for (const SlotRange& hole : arena.holes()) in_holes += hole.size;
      CHECK(tiled + in_holes == kCapacity);
      CHECK(in_holes == arena.total_free());
      const int64_t largest = arena.largest_hole();
      CHECK((largest == 0 ||
             std::search_n(taken.begin(), taken.end(), largest, false) != taken.end()));
      CHECK(std::search_n(taken.begin(), taken.end(), largest + 1, false) == taken.end());
    }
  }
}
