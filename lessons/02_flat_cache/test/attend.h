#pragma once

#include <algorithm>

#include "common/base/kernel.h"
#include "lessons/02_flat_cache/decode_attention.h"
#include "tests/support/attention_runs.h"

namespace lesson02_test {

/// Where the slabs are and what stands in slots without a token: what must not matter.
struct Layout {
  int spare_slots = 3;          // in each slab, after its tokens
  kv::BFloat16 unused{0xFFFF};  // NaN
  bool last_slab_first = false;
};

/// Attention over a flat cache with a slab for every sequence.
inline kvtest::Attend attend_with(kv::Kernel kernel, kv::Device device, Layout layout = {}) {
  return [=](const kvtest::HeadShape& shape, const std::vector<kvtest::Part>& parts) {
    const kv::Stream stream(device);
    const auto num_seqs = static_cast<int>(parts.size());
    std::vector<int32_t> first_row{0}, seq_len;
    int most_rows = 0, longest = 0;
    for (const kvtest::Part& part : parts) {
      first_row.push_back(first_row.back() + part.num_rows);
      seq_len.push_back(part.sequence->len);
      most_rows = std::max(most_rows, part.num_rows);
      longest = std::max(longest, part.sequence->len);
    }
    const int slots = longest + layout.spare_slots;
    const size_t width = shape.kv_width();
    kvtest::Rows k(static_cast<size_t>(num_seqs * slots) * width, layout.unused), v = k;
    std::vector<int64_t> slab_begin;
    for (int i = 0; i < num_seqs; ++i) {
      const kvtest::Sequence& s = *parts[static_cast<size_t>(i)].sequence;
      slab_begin.push_back((layout.last_slab_first ? num_seqs - 1 - i : i) * int64_t{slots});
      const auto at =
          static_cast<std::ptrdiff_t>(slab_begin.back()) * static_cast<std::ptrdiff_t>(width);
      std::copy(s.k.begin(), s.k.end(), k.begin() + at);
      std::copy(s.v.begin(), s.v.end(), v.begin() + at);
    }
    const auto q = kvtest::upload_rows(kvtest::queries_of(shape, parts), stream);
    const auto k_cache = kvtest::upload_rows(k, stream);
    const auto v_cache = kvtest::upload_rows(v, stream);
    const auto rows = kvtest::upload(first_row, stream);
    const auto lengths = kvtest::upload(seq_len, stream);
    const auto begins = kvtest::upload(slab_begin, stream);
    const auto out = kvtest::poisoned(q.bytes(), stream);
    lesson02::DecodeAttentionArgs args{.q = q.data(),
                                       .k_cache = k_cache.data(),
                                       .v_cache = v_cache.data(),
                                       .out = out.data(),
                                       .first_row = rows.as<const int32_t>(),
                                       .seq_len = lengths.as<const int32_t>(),
                                       .slab_begin = begins.as<const int64_t>(),
                                       .num_seqs = num_seqs,
                                       .num_rows = first_row.back(),
                                       .max_rows_per_seq = most_rows,
                                       .max_seq_len = longest,
                                       .num_heads = shape.num_heads,
                                       .num_kv_heads = shape.num_kv_heads,
                                       .head_dim = shape.head_dim};
    if (kernel == kv::Kernel::kPlain) {
      lesson02::decode_attention(args, stream);
      return kvtest::download_outputs(out, shape, parts, stream);
    }
    const auto workspace =
        kvtest::poisoned(lesson02::decode_attention_workspace_bytes(args), stream, 0);
    args.workspace = workspace.data();
    lesson02::fast_decode_attention(args, stream);
    return kvtest::download_outputs(out, shape, parts, stream);
  };
}

}  // namespace lesson02_test
