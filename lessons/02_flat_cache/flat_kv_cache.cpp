#include "flat_kv_cache.h"

#include <stdexcept>

#include "common/base/error.h"

namespace lesson02 {

int64_t kv_cache_bytes(const kv::ModelConfig& config, int64_t batch, int64_t max_seq_len,
                       int64_t element_bytes) {
  return batch * max_seq_len * config.kv_bytes_per_token(element_bytes);
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
  k_ = kv::DeviceBuffer(device, static_cast<size_t>(bytes / 2));
  v_ = kv::DeviceBuffer(device, static_cast<size_t>(bytes / 2));
  position_.assign(static_cast<size_t>(batch), 0);
}

int FlatKvCache::position(int slab) const {
  check_slab(slab);
  return position_[static_cast<size_t>(slab)];
}

void FlatKvCache::check_room(int slab, int num_tokens) const {
  const int computed = position(slab);
  if (num_tokens < 0 || num_tokens > max_seq_len_ - computed) {
    kv::user_error(
        "slab {} holds {} tokens and {} more would make {}, but max_seq_len is {}; generate fewer "
        "tokens or raise max_seq_len",
        slab, computed, num_tokens, int64_t{computed} + num_tokens, max_seq_len_);
  }
}

void FlatKvCache::advance(int slab, int num_tokens) {
  check_room(slab, num_tokens);
  position_[static_cast<size_t>(slab)] += num_tokens;
}

void FlatKvCache::clear(int slab) {
  check_slab(slab);
  position_[static_cast<size_t>(slab)] = 0;
}

int64_t FlatKvCache::bytes_reserved() const {
  return static_cast<int64_t>(k_.bytes() + v_.bytes());
}

int64_t FlatKvCache::bytes_used() const {
  int64_t tokens = 0;
  for (const int computed : position_) tokens += computed;
  return tokens * bytes_per_token_;
}

void FlatKvCache::check_slab(int slab) const {
  if (slab < 0 || slab >= batch()) {
    throw std::out_of_range(
        fmt::format("FlatKvCache: there is no slab {}, the cache has {}", slab, batch()));
  }
}

void* FlatKvCache::layer_of(kv::DeviceBuffer& buffer, int layer) const {
  return buffer.as<std::byte>() + layer * bytes_per_layer_;
}

}  // namespace lesson02
