#pragma once

// The road from the plain kernel to the one that an engine runs: seven steps, one idea and one file
// each. Steps 2 to 6 do decode steps only (one query row for each sequence), with head_dim 128 and
// at most 8 query heads for each KV head. They promise no equal bits: where they cut the keys
// depends on the batch.

#include <array>
#include <cstddef>

#include "lessons/04_paged_attention/paged_attention.h"

namespace lesson04::road {

inline constexpr int kMaxSharedScores = 8192;  // tokens

void shared_scores(const PagedAttentionArgs& args, const kv::Stream& stream);
void partitions(const PagedAttentionArgs& args, const kv::Stream& stream);
void grouped_heads(const PagedAttentionArgs& args, const kv::Stream& stream);
void tensor_cores(const PagedAttentionArgs& args, const kv::Stream& stream);
void copies_ahead(const PagedAttentionArgs& args, const kv::Stream& stream);

/// Bytes of workspace of steps 3 to 6: the partial results of their CTAs.
size_t partials_bytes(const PagedAttentionArgs& args);

struct Step {
  const char* idea;
  void (*attend)(const PagedAttentionArgs&, const kv::Stream&);
  size_t (*workspace_bytes)(const PagedAttentionArgs&);  // null if it needs none
  int longest = 0;                                       // longest context that it serves; 0: any
};

inline constexpr std::array<Step, 7> kSteps = {{
    {"plain: a warp for each head", paged_attention_cuda, nullptr},
    {"a CTA for each head, shared scores", shared_scores, nullptr, kMaxSharedScores},
    {"keys cut into partitions", partitions, partials_bytes},
    {"heads share what is loaded", grouped_heads, partials_bytes},
    {"tensor cores", tensor_cores, partials_bytes},
    {"copies ahead", copies_ahead, partials_bytes},
    {"the engine's", fast_paged_attention_cuda, paged_attention_workspace_bytes},
}};

}  // namespace lesson04::road
