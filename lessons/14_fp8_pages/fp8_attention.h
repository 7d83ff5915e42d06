#pragma once

// Lesson 04's paged attention over FP8 pages: an element is decoded where it is read. Each kernel
// has the bits of its namesake in lesson 04 over the decoded values.

#include <cstdint>

#include "common/device.h"
#include "fp8_kv_cache.h"
#include "lessons/04_paged_attention/paged_attention.h"

namespace lesson14 {

/// Lesson 04's arguments, whose `cache` has a layer's codes.
struct Fp8AttentionArgs : lesson04::PagedAttentionArgs {
  uint8_t* scales = nullptr;  // of the same layer

  KV_HOST_DEVICE Fp8Blocks pages() const { return {cache, scales}; }
};

/// The plain kernel. A query takes its keys one by one, in ascending order.
void fp8_attention_cpu(const Fp8AttentionArgs& args);
void fp8_attention_cuda(const Fp8AttentionArgs& args, const kv::Stream& stream);
inline void fp8_attention(const Fp8AttentionArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(fp8_attention, args, stream);
}

/// The kernels of the engine.
void fast_fp8_attention_cpu(const Fp8AttentionArgs& args);
void fast_fp8_attention_cuda(const Fp8AttentionArgs& args, const kv::Stream& stream);
inline void fast_fp8_attention(const Fp8AttentionArgs& args, const kv::Stream& stream) {
  KV_DISPATCH(fast_fp8_attention, args, stream);
}

}  // namespace lesson14
