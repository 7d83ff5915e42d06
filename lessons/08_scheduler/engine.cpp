#include "engine.h"

#include <utility>

namespace lesson08 {

int pool_size(std::span<const kv::Request> requests, const PagedOptions& options) {
  if (options.num_blocks > 0) return options.num_blocks;
  return lesson03::num_blocks_for(lesson03::blocks_needed(requests, options.block_size), options);
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

StepOutput Server::step(const PassObserver<Scheduler>& on_pass) {
  if (std::exchange(reset_wanted_, false)) scheduler_->reset_prefix_cache(true);
  const SchedulerOutput& output = scheduler_->schedule();
  if (output.chunks.empty()) return {.preempted = output.preempted};
  if (on_pass) on_pass(*scheduler_, output);
  kv::PassRows rows;
  for (const Chunk& chunk : output.chunks) add_rows(scheduler_->request(chunk.id), chunk, rows);
  pad_decodes(rows, options_.pad_decodes_to);
  attention_.set_tables(tables_of(manager_, output.chunks, rows.num_seqs(), padding_));
  chooser_.run(rows, attention_);     // logits, then a token from each row of them
  scheduler_->update(output.chunks);  // blocks that became full can be found from now on
  return deliver(rows, output, chooser_, *scheduler_, streams_);
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options) {
  return std::make_unique<ServingEngine>(model, options);
}

}  // namespace lesson08
