#pragma once

// A flat KV cache, and append_kv, which writes into it. Each sequence of the batch has one slab of
// max_seq_len token slots, reserved in full before the first token arrives.

#include <cstdint>
#include <vector>

#include "common/device.h"
#include "qwen3/config.h"

namespace lesson02 {

/// Bytes of K and V for `batch` sequences of `max_seq_len` tokens:
///   2 * batch * max_seq_len * num_layers * num_kv_heads * head_dim * element_bytes
int64_t kv_cache_bytes(const kv::ModelConfig& config, int64_t batch, int64_t max_seq_len,
                       int64_t element_bytes);

/// K and V of every token of every layer: two arrays
/// [num_layers, batch, max_seq_len, num_kv_heads, head_dim] in activation_dtype(device).
///
/// A slab is one sequence's share: max_seq_len token slots in each layer. Its *position* is the
/// number of tokens computed: those whose K and V are in all layers. A pass writes its rows from
/// the position on, layer by layer, and moves the position with advance() when the last layer is
/// done. So a pass that stops midway has changed nothing that a reader can see.
class FlatKvCache {
 public:
  /// Allocates everything at once. Throws DeviceError if the memory cannot be allocated, and
  /// std::invalid_argument unless batch and max_seq_len are at least 1.
  FlatKvCache(const kv::ModelConfig& config, kv::Device device, int batch, int max_seq_len);

  int batch() const { return static_cast<int>(position_.size()); }
  int max_seq_len() const { return max_seq_len_; }

  /// Tokens computed in this slab. This function and the next three throw std::out_of_range for an
  /// unknown slab.
  int position(int slab) const;
  /// Throws UserError if num_tokens more do not fit in the slab, or are negative. It names the
  /// slab, the tokens that it holds, and max_seq_len.
  void check_room(int slab, int num_tokens) const;
  /// Advances the position by num_tokens, once the last layer has written these rows. Throws as
  /// check_room() does; nothing has changed then.
  void advance(int slab, int num_tokens);
  /// Forgets the slab's tokens. The memory stays reserved.
  void clear(int slab);

  /// First token slot of a slab within a layer: slot t of a slab is at slab_begin + t.
  int64_t slab_begin(int slab) const { return int64_t{slab} * max_seq_len_; }
  /// Token slots of a layer, of all slabs.
  int64_t num_slots() const { return slab_begin(static_cast<int>(position_.size())); }
  /// One layer's slots: [batch * max_seq_len, num_kv_heads, head_dim].
  void* k_layer(int layer) { return k_.as<std::byte>() + layer * bytes_per_layer_; }
  void* v_layer(int layer) { return v_.as<std::byte>() + layer * bytes_per_layer_; }

  /// Bytes allocated for K and V.
  int64_t bytes_reserved() const { return static_cast<int64_t>(k_.bytes() + v_.bytes()); }
  /// Allocated bytes that hold a computed token's K and V.
  int64_t bytes_used() const;

 private:
  int max_seq_len_;
  int64_t bytes_per_token_;    // K and V, all layers
  int64_t bytes_per_layer_;    // K or V of one layer, all slabs
  std::vector<int> position_;  // [batch]
  kv::DeviceBuffer k_;         // [num_layers, batch, max_seq_len, num_kv_heads, head_dim]
  kv::DeviceBuffer v_;
};

/// Writes this pass's K and V rows into one layer of the cache. Row r goes to token position
/// row_position[r] of its sequence's slab. Arrays are on the stream's device.
struct AppendKvArgs {
  const void* k = nullptr;                // [num_rows, num_kv_heads, head_dim], activation dtype
  const void* v = nullptr;                // [num_rows, num_kv_heads, head_dim]
  const int32_t* row_seq = nullptr;       // [num_rows], the row's sequence in the pass
  const int32_t* row_position = nullptr;  // [num_rows]
  const int64_t* slab_begin = nullptr;    // [num_seqs], first token slot of the sequence's slab
  int num_rows = 0;
  int row_elements = 0;     // num_kv_heads * head_dim
  void* k_cache = nullptr;  // one layer: [token slots, num_kv_heads, head_dim]
  void* v_cache = nullptr;  // one layer: [token slots, num_kv_heads, head_dim]
};

void append_kv_cpu(const AppendKvArgs& args);
void append_kv_cuda(const AppendKvArgs& args, const kv::Stream& stream);
inline void append_kv(const AppendKvArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(append_kv, args, stream);
}

}  // namespace lesson02
