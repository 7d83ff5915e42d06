#include "engine.h"

#include <utility>

namespace lesson08 {

int pool_size(std::span<const kv::Request> requests, const PagedOptions& options) {
  if (options.num_blocks > 0) return options.num_blocks;
  return lesson03::num_blocks_for(lesson03::blocks_needed(requests, options.block_size), options);
}

Server::Server(kv::Model& model, const PagedOptions& options, const ServeOptions& serve)
    : model_(model),
      options_(checked(options, serve)),
      max_seq_len_(options.engine.max_seq_len),
      pool_(options.num_blocks, options.block_size, free_order(serve)),
      cache_(model.config(), model.stream(), pool_.index().num_ids(), options.block_size),
      attention_(model.config(), cache_),
      manager_(pool_, {.hasher = serve.hasher, .caching = serve.caching}),
      scheduler_(manager_, serve.scheduler),
      chooser_(model, serve.choose_on_device),
      padding_(padding_table(options.block_size)) {
  pool_.set_event_sink(serve.on_cache_event);
}

void Server::check(int64_t id, const kv::Request& request) const {
  kv::check_request(request, id, model_.config());
  kv::check_seq_len_limit(request, id, max_seq_len_);
  chooser_.check(id, request);
  if (request.max_tokens > 0) scheduler_.check_fits(id, request.prompt.size(), request.max_tokens);
}

void Server::submit(int64_t id, const kv::Request& request, RequestOptions options) {
  check(id, request);
  submit_to(scheduler_, streams_, id, request, std::move(options));
}

bool Server::abort(int64_t id) {
  streams_.erase(id);
  return scheduler_.finish(id);
}

StepOutput Server::step(const PassObserver<Scheduler>& on_pass) {
  if (std::exchange(reset_wanted_, false)) scheduler_.reset_prefix_cache(true);
  const SchedulerOutput& output = scheduler_.schedule();
  if (output.chunks.empty()) return {.preempted = output.preempted};
  if (on_pass) on_pass(scheduler_, output);
  kv::PassRows rows;
  for (const Chunk& chunk : output.chunks) add_rows(scheduler_.request(chunk.id), chunk, rows);
  pad_decodes(rows, options_.pad_decodes_to);
  attention_.set_tables(tables_of(manager_, output.chunks, rows.num_seqs(), padding_));
  chooser_.run(rows, attention_);    // logits, then a token from each row of them
  scheduler_.update(output.chunks);  // blocks that became full can be found from now on
  return deliver(rows, output, chooser_, scheduler_, streams_);
}

ServingEngine::ServingEngine(kv::Model& model, const PagedOptions& options,
                             const ServeOptions& serve)
    : ServerEngine(
          model, [=](auto requests) { return pool_size(requests, options); },
          [=, &model, sized = options](int num_blocks) mutable {
            sized.num_blocks = num_blocks;
            return std::make_unique<Server>(model, sized, serve);
          },
          tells_cleared(serve.on_cache_event)) {
  checked(options, serve);
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options) {
  return std::make_unique<ServingEngine>(model, options);
}

}  // namespace lesson08
