#include "engine.h"

#include <algorithm>

#include "common/error.h"
#include "qwen3/generation.h"

namespace lesson10 {
namespace {

/// The config of a model with layers_per_group() layers.
kv::ModelConfig config_of_group(const kv::ModelConfig& config) {
  kv::ModelConfig in_cache = config;
  in_cache.num_layers = layers_per_group(make_groups(config));
  return in_cache;
}

/// The most tokens of one request in a pass.
int max_at_once(const lesson08::SchedulerOptions& options) {
  const int budget = options.max_tokens_per_pass;
  return options.max_chunk > 0 ? std::min(options.max_chunk, budget) : budget;
}

/// The size of the pool: options.num_blocks, or else enough blocks for all requests at once.
int pool_size(std::span<const kv::Request> requests, const PagedOptions& options,
              const ServeOptions& serve, const kv::Model& model) {
  if (options.num_blocks > 0) return options.num_blocks;
  int64_t blocks = 0;
  for (const KvCacheGroup& group : make_groups(model.config())) {
    for (const kv::Request& request : requests) {
      blocks += max_blocks(group, options.block_size, kv::tokens_to_compute(request),
                           max_at_once(serve.scheduler));
    }
  }
  return lesson03::num_blocks_for(blocks, options);
}

}  // namespace

WindowedAttention::WindowedAttention(const kv::ModelConfig& config, PagedKvCache& cache,
                                     std::span<const KvCacheGroup> groups)
    : places_(places_of(groups)) {
  if (groups.size() > kMaxGroups) {
    kv::user_error("the model's layers are in {} groups, wanted at most {}", groups.size(),
                   kMaxGroups);
  }
  for (size_t group = 0; group < groups.size(); ++group)
    passes_.emplace_back(config, cache.layers());
}

void WindowedAttention::begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) {
  auto first = tables_.begin();
  for (lesson04::PagedPass& pass : passes_) {
    pass.begin(rows, {first, first + rows.num_seqs()}, arrays);
    first += rows.num_seqs();
  }
  arrays.make_room(slots_, passes_.size() * rows.token_ids.size() * sizeof(int64_t));
}

void WindowedAttention::compute_slots(const kv::AttentionRows& rows,
                                      const kv::Stream& stream) const {
  GroupSlotMappingArgs args{.num_groups = static_cast<int>(passes_.size())};
  for (size_t group = 0; group < passes_.size(); ++group) {
    args.rows = lesson08::slots_of(passes_[group].args_of(rows), slots_.as<int64_t>());
    args.block_tables[group] = args.rows.block_tables;
  }
  group_slot_mapping(args, stream);
}

kv::KvSlots WindowedAttention::slots(const kv::AttentionRows& rows, const kv::Stream& stream) {
  if (rows.layer == 0) compute_slots(rows, stream);
  const LayerPlace place = places_.at(rows.layer);
  return passes_[place.group].slots(place.index,
                                    slots_.as<int64_t>() + int64_t{place.group} * rows.num_rows);
}

void WindowedAttention::forward(const kv::AttentionRows& rows, const kv::Stream& stream) {
  const LayerPlace place = places_.at(rows.layer);
  kv::AttentionRows in_cache = rows;
  in_cache.layer = place.index;
  passes_[place.group].attend(in_cache, stream);
}

Server::Server(kv::Model& model, const PagedOptions& options, const ServeOptions& serve)
    : ServerBase(model, options, serve),
      pool_(options.num_blocks, options.block_size, free_order(serve)),
      manager_(pool_, make_groups(model.config()),
               {.hasher = serve.hasher, .caching = serve.caching}, max_at_once(serve.scheduler)),
      cache_(config_of_group(model.config()), model.stream(), pool_.index().num_ids(),
             options.block_size),
      attention_(model.config(), cache_, manager_.groups()) {
  scheduler_.emplace(manager_, serve.scheduler);
  pool_.set_event_sink(serve.on_cache_event);
}

/// The tables of a pass in each group, group after group. Padding comes after the chunks.
lesson03::BlockTables Server::tables_of(std::span<const Chunk> chunks, int num_seqs) const {
  lesson03::BlockTables tables;
  for (int group = 0; group < manager_.num_groups(); ++group) {
    for (const Chunk& chunk : chunks) tables.push_back(&manager_.table(chunk.id, group));
    tables.resize((group + 1) * num_seqs, &padding_);
  }
  return tables;
}

StepOutput Server::step(const PassObserver<Scheduler>& on_pass) {
  if (std::exchange(reset_wanted_, false)) scheduler_->reset_prefix_cache(true);
  const lesson08::SchedulerOutput& output = scheduler_->schedule();
  if (output.chunks.empty()) return {.preempted = output.preempted};
  if (on_pass) on_pass(*scheduler_, output);
  kv::PassRows rows;
  for (const Chunk& chunk : output.chunks) {
    lesson08::add_rows(scheduler_->request(chunk.id), chunk, rows);
  }
  lesson08::pad_decodes(rows, options_.pad_decodes_to);
  attention_.set_tables(tables_of(output.chunks, rows.num_seqs()));
  chooser_.run(rows, attention_);
  scheduler_->update(output.chunks);
  return lesson08::deliver(rows, output, chooser_, *scheduler_, streams_);
}

WindowsEngine::WindowsEngine(kv::Model& model, const PagedOptions& options,
                             const ServeOptions& serve)
    : ServerEngine(
          model, [=, &model](auto requests) { return pool_size(requests, options, serve, model); },
          [=, &model, sized = options](int num_blocks) mutable {
            sized.num_blocks = num_blocks;
            return std::make_unique<Server>(model, sized, serve);
          },
          lesson08::on_new_pool(serve.on_cache_event)) {
  lesson08::checked(options, serve);
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options) {
  PagedOptions of_groups = options;
  const int per_block = layers_per_group(make_groups(model.config()));
  of_groups.num_blocks =
      static_cast<int>(int64_t{options.num_blocks} * model.config().num_layers / per_block);
  return std::make_unique<WindowsEngine>(model, of_groups);
}

}  // namespace lesson10
