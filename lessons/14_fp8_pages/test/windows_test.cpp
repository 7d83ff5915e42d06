// Lesson 10's groups of layers over FP8 pages: blocks that have left a window are freed, found and
// used again, and the bits are those of rounded rows.

#include "fp8_cache_attention.h"
#include "lessons/08_scheduler/test/served.h"
#include "lessons/10_windows/engine.h"

namespace {

using kv::StepOutput;
using lesson10::KvCacheCoordinator;
constexpr kv::KvFormat kFp8 = kv::KvFormat::kFp8;

/// Lesson 10's attention, with lesson 14's writer and kernels. For the CPU.
class WindowedFp8Attention : public kv::Attention {
 public:
  WindowedFp8Attention(const kv::ModelConfig& config, const lesson14::Fp8KvCache& cache,
                       std::span<const lesson10::KvCacheGroup> groups)
      : cache_(cache), places_(lesson10::places_of(groups)), slots_(groups.size()) {
    for (size_t group = 0; group < groups.size(); ++group)
      passes_.emplace_back(config, cache.codes());
  }

  void set_tables(lesson03::BlockTables tables) { tables_ = std::move(tables); }
  void begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) override {
    auto first = tables_.begin();
    for (size_t group = 0; group < passes_.size(); ++group) {
      const lesson03::BlockTables tables(first, first + rows.num_seqs());
      passes_[group].begin(rows, tables, arrays);
      arrays.add(slot_mapping_of(rows, tables), slots_[group]);
      first += rows.num_seqs();
    }
  }
  void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override {
    const lesson10::LayerPlace place = places_.at(rows.layer);
    const size_t group = place.group;
    kv::AttentionRows in_cache = rows;
    in_cache.layer = place.index;
    const lesson14::Fp8Blocks layer = cache_.layer(place.index);
    const lesson14::Fp8AttentionArgs args{passes_[group].args_of(in_cache), layer.scales};
    lesson14::write_kv_fp8({.k = rows.k,
                            .v = rows.v,
                            .slot_mapping = slots_[group],
                            .num_rows = rows.num_rows,
                            .cache = layer},
                           stream);
    if (rows.kernel == kv::Kernel::kPlain) return lesson14::fp8_attention(args, stream);
    lesson14::fast_fp8_attention(args, stream);
  }
  bool rounds_kv() const override { return true; }

 private:
  const lesson14::Fp8KvCache& cache_;
  std::vector<lesson04::PagedPass> passes_;   // [num_groups]
  std::vector<lesson10::LayerPlace> places_;  // [num_layers]
  std::vector<const int64_t*> slots_;         // [num_groups] of [num_rows]
  lesson03::BlockTables tables_;
};

kv::ModelConfig config_of_group(kv::ModelConfig config) {
  config.num_layers = lesson10::layers_per_group(lesson10::make_groups(config));
  return config;
}

/// Lesson 10's server over FP8 pages.
class WindowedServer : public lesson08::ServerBase<lesson10::Server::Scheduler> {
 public:
  WindowedServer(kv::Model& model, int block_size, int num_blocks, int max_tokens_per_pass)
      : ServerBase(model, {.block_size = block_size, .num_blocks = num_blocks}, {}),
        pool_(num_blocks, block_size),
        manager_(pool_, lesson10::make_groups(model.config()), {}, max_tokens_per_pass),
        cache_(config_of_group(model.config()), model.stream(), num_blocks + 1, block_size),
        attention_(model.config(), cache_, manager_.groups()) {
    scheduler_.emplace(manager_,
                       lesson08::SchedulerOptions{.max_tokens_per_pass = max_tokens_per_pass});
  }

  StepOutput step(const lesson08::PassObserver<Scheduler>& on_pass) {
    const lesson08::SchedulerOutput& output = scheduler_->schedule();
    if (output.chunks.empty()) return {.preempted = output.preempted};
    on_pass(*scheduler_, output);
    kv::PassRows rows;
    for (const auto& chunk : output.chunks) add_rows(scheduler_->request(chunk.id), chunk, rows);
    lesson03::BlockTables tables;
    for (int group = 0; group < manager_.num_groups(); ++group) {
      for (const auto& chunk : output.chunks) tables.push_back(&manager_.table(chunk.id, group));
    }
    attention_.set_tables(tables);
    chooser_.run(rows, attention_);
    scheduler_->update(output.chunks);
    return deliver(rows, output, chooser_, *scheduler_, streams_);
  }
  const lesson14::Fp8KvCache& cache() const { return cache_; }

 private:
  lesson10::BlockPool pool_;
  KvCacheCoordinator manager_;
  lesson14::Fp8KvCache cache_;
  WindowedFp8Attention attention_;
};

}  // namespace

TEST_CASE("lesson 10's groups of layers with windows over FP8 pages: the bits of rounded rows") {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCpu);
  model.set_kv_format(kFp8);
  model.set_windows({0, 17, 17, 0, 17, 17});
  const auto requests = lesson08_test::mixed(12);
  for (const auto kernel : {kv::Kernel::kFast, kv::Kernel::kPlain}) {
    model.set_kernel(kernel);
    const auto wanted = lesson08_test::flat(model, requests);
    for (const int block_size : {4, 16}) {
      CAPTURE(block_size);
      WindowedServer server(model, block_size, 640 / block_size, 64);
      for (int round = 0; round < 2; ++round) {  // the second one finds the first one's blocks
        const auto served = kv::serve(server, requests, {});
        kvtest::check_equal(served.generated, wanted);
        if (round > 0) CHECK(served.generated.counters.named("cache_hit_tokens") > 0);
      }
    }
  }
}
