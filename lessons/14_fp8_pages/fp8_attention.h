#pragma once

// Lesson 04's paged attention over FP8 pages: an element is decoded where it is read. Each kernel
// has the bits of its namesake in lesson 04 over the decoded values.

#include "common/device.h"
#include "lessons/04_paged_attention/paged_attention.h"

namespace lesson14 {

using lesson03::KvBlocks;
using lesson04::PagedAttentionArgs;  // its `cache` is one layer in FP8

/// The plain kernel. A query takes its keys one by one, in ascending order.
void fp8_attention_cpu(const PagedAttentionArgs& args);
void fp8_attention_cuda(const PagedAttentionArgs& args, const kv::Stream& stream);
inline void fp8_attention(const PagedAttentionArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(fp8_attention, args, stream);
}

/// The kernels of the engine.
void fast_fp8_attention_cpu(const PagedAttentionArgs& args);
void fast_fp8_attention_cuda(const PagedAttentionArgs& args, const kv::Stream& stream);
inline void fast_fp8_attention(const PagedAttentionArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(fast_fp8_attention, args, stream);
}

}  // namespace lesson14
