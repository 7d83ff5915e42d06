#pragma once

#include <doctest/doctest.h>

#include <algorithm>

#include "common/kernel.h"
#include "kernels/attention/plan.h"
#include "lessons/02_flat_cache/decode_attention.h"
#include "lessons/02_flat_cache/flat_kv_cache.h"
#include "tests/support/attention_runs.h"

namespace lesson02_test {

/// Conditions that must not change the result: where the slabs are, the bytes in unused slots, how
/// loose the grid's bounds are, and whether the workspace was used before.
struct Layout {
  int spare_slots = 3;  // in each slab, after its tokens
  int unused = 0xFF;    // byte in every slot without a token
  bool last_slab_first = false;
  int64_t first_slot = 0;  // of all slabs
  int more_tokens = 0;     // in max_seq_len
  int more_rows = 0;       // in max_rows_per_seq
  int runs = 1;
  int window = 0;
  int64_t absent = 0;  // slots in front of them all, never used: they take no memory
};

/// append_kv for the rows of a pass, with the slabs and positions that they go to.
class Append {
 public:
  Append(const kv::Stream& stream, const std::vector<int64_t>& slab_begin,
         const std::vector<int32_t>& row_seq, const std::vector<int32_t>& row_position)
      : stream_(&stream),
        num_rows_(static_cast<int>(row_seq.size())),
        slab_begin_(kvtest::upload(slab_begin, stream)),
        row_seq_(kvtest::upload(row_seq, stream)),
        row_position_(kvtest::upload(row_position, stream)) {}

  /// Appends rows of k and of v to one layer's k_cache and v_cache.
  void operator()(int row_elements, const kv::DeviceBuffer& k, const kv::DeviceBuffer& v,
                  void* k_cache, void* v_cache) const {
    lesson02::append_kv({.k = k.data(),
                         .v = v.data(),
                         .row_seq = row_seq_.as<const int32_t>(),
                         .row_position = row_position_.as<const int32_t>(),
                         .slab_begin = slab_begin(),
                         .num_rows = num_rows_,
                         .row_elements = row_elements,
                         .k_cache = k_cache,
                         .v_cache = v_cache},
                        *stream_);
  }
  const int64_t* slab_begin() const { return slab_begin_.as<const int64_t>(); }

 private:
  const kv::Stream* stream_;
  int num_rows_;
  kv::DeviceBuffer slab_begin_, row_seq_, row_position_;
};

/// Attention over a flat cache with a slab for every sequence, filled by append_kv.
inline kvtest::Attend attend_with(kv::Kernel kernel, kv::Device device, Layout layout = {}) {
  return [=](const kvtest::HeadShape& shape, const std::vector<kvtest::Part>& parts) {
    const kv::Stream stream(device);
    const auto num_seqs = static_cast<int>(parts.size());
    std::vector<int32_t> first_row{0}, seq_len, row_seq, row_position;
    int max_rows = 0, longest = 0;
    kvtest::Rows new_k, new_v;
    for (const kvtest::Part& part : parts) {
      for (int t = 0; t < part.sequence->len; ++t) row_position.push_back(t);
      row_seq.resize(row_position.size(), static_cast<int32_t>(seq_len.size()));
      kvtest::append_to(new_k, part.sequence->k);
      kvtest::append_to(new_v, part.sequence->v);
      first_row.push_back(first_row.back() + part.num_rows);
      seq_len.push_back(part.sequence->len);
      max_rows = std::max(max_rows, part.num_rows);
      longest = std::max(longest, part.sequence->len);
    }
    const int slots = longest + layout.spare_slots;
    std::vector<int64_t> slab_begin;
    for (int i = 0; i < num_seqs; ++i) {
      const int place = layout.last_slab_first ? num_seqs - 1 - i : i;
      slab_begin.push_back(layout.absent + layout.first_slot + int64_t{place} * slots);
    }
    const size_t cache_bytes = static_cast<size_t>(layout.first_slot + int64_t{num_seqs} * slots) *
                               shape.kv_width() * kvtest::row_bytes(stream);
    const auto k_memory = kvtest::poisoned(cache_bytes, stream, layout.unused);
    const auto v_memory = kvtest::poisoned(cache_bytes, stream, layout.unused);
    const auto absent =
        layout.absent * static_cast<int64_t>(shape.kv_width() * kvtest::row_bytes(stream));
    void* const k_cache = kvtest::without_first(k_memory.data(), absent);
    void* const v_cache = kvtest::without_first(v_memory.data(), absent);
    const auto k = kvtest::upload_rows(new_k, stream), v = kvtest::upload_rows(new_v, stream);
    const Append append(stream, slab_begin, row_seq, row_position);
    append(static_cast<int>(shape.kv_width()), k, v, k_cache, v_cache);
    const auto q = kvtest::upload_rows(kvtest::queries_of(shape, parts), stream);
    const auto rows = kvtest::upload(first_row, stream);
    const auto lengths = kvtest::upload(seq_len, stream);
    const auto out = kvtest::poisoned(q.bytes(), stream);
    lesson02::DecodeAttentionArgs args{
        .q = q.data(),
        .k_cache = k_cache,
        .v_cache = v_cache,
        .out = out.data(),
        .first_row = rows.as<const int32_t>(),
        .seq_len = lengths.as<const int32_t>(),
        .slab_begin = append.slab_begin(),
        .num_slots = layout.absent + layout.first_slot + int64_t{num_seqs} * slots,
        .num_seqs = num_seqs,
        .num_rows = first_row.back(),
        .max_rows_per_seq = max_rows + layout.more_rows,
        .max_seq_len = longest + layout.more_tokens,
        .num_heads = shape.num_heads,
        .num_kv_heads = shape.num_kv_heads,
        .head_dim = shape.head_dim,
        .window = layout.window};
    const auto workspace =
        kvtest::poisoned(lesson02::decode_attention_workspace_bytes(args), stream, 0);
    args.workspace = workspace.data();
    const bool plain = kernel == kv::Kernel::kPlain;
    for (int i = 0; i < layout.runs; ++i) {
      kv::fill_bytes(out.data(), 0xFF, out.bytes(), stream);
      (plain ? lesson02::decode_attention : lesson02::fast_decode_attention)(args, stream);
    }
    if (workspace.bytes() > 0) {  // as promised: ready for the next launch
      constexpr size_t kCounters = kv::attention::kWorkspaceCounters;
      CHECK(kvtest::download<uint32_t>(workspace.data(), kCounters, stream) ==
            std::vector<uint32_t>(kCounters));
    }
    return kvtest::download_outputs(out, shape, parts, stream);
  };
}

}  // namespace lesson02_test
