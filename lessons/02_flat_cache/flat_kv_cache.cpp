#include "flat_kv_cache.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "common/error.h"
#include "common/parallel.h"
#include "common/table.h"

namespace lesson02 {

int64_t kv_cache_bytes(const kv::ModelConfig& config, int64_t batch, int64_t max_seq_len,
                       int64_t element_bytes) {
  return 2 * batch * max_seq_len * config.num_layers * config.num_kv_heads * config.head_dim *
         element_bytes;
}

FlatKvCache::FlatKvCache(const kv::ModelConfig& config, kv::Device device, int batch,
                         int max_seq_len)
    : max_seq_len_(max_seq_len) {
  if (batch < 1 || max_seq_len < 1) {
    throw std::invalid_argument(fmt::format(
        "FlatKvCache: batch {} and max_seq_len {}, wanted at least 1", batch, max_seq_len));
  }
  const auto element_bytes = static_cast<int64_t>(size_of(kv::activation_dtype(device)));
  const int64_t bytes = kv_cache_bytes(config, batch, max_seq_len, element_bytes);
  bytes_per_token_ = config.kv_bytes_per_token(element_bytes);
  bytes_per_layer_ = bytes / 2 / config.num_layers;
  k_ = kv::DeviceBuffer(device, bytes / 2);
  v_ = kv::DeviceBuffer(device, bytes / 2);
  position_.assign(batch, 0);
}

int FlatKvCache::position(int slab) const {
  if (slab < 0 || slab >= batch()) {
    throw std::out_of_range(fmt::format("FlatKvCache: no slab {}, there are {}", slab, batch()));
  }
  return position_[slab];
}

void FlatKvCache::check_room(int slab, int num_tokens) const {
  const int computed = position(slab);
  if (num_tokens < 0 || num_tokens > max_seq_len_ - computed) {
    kv::user_error("slab {} holds {} and {} more would make {}, but max_seq_len is {}; raise it",
                   slab, kv::count_of(computed, "token"), num_tokens,
                   int64_t{computed} + num_tokens, max_seq_len_);
  }
}

void FlatKvCache::advance(int slab, int num_tokens) {
  check_room(slab, num_tokens);
  position_[slab] += num_tokens;
}

void FlatKvCache::clear(int slab) {
  check_room(slab, 0);
  position_[slab] = 0;
}

int64_t FlatKvCache::bytes_used() const {
  return std::accumulate(position_.begin(), position_.end(), int64_t{0}) * bytes_per_token_;
}

void append_kv_cpu(const AppendKvArgs& args) {
  const auto* k = static_cast<const float*>(args.k);
  const auto* v = static_cast<const float*>(args.v);
  auto* k_cache = static_cast<float*>(args.k_cache);
  auto* v_cache = static_cast<float*>(args.v_cache);
  const int64_t width = args.row_elements;  // one token's K, or V: [num_kv_heads, head_dim]

  kv::parallel_for(args.num_rows, /*grain=*/16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t slot = args.slab_begin[args.row_seq[row]] + args.row_position[row];
      std::copy_n(k + row * width, width, k_cache + slot * width);
      std::copy_n(v + row * width, width, v_cache + slot * width);
    }
  });
}

}  // namespace lesson02
