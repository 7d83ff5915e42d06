#include "engine.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "common/error.h"
#include "common/table.h"
#include "qwen3/fingerprint.h"

namespace lesson12 {
namespace {

std::unique_ptr<BlockFile> open_file(const kv::Model& model, const PagedOptions& options,
                                     const FileTierOptions& tier) {
  if (tier.file.empty()) return nullptr;
  const FileShape shape{.fingerprint = kv::fingerprint_of(model),
                        .block_size = options.block_size,
                        .bytes_per_block = lesson11::bytes_per_block(model, options)};
  return std::make_unique<BlockFile>(tier.file, shape);
}

/// A block for each record of the file, if there is one.
HostBlocks make_memory(const kv::Model& model, const PagedOptions& options,
                       const FileTierOptions& tier, const BlockFile* file) {
  HostTierOptions host = tier.host;
  const int num_records = file == nullptr ? 0 : file->num_records();
  if (host.host_blocks > 0 && host.host_blocks < num_records) {
    kv::user_error(
        "{} has {}, but the host would have {}; give it a block for each record, or use another "
        "file",
        tier.file.string(), kv::count_of(num_records, "record"),
        kv::count_of(host.host_blocks, "block"));
  }
  if (host.host_blocks == 0) {
    host.host_blocks = std::max(num_records, lesson11::default_host_blocks(model, options));
  }
  return make_host_blocks(model, options, host);
}

}  // namespace

Tiers::Tiers(const BlockRegions& regions, const HostBlocks& memory, BlockFile* file,
             const kv::Stream& passes, const ServeOptions& serve, kv::RunJobs run)
    : memory_(memory),
      pool_(regions.num_blocks() - 1, regions.block_size(), free_order(serve)),
      host_pool_(memory.num_ids() - 1, regions.block_size(), lesson07::FreeOrder::kUnhashedFirst),
      swapper_(regions, memory, host_pool_, passes),
      saver_(file == nullptr ? nullptr
                             : std::make_unique<FileTier>(*file, memory, host_pool_,
                                                          swapper_.checksums(), metrics_, run)),
      manager_(pool_, host_pool_, swapper_, {.hasher = serve.hasher, .caching = serve.caching}) {
  pool_.set_event_sink(serve.on_cache_event);
}

void Tiers::complete() {
  manager_.complete();  // blocks that have been loaded can be found from now on
  drop_damaged();       // and those that are not as they were computed cannot
  if (saver_) saver_->complete(swapper_.completed());
}

/// Evicts the blocks that verify() returns, and counts each by its place: in the host's memory, or
/// on its way to the device. If such a block is needed, it is computed.
void Tiers::drop_damaged() {
  for (const BlockMove& move : swapper_.verify()) {
    const bool in_host = checksum_of(memory_.block(move.host)) != swapper_.checksums()[move.host];
    ++(in_host ? metrics_.num_damaged_in_host : metrics_.num_damaged_to_device);
    pool_.evict_blocks({&move.device, 1});
    host_pool_.evict_blocks({&move.host, 1});
  }
}

void Tiers::offload(int num_ahead, int min_hits) {
  manager_.offload(num_ahead, min_hits);
  if (saver_) saver_->save(swapper_.last());
}

void Tiers::settle() {
  swapper_.wait(swapper_.last());
  complete();
  if (saver_) saver_->finish();
}

void Tiers::flush(int min_hits) {
  settle();
  offload(pool_.num_blocks(), min_hits);
  settle();
}

void Tiers::forget_file(uint64_t fingerprint) {
  settle();
  if (saver_) saver_->forget_all(fingerprint);
}

Server::Server(kv::Model& model, const PagedOptions& options, const ServeOptions& serve,
               const FileTierOptions& tier)
    : ServerBase(model, options, serve),
      tier_(tier),
      file_(open_file(model, options, tier)),
      memory_(make_memory(model, options, tier, file_.get())),
      cache_(model.config(), model.stream(), options.num_blocks + 1, options.block_size),
      regions_(lesson05::regions_of(cache_, model.stream())),
      tiers_(regions_, memory_, file_.get(), model.stream(), serve),
      attention_(model.config(), cache_) {
  scheduler_.emplace(tiers_.manager(), serve.scheduler);
}

Server::~Server() {
  try {
    if (file_) tiers_.flush(tier_.host.min_hits_to_offload);
  } catch (const std::exception&) {  // the next start computes again what the file lacks
  }
}

bool Server::abort(int64_t id) {
  const bool was_there = ServerBase::abort(id);
  if (idle()) tiers_.manager().finish_loads();  // that the request was waiting for
  return was_there;
}

StepOutput Server::step(const lesson08::PassObserver<Scheduler>& on_pass) {
  if (std::exchange(reset_wanted_, false)) {
    tiers_.settle();  // until then loads and saves hold blocks of the host
    scheduler_->reset_prefix_cache(true);
    if (file_) tiers_.forget_file(kv::fingerprint_of(model_));  // the weights may be new ones
  }
  tiers_.complete();
  HostTierManager& manager = tiers_.manager();
  if (is_worth_loading(tier_.host.policy, rates(), manager.block_size())) {
    load_waiting(*scheduler_, manager);
  }
  const lesson08::SchedulerOutput& output = scheduler_->schedule();
  if (output.chunks.empty()) {
    manager.wait_for_load();  // nothing to run before it is complete
    return {.preempted = output.preempted};
  }
  if (on_pass) on_pass(*scheduler_, output);
  kv::PassRows rows;
  for (const auto& chunk : output.chunks) add_rows(scheduler_->request(chunk.id), chunk, rows);
  lesson08::pad_decodes(rows, options_.pad_decodes_to);
  attention_.set_tables(tables_of(manager, output.chunks, rows.num_seqs(), padding_));
  tiers_.swapper().let_passes_wait(manager.take_write_job());
  seconds_per_token_ = lesson11::run_measured(chooser_, rows, attention_, seconds_per_token_);
  scheduler_->update(output.chunks);  // blocks that became full can be found from now on
  StepOutput step = deliver(rows, output, chooser_, *scheduler_, streams_);
  tiers_.offload(tier_.host.offload_ahead, tier_.host.min_hits_to_offload);  // beside the next pass
  return step;
}

FileTierEngine::FileTierEngine(kv::Model& model, const PagedOptions& options,
                               const ServeOptions& serve, const FileTierOptions& tier)
    : EngineOf(model, options, serve, tier) {
  if (options.num_blocks > 0 && tier.file.empty()) server_for({});  // as in lesson 11
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options) {
  return std::make_unique<FileTierEngine>(model, options);
}

}  // namespace lesson12
