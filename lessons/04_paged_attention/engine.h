#pragma once

// Generation with a paged cache that is read where it lies. Bookkeeping is lesson 03's; nothing is
// gathered any more.

#include <memory>

#include "common/model/engine.h"
#include "common/model/model.h"
#include "lessons/03_paged_blocks/engine.h"
#include "paged_cache_attention.h"

namespace lesson04 {

using lesson03::BlockManager;
using lesson03::PagedEngine;

/// A PagedEngine whose attention is PagedCacheAttention. `chunk_tokens`: at most so many tokens of
/// a sequence in one pass, so that long prompts come in chunks; 0: no limit. The bits are the same
/// for all of them.
std::unique_ptr<PagedEngine> make_paged_engine(kv::Model& model,
                                               const lesson03::PagedOptions& options,
                                               int chunk_tokens = 0);

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const lesson03::PagedOptions& options);

}  // namespace lesson04
