// Passes whose new K and V go from the product's output straight into the slots of a cache: the
// bits of qk_norm_rope(), lesson 03's write_kv() and attention, one after the other.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/qk_norm_rope.h"
#include "lessons/04_paged_attention/paged_cache_attention.h"
#include "tests/support/device_arrays.h"

namespace {

constexpr int kRoom = 1024;  // tokens of a sequence, at most
constexpr int kBlockSize = 16;

/// One layer, its heads and how many keys a query sees.
kv::ModelConfig config_of(int num_heads, int num_kv_heads, int head_dim, int window = 0) {
  kv::ModelConfig config;
  config.num_layers = 1;
  config.num_heads = num_heads;
  config.num_kv_heads = num_kv_heads;
  config.head_dim = head_dim;
  config.windows = {window};
  return config;
}

/// Numbers that are the same in every cache; NaN would hide a difference.
void fill_randomly(void* k, void* v, int64_t elements, const kv::Stream& stream) {
  for (void* rows : {k, v}) {
    const auto values = kvtest::random_bf16(elements, rows == k ? 1 : 2);
    kv::copy_to_device(rows, values.data(), values.size() * sizeof(kv::BFloat16), stream);
  }
}

/// Lesson 04's: the sequences' blocks lie mixed.
struct Paged {
  Paged(const kv::ModelConfig& config, const std::vector<int>& lengths, const kv::Stream& stream)
      : cache(config, stream, kRoom / kBlockSize * static_cast<int>(lengths.size()), kBlockSize),
        attention(config, cache) {
    fill_randomly(k(), v(), elements(), stream);
    lesson03::BlockTables pointers;
    tables.reserve(lengths.size());
    for (size_t seq = 0; seq < lengths.size(); ++seq) {
      const auto num_seqs = static_cast<int32_t>(lengths.size());
      int32_t next = num_seqs * (kRoom / kBlockSize) + static_cast<int32_t>(seq);
      for (int32_t& id : tables.emplace_back(kBlockSize).extend(lengths[seq])) {
        next -= num_seqs;
        id = next;
      }
      pointers.push_back(&tables.back());
    }
    attention.set_tables(pointers);
  }
  void* k() { return cache.layer(0).k; }
  void* v() { return cache.layer(0).v; }
  int64_t elements() const { return cache.bytes_reserved() / 4; }

  lesson03::PagedKvCache cache;
  std::vector<lesson03::BlockTable> tables;
  lesson04::PagedCacheAttention attention;
};

/// The results of a step: the output, and all of the cache.
struct Left {
  std::vector<uint16_t> out, k, v;
  bool operator==(const Left&) const = default;
};

/// The last tokens of sequences: of sequence i of lengths[i] tokens rows[i % rows.size()], or as
/// many as it has.
class Step {
 public:
  Step(const kv::ModelConfig& config, const std::vector<int>& lengths, const std::vector<int>& rows,
       bool normed = true)
      : config_(config), normed_(normed), paged_(config, lengths, stream_), arrays_(stream_) {
    for (size_t seq = 0; seq < lengths.size(); ++seq) {
      const std::vector<int32_t> tokens(static_cast<size_t>(lengths[seq]), 1);
      rows_.add(seq, tokens, std::max(lengths[seq] - rows[seq % rows.size()], 0));
    }
    arrays_.begin(rows_);
    paged_.attention.begin_pass(rows_, arrays_);
    arrays_.upload();
    const int width = config.qkv_width();
    std::vector<float> qkv;
    for (const kv::BFloat16 x : kvtest::random_bf16(int64_t{rows_.num_rows()} * width, 3, 2.0f)) {
      qkv.push_back(kv::to_float(x) * 1.001f);  // more bits than bf16 has
    }
    made_ = kvtest::upload(qkv, stream_);
    qkv_ = kvtest::poisoned(made_.bytes(), stream_);
    spare_ = kvtest::poisoned(made_.bytes(), stream_);
    const auto dim = static_cast<size_t>(config.head_dim);
    q_norm_ = kvtest::upload(kvtest::floats_of(kvtest::random_bf16(config.head_dim, 4)), stream_);
    k_norm_ = kvtest::upload(kvtest::floats_of(kvtest::random_bf16(config.head_dim, 5)), stream_);
    std::vector<float> inv_freq(dim / 2);
    for (size_t i = 0; i < dim / 2; ++i) {
      inv_freq[i] = std::pow(1e4f, -2.0f * static_cast<float>(i) / static_cast<float>(dim));
    }
    inv_freq_ = kvtest::upload(inv_freq, stream_);
    const auto heads = static_cast<size_t>(rows_.num_rows() * config.q_width()) * 2;
    for (kv::DeviceBuffer* buffer : {&q_, &k_, &v_, &out_}) {
      *buffer = kvtest::poisoned(heads, stream_);
    }
    std::vector<int64_t> numbers(static_cast<size_t>(rows_.num_rows()));
    std::iota(numbers.begin(), numbers.end(), 0);
    row_ = kvtest::upload(numbers, stream_);
  }

