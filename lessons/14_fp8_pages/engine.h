#pragma once

// Lesson 08's server over a cache in FP8.

#include <memory>

#include "fp8_cache_attention.h"
#include "lessons/08_scheduler/engine.h"

namespace lesson14 {

using kv::StepOutput;
using lesson03::PagedOptions;
using lesson08::BlockPool;
using lesson08::ServeOptions;

/// Bytes of K and V of a block with their scales, all layers. Where the activations are fp32 (on
/// the CPU) bf16 is what FP8 is compared with, and a block that is not in FP8 counts as one in
/// bf16.
int64_t block_bytes(const kv::ModelConfig& config, int block_size, kv::KvFormat format);
/// Blocks in FP8 that fit the memory of `num_blocks` blocks in bf16.
int fp8_blocks_in(int num_blocks, const kv::ModelConfig& config, int block_size);

class Server : public lesson08::ServerBase<lesson08::Scheduler> {
 public:
  /// Borrows the model. options.num_blocks, at least 1, counts blocks in FP8. Throws UserError as
  /// lesson 08's server does.
  Server(kv::Model& model, const PagedOptions& options, const ServeOptions& serve = {});

  StepOutput step(const lesson08::PassObserver<Scheduler>& on_pass = {});

  const lesson08::KvCacheManager& manager() const { return manager_; }
  const BlockPool& pool() const { return pool_; }
  const Fp8KvCache& cache() const { return cache_; }

 private:
  BlockPool pool_;
  Fp8KvCache cache_;
  Fp8CacheAttention attention_;       // borrows cache_
  lesson08::KvCacheManager manager_;  // borrows pool_
};

/// A server for the ladder. options.num_blocks are blocks in bf16: the same memory holds
/// fp8_blocks_in() of them in FP8.
class Fp8Engine : public lesson08::EngineOf<Server> {
 public:
  Fp8Engine(kv::Model& model, const PagedOptions& options, const ServeOptions& serve = {});
};

/// Lesson 08's engine if the model's K and V are not in FP8 (kv::Model::set_kv_format).
std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options);

}  // namespace lesson14
