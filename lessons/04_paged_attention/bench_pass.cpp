#include "bench_pass.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "common/program/measure_gpu.h"
#include "lessons/03_paged_blocks/block_table.h"

namespace bench {
namespace {

constexpr size_t kTokenBytes = size_t{kKvHeads} * kHeadDim * sizeof(kv::BFloat16);  // of K or of V

}  // namespace

double bytes_of(const Case& c) {
  const int64_t tokens = std::accumulate(c.seq_lens.begin(), c.seq_lens.end(), int64_t{0});
  return 2.0 * static_cast<double>(tokens) * kTokenBytes;
}

DecodePass::DecodePass(const Case& c, uint64_t seed) : case_(c) {
  const size_t n = c.seq_lens.size();
  longest_ = *std::max_element(c.seq_lens.begin(), c.seq_lens.end());
  for (const int len : c.seq_lens) num_blocks_ += lesson03::blocks_for(len, c.block_size);
  max_blocks_ = lesson03::blocks_for(longest_, c.block_size);
  make_tables(seed);
  std::vector<int32_t> rows(n + 1);
  std::iota(rows.begin(), rows.end(), 0);
  first_row_ = kv::to_device<int32_t>(rows, stream_);
  seq_len_ = kv::to_device<int32_t>(c.seq_lens, stream_);
  const size_t q_bytes = n * static_cast<size_t>(c.num_heads) * kHeadDim * sizeof(kv::BFloat16);
  q_ = kv::DeviceBuffer(kv::Device::kCuda, q_bytes);
  out_ = kv::DeviceBuffer(kv::Device::kCuda, q_bytes);
  auto next_seed = static_cast<uint32_t>(seed);
  kv::fill_random(q_, next_seed++, stream_);
  const size_t bytes = static_cast<size_t>(num_blocks_ * c.block_size) * kTokenBytes;
  for (int i = 0; i < kv::rotation_for(bytes_of(c)); ++i) {
    for (auto* buffers : {&k_, &v_}) {
      buffers->emplace_back(kv::Device::kCuda, bytes);
      kv::fill_random(buffers->back(), next_seed++, stream_);
    }
  }
}

void DecodePass::make_tables(uint64_t seed) {
  std::vector<int32_t> ids(static_cast<size_t>(num_blocks_));
  std::iota(ids.begin(), ids.end(), 0);
  std::shuffle(ids.begin(), ids.end(), std::mt19937_64(seed));
  std::vector<int32_t> tables(case_.seq_lens.size() * static_cast<size_t>(max_blocks_), -1);
  auto id = ids.begin();
  auto row = tables.begin();
  for (const int len : case_.seq_lens) {
    const int blocks = lesson03::blocks_for(len, case_.block_size);
    std::copy_n(id, blocks, row);
    id += blocks;
    row += max_blocks_;
  }
  tables_ = kv::to_device<int32_t>(tables, stream_);
}

lesson04::PagedAttentionArgs DecodePass::args(int copy) const {
  const auto i = static_cast<size_t>(copy);
  const auto n = static_cast<int>(case_.seq_lens.size());
  return {.q = q_.data(),
          .out = out_.data(),
          .cache = {.k = k_[i].data(),
                    .v = v_[i].data(),
                    .num_blocks = num_blocks_,
                    .block_size = case_.block_size,
                    .block_stride = case_.block_size,
                    .num_kv_heads = kKvHeads,
                    .head_dim = kHeadDim},
          .first_row = first_row_.as<const int32_t>(),
          .seq_len = seq_len_.as<const int32_t>(),
          .block_tables = tables_.as<const int32_t>(),
          .max_blocks_per_seq = max_blocks_,
          .num_seqs = n,
          .num_rows = n,
          .max_rows_per_seq = 1,
          .max_seq_len = longest_,
          .num_heads = case_.num_heads};
}

double DecodePass::read_seconds() const {
  std::vector<std::vector<const kv::DeviceBuffer*>> copies;
  for (size_t i = 0; i < k_.size(); ++i) copies.push_back({&k_[i], &v_[i]});
  return kv::read_seconds(stream_, copies);
}

}  // namespace bench
