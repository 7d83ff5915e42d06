#include "engine.h"

#include <algorithm>
#include <utility>

namespace lesson14 {

int64_t block_bytes(const kv::ModelConfig& config, int block_size, kv::KvFormat format) {
  const Fp8Blocks shape{
      {.block_size = block_size, .num_kv_heads = config.num_kv_heads, .head_dim = config.head_dim}};
  if (format != kv::KvFormat::kFp8) return config.kv_bytes_per_token(2) * block_size;
  return config.kv_bytes_per_token(1) * block_size + config.num_layers * shape.scale_stride();
}

int fp8_blocks_in(int num_blocks, const kv::ModelConfig& config, int block_size) {
  const int64_t bytes = num_blocks * block_bytes(config, block_size, kv::KvFormat::kActivations);
  const int64_t blocks = bytes / block_bytes(config, block_size, kv::KvFormat::kFp8);
  return static_cast<int>(std::min(blocks, int64_t{INT32_MAX - 1}));
}

Server::Server(kv::Model& model, const PagedOptions& options, const ServeOptions& serve)
    : ServerBase(model, options, serve),
      pool_(options.num_blocks, options.block_size, free_order(serve)),
      cache_(model.config(), model.stream(), pool_.index().num_ids(), options.block_size),
      attention_(model.config(), cache_),
      manager_(pool_, {.hasher = serve.hasher, .caching = serve.caching}) {
  scheduler_.emplace(manager_, serve.scheduler);
  pool_.set_event_sink(serve.on_cache_event);
}

StepOutput Server::step(const lesson08::PassObserver<Scheduler>& on_pass) {
  if (std::exchange(reset_wanted_, false)) scheduler_->reset_prefix_cache(true);
  const lesson08::SchedulerOutput& output = scheduler_->schedule();
  if (output.chunks.empty()) return {.preempted = output.preempted};
  if (on_pass) on_pass(*scheduler_, output);
  kv::PassRows rows;
  for (const auto& chunk : output.chunks) add_rows(scheduler_->request(chunk.id), chunk, rows);
  lesson08::pad_decodes(rows, options_.pad_decodes_to);
  attention_.set_tables(tables_of(manager_, output.chunks, rows.num_seqs(), padding_));
  chooser_.run(rows, attention_);
  scheduler_->update(output.chunks);  // blocks that became full can be found from now on
  return deliver(rows, output, chooser_, *scheduler_, streams_);
}

/// The same memory in blocks of FP8.
static PagedOptions in_fp8(const kv::ModelConfig& config, PagedOptions options) {
  lesson03::check(options);
  options.num_blocks = fp8_blocks_in(options.num_blocks, config, options.block_size);
  return options;
}

Fp8Engine::Fp8Engine(kv::Model& model, const PagedOptions& options, const ServeOptions& serve)
    : EngineOf(model, in_fp8(model.config(), options), serve) {}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options) {
  if (model.config().kv_format != kv::KvFormat::kFp8) return lesson08::make_engine(model, options);
  return std::make_unique<Fp8Engine>(model, options);
}

}  // namespace lesson14
