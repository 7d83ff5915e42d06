#include "pass.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "common/dtype.h"
#include "kernels/attention/contract.h"
#include "lessons/03_paged_blocks/block_table.h"
#include "programs/bench.h"
#if KV_HAVE_CUDA
#include "programs/measure_gpu.h"
#endif

namespace bench {
namespace {

void fill_randomly(const kv::DeviceBuffer& buffer, uint32_t seed, const kv::Stream& stream) {
#if KV_HAVE_CUDA
  if (stream.device() == kv::Device::kCuda) return kv::fill_random(buffer, seed, stream);
#endif
  std::mt19937 rng(seed);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<float> values(buffer.bytes() / sizeof(float));
  for (float& x : values) x = uniform(rng);
  kv::copy_to_device(buffer.data(), values.data(), buffer.bytes(), stream);
}

}  // namespace

int Case::num_rows() const {
  return rows.empty() ? static_cast<int>(seq_lens.size())
                      : std::accumulate(rows.begin(), rows.end(), 0);
}

int Case::first_block(size_t seq) const {
  return kv::attention::first_key(seq_lens[seq] - rows_of(seq), window) / block_size;
}

int Case::num_blocks(size_t seq) const {
  return lesson03::blocks_for(seq_lens[seq], block_size) - first_block(seq);
}

MeasuredPass::MeasuredPass(const Case& c, uint64_t seed, kv::Device device)
    : case_(c),
      stream_(device),
      token_bytes_(static_cast<size_t>(c.num_kv_heads * c.head_dim) *
                   size_of(kv::activation_dtype(device))) {
  longest_ = *std::ranges::max_element(c.seq_lens);
  for (size_t i = 0; i < c.seq_lens.size(); ++i) num_blocks_ += c.num_blocks(i);
  max_blocks_ = lesson03::blocks_for(longest_, c.block_size);
  make_tables(seed);
  std::vector<int32_t> first_row{0};
  for (size_t i = 0; i < c.seq_lens.size(); ++i) {
    first_row.push_back(first_row.back() + c.rows_of(i));
  }
  first_row_ = kv::to_device<int32_t>(first_row, stream_);
  seq_len_ = kv::to_device<int32_t>(c.seq_lens, stream_);
  const size_t q_bytes = static_cast<size_t>(c.num_rows()) * token_bytes_ *
                         static_cast<size_t>(c.num_heads) / static_cast<size_t>(c.num_kv_heads);
  q_ = kv::DeviceBuffer(device, q_bytes);
  out_ = kv::DeviceBuffer(device, q_bytes);
  auto next_seed = static_cast<uint32_t>(seed);
  fill_randomly(q_, next_seed++, stream_);
  int num_copies = 1;
#if KV_HAVE_CUDA
  if (device == kv::Device::kCuda) num_copies = kv::rotation_for(bytes());
#endif
  for (int i = 0; i < num_copies; ++i) {
    copies_.emplace_back(device,
                         2 * static_cast<size_t>(num_blocks_ * c.block_size) * token_bytes_);
    fill_randomly(copies_.back(), next_seed++, stream_);
  }
}

void MeasuredPass::make_tables(uint64_t seed) {
  std::vector<int32_t> ids(num_blocks_);
  std::iota(ids.begin(), ids.end(), 0);
  std::shuffle(ids.begin(), ids.end(), std::mt19937_64(seed));
  std::vector<int32_t> tables(case_.seq_lens.size() * static_cast<size_t>(max_blocks_), -1);
  auto id = ids.begin();
  auto row = tables.begin();
  for (size_t i = 0; i < case_.seq_lens.size(); ++i) {
    std::copy_n(id, case_.num_blocks(i), row + case_.first_block(i));
    id += case_.num_blocks(i);
    row += max_blocks_;
  }
  tables_ = kv::to_device<int32_t>(tables, stream_);
}

double MeasuredPass::bytes() const {
  int64_t tokens = 0;
  for (const int len : case_.seq_lens) {
    tokens += case_.window > 0 ? std::min(len, case_.window) : len;
  }
  return 2.0 * static_cast<double>(tokens) * static_cast<double>(token_bytes_);
}

lesson04::PagedAttentionArgs MeasuredPass::args(int copy) const {
  const kv::DeviceBuffer& k_then_v = copies_[copy];
  return {.q = q_.data(),
          .out = out_.data(),
          .cache = {.k = k_then_v.data(),
                    .v = k_then_v.as<std::byte>() + k_then_v.bytes() / 2,
                    .num_blocks = num_blocks_,
                    .block_size = case_.block_size,
                    .num_kv_heads = case_.num_kv_heads,
                    .head_dim = case_.head_dim},
          .first_row = first_row_.as<const int32_t>(),
          .seq_len = seq_len_.as<const int32_t>(),
          .block_tables = tables_.as<const int32_t>(),
          .max_blocks_per_seq = max_blocks_,
          .num_seqs = static_cast<int>(case_.seq_lens.size()),
          .num_rows = case_.num_rows(),
          .max_rows_per_seq = case_.rows.empty() ? 1 : *std::ranges::max_element(case_.rows),
          .max_seq_len = longest_,
          .num_heads = case_.num_heads,
          .window = case_.window};
}

double MeasuredPass::seconds_of(const std::function<void(int)>& call) const {
#if KV_HAVE_CUDA
  if (stream_.device() == kv::Device::kCuda) {
    return kv::graph_seconds(stream_, static_cast<int>(copies_.size()), call);
  }
#endif
  return kv::median_seconds([&] { call(0); }, 7);
}

double MeasuredPass::read_seconds() const {
#if KV_HAVE_CUDA
  if (stream_.device() == kv::Device::kCuda) {
    return kv::read_seconds(stream_, copies_);
  }
#endif
  return seconds_of([&](int) {
    float sum = 0;
    const float* values = copies_[0].as<const float>();
    const size_t n = copies_[0].bytes() / sizeof(float);
    for (size_t i = 0; i < n; i += 16) sum += values[i];  // a cache line at a time
    *out_.as<float>() = sum;
  });
}

}  // namespace bench
