#pragma once

// Generation with paged attention: lesson 03's loop and books, without its gather.

#include <memory>

#include "common/engine.h"
#include "common/model.h"
#include "lessons/03_paged_blocks/engine.h"

namespace lesson04 {

using lesson03::PagedEngine;

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const kv::EngineOptions& options);

}  // namespace lesson04
