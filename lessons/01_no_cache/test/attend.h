#pragma once

#include <algorithm>

#include "common/kernel.h"
#include "lessons/01_no_cache/causal_attention.h"
#include "tests/support/attention_runs.h"

namespace lesson01_test {

/// Causal attention over whole sequences: every token is a query.
inline kvtest::Attend attend_with(kv::Kernel kernel, kv::Device device, int window = 0) {
  return [=](const kvtest::HeadShape& shape, const std::vector<kvtest::Part>& parts) {
    const kv::Stream stream(device);
    kvtest::Rows k, v;
    std::vector<int32_t> first_row{0};
    int longest = 0;
    for (const kvtest::Part& part : parts) {
      REQUIRE(part.num_rows == part.sequence->len);
      kvtest::append_to(k, part.sequence->k);
      kvtest::append_to(v, part.sequence->v);
      first_row.push_back(first_row.back() + part.num_rows);
      longest = std::max(longest, part.num_rows);
    }
    const kvtest::Rows q = kvtest::queries_of(shape, parts);
    const auto device_q = kvtest::upload_rows(q, stream);
    const auto device_k = kvtest::upload_rows(k, stream);
    const auto device_v = kvtest::upload_rows(v, stream);
    const auto device_first = kvtest::upload(first_row, stream);
    const auto out = kvtest::poisoned(device_q.bytes(), stream);
    const lesson01::CausalAttentionArgs args{.q = device_q.data(),
                                             .k = device_k.data(),
                                             .v = device_v.data(),
                                             .out = out.data(),
                                             .first_row = device_first.as<const int32_t>(),
                                             .num_seqs = static_cast<int>(parts.size()),
                                             .num_rows = first_row.back(),
                                             .max_seq_len = longest,
                                             .num_heads = shape.num_heads,
                                             .num_kv_heads = shape.num_kv_heads,
                                             .head_dim = shape.head_dim,
                                             .window = window};
    if (kernel == kv::Kernel::kPlain) {
      lesson01::causal_attention(args, stream);
    } else {
      lesson01::fast_causal_attention(args, stream);
    }
    return kvtest::download_outputs(out, shape, parts, stream);
  };
}

}  // namespace lesson01_test