  void into_slots() {
    make_qkv();
    const kv::AttentionRows rows = attention_rows();
    kv::qk_norm_rope(heads(paged_.attention.slots(rows, stream_)), stream_);
    paged_.attention.forward(rows, stream_);
  }
  void by_copy() {
    make_qkv();
    const kv::AttentionRows rows = attention_rows();
    kv::qk_norm_rope(heads({k_.data(), v_.data()}), stream_);
    lesson03::write_kv({.k = k_.data(),
                        .v = v_.data(),
                        .slot_mapping = paged_.attention.slots(rows, stream_).slot_mapping,
                        .num_rows = rows.num_rows,
                        .cache = paged_.cache.layer(0)},
                       stream_);
    paged_.attention.forward(rows, stream_);
  }

  Left left() {
    const auto words = [&](const void* from, int64_t n) {
      return kvtest::download<uint16_t>(from, static_cast<size_t>(n), stream_);
    };
    return {words(out_.data(), int64_t{rows_.num_rows()} * config_.q_width()),
            words(paged_.k(), paged_.elements()), words(paged_.v(), paged_.elements())};
  }

 private:
  /// The product's output, by a kernel that lets its successors start early.
  void make_qkv() {
    kv::fill_bytes(qkv_.data(), 0xFF, qkv_.bytes(), stream_);
    kv::fill_bytes(out_.data(), 0xFF, out_.bytes(), stream_);
    lesson03::write_kv({.k = made_.data(),
                        .v = made_.data(),
                        .slot_mapping = row_.as<const int64_t>(),
                        .num_rows = rows_.num_rows(),
                        .cache = {.k = qkv_.data(),
                                  .v = spare_.data(),
                                  .num_blocks = rows_.num_rows(),
                                  .block_size = 1,
                                  .num_kv_heads = 1,
                                  .head_dim = 2 * config_.qkv_width()}},
                       stream_);
  }
  kv::QkNormRopeArgs heads(const kv::KvSlots& slots) const {
    return {.qkv = qkv_.as<const float>(),
            .positions = arrays_.positions,
            .num_rows = rows_.num_rows(),
            .num_heads = config_.num_heads,
            .num_kv_heads = config_.num_kv_heads,
            .head_dim = config_.head_dim,
            .q_norm_weight = normed_ ? q_norm_.as<const float>() : nullptr,
            .k_norm_weight = normed_ ? k_norm_.as<const float>() : nullptr,
            .norm_eps = 1e-6f,
            .inv_freq = inv_freq_.as<const float>(),
            .q = q_.data(),
            .kv = slots};
  }
  kv::AttentionRows attention_rows() const {
    return {.window = config_.window_of(0),
            .num_rows = rows_.num_rows(),
            .q = q_.data(),
            .out = out_.data(),
            .num_seqs = rows_.num_seqs(),
            .positions = arrays_.positions,
            .first_row = arrays_.first_row,
            .seq_len = arrays_.seq_len};
  }

  const kv::ModelConfig config_;
  const bool normed_;
  const kv::Stream stream_{kv::Device::kCuda};
  Paged paged_;
  kv::PassRows rows_;
  kv::PassArrays arrays_;
  kv::DeviceBuffer made_, qkv_, spare_, q_norm_, k_norm_, inv_freq_, q_, k_, v_, out_, row_;
};

void check_step(const kv::ModelConfig& config, const std::vector<int>& lengths,
                const std::vector<int>& rows = {1}, int times = 1) {
  CAPTURE(config.num_heads);
  CAPTURE(config.head_dim);
  CAPTURE(lengths.size());
  CAPTURE(rows.front());
  for (const bool normed : {true, false}) {
    Step one(config, lengths, rows, normed), other(config, lengths, rows, normed);
    other.by_copy();
    const Left want = other.left();
    for (int i = 0; i < times; ++i) {
      one.into_slots();
      CHECK(one.left() == want);
    }
  }
}

}  // namespace

TEST_CASE("into slots: a few tokens" * doctest::test_suite("kernel")) {
  check_step(config_of(4, 2, 64), {1, 2, 65});
  check_step(config_of(2, 2, 32), {5, 20}, {3, 5});
}

TEST_CASE("into slots: every head size and grouping") {
  for (const int head_dim : {32, 64, 80, 96, 128}) {
    for (const int group : {1, 2, 5, 8, 16}) {
      check_step(config_of(2 * group, 2, head_dim), {40, 300}, {1, 2});
    }
  }
}

TEST_CASE("into slots: lengths around all boundaries") {
  check_step(config_of(4, 2, 128), {1, 63, 64, 65, 255, 256, 257, 512, 513, 1000});
  for (const int window : {1, 40, 257}) {
    check_step(config_of(4, 2, 128, window), {1, 64, 65, 256, 257, 700});
  }
}

TEST_CASE("into slots: several rows of a sequence, and many sequences") {
  check_step(config_of(16, 8, 128), {129, 700, 5, 256}, {5});
  check_step(config_of(16, 8, 64), std::vector<int>(40, 200), {1, 2});  // streams
}

TEST_CASE("into slots: the same bits however often it is tried" * doctest::test_suite("sweep")) {
  check_step(config_of(16, 8, 128), {129, 700, 1}, {1}, 50);
}

TEST_CASE("into slots: many rows, of which a warp takes several heads") {
  check_step(config_of(4, 2, 64), {100, 300}, {33, 40});
  for (const int rows : {255, 256, 257}) check_step(config_of(5, 1, 32), {300}, {rows});
  check_step(config_of(16, 8, 128), {300}, {300});
}

TEST_CASE("into slots: uneven rows") {
  check_step(config_of(4, 2, 64), {50, 50, 50, 50}, {9, 1, 1, 1});
}
