#pragma once

// Codes and scales on their way: servers of lessons 12 and 13, made over a cache in FP8. Whatever
// has travelled, the bits are those of rounded rows. For any device.

#include "tests/support/readable.h"  // before the checks

#include <filesystem>
#include <map>
#include <utility>

#include "fp8_cache_attention.h"
#include "lessons/08_scheduler/test/served.h"
#include "lessons/12_file_tier/engine.h"
#include "lessons/13_shared_tier/cli/memory_store.h"
#include "lessons/13_shared_tier/engine.h"
#include "qwen3/fingerprint.h"
#include "tests/support/temp_dir.h"

namespace lesson14_test {

constexpr kv::KvFormat kFp8 = kv::KvFormat::kFp8;

/// A pool of the device and one of the host: the device's is far too small for all requests.
struct Sizes {
  int block_size = 16;
  int device = 20;
  int host = 200;
};

/// Common to both servers: a cache in FP8, memory of the host, and the means to run a pass.
class TieredServer : public lesson08::ServerBase<lesson11::Scheduler> {
 public:
  using Observer = lesson08::PassObserver<Scheduler>;

  TieredServer(kv::Model& model, const Sizes& sizes)
      : ServerBase(model, {.block_size = sizes.block_size, .num_blocks = sizes.device}, {}),
        cache_(model.config(), model.stream(), sizes.device + 1, sizes.block_size),
        memory_(cache_.bytes_per_block(), model.device(), sizes.host + 1),
        attention_(model.config(), cache_) {}

  const lesson14::Fp8KvCache& cache() const { return cache_; }
  const lesson11::HostBlocks& memory() const { return memory_; }
  /// The offset of layer 0's scales among the bytes of a block in the host.
  size_t scales_begin() const { return cache_.regions().list()[2].begin; }

 protected:
  kv::StepOutput run(lesson12::CheckedSwapper& swapper, lesson11::HostTierManager& manager,
                     const kv::PassRows& rows, const lesson08::SchedulerOutput& output) {
    attention_.set_tables(tables_of(manager, output.chunks, rows.num_seqs(), padding_));
    swapper.let_passes_wait(manager.take_write_job());
    chooser_.run(rows, attention_);
    scheduler_->update(output.chunks);
    return deliver(rows, output, chooser_, *scheduler_, streams_);
  }

  lesson14::Fp8KvCache cache_;
  lesson11::HostBlocks memory_;
  lesson14::Fp8CacheAttention attention_;
};

/// Lesson 12's server, which begins with the blocks of the file.
class FileServer : public TieredServer {
 public:
  FileServer(kv::Model& model, const Sizes& sizes, const std::filesystem::path& file)
      : TieredServer(model, sizes),
        file_(file, {.fingerprint = kv::fingerprint_of(model, kFp8),
                     .block_size = sizes.block_size,
                     .bytes_per_block = cache_.bytes_per_block(),
                     .format = static_cast<int64_t>(kFp8)}),
        tiers_(cache_.regions(), memory_, &file_, model.stream()) {
    scheduler_.emplace(tiers_.manager(), lesson08::SchedulerOptions{});
  }
  ~FileServer() { tiers_.flush(0); }

  kv::StepOutput step(const Observer& on_pass) {
    tiers_.complete();
    load_waiting(*scheduler_, tiers_.manager());
    const lesson08::SchedulerOutput& output = scheduler_->schedule();
    if (output.chunks.empty()) {
      tiers_.manager().wait_for_load();
      return {.preempted = output.preempted};
    }
    on_pass(*scheduler_, output);
    kv::PassRows rows;
    for (const auto& chunk : output.chunks) add_rows(scheduler_->request(chunk.id), chunk, rows);
    kv::StepOutput step = run(tiers_.swapper(), tiers_.manager(), rows, output);
    tiers_.offload(64, 0);
    return step;
  }
  lesson12::Tiers& tiers() { return tiers_; }

 private:
  lesson12::BlockFile file_;
  lesson12::Tiers tiers_;
};

/// Lesson 13's server, which asks the store for each prompt.
class StoreServer : public TieredServer {
 public:
  StoreServer(kv::Model& model, const Sizes& sizes, lesson13::BlockStore& store)
      : TieredServer(model, sizes),
        tier_(cache_.regions(), memory_, store, kv::fingerprint_of(model, kFp8), model.stream(),
              {}) {
    scheduler_.emplace(tier_.manager(), lesson08::SchedulerOptions{});
  }

  void submit(int64_t id, const kv::Request& request, lesson08::RequestOptions options) {
    tier_.add(id, request.prompt, options.extra_keys, true);
    waiting_.emplace(id, std::pair(request, std::move(options)));
  }
  bool idle() const { return ServerBase::idle() && waiting_.empty(); }
  kv::StepOutput step(const Observer& on_pass) {
    for (const int64_t id : tier_.complete()) {
      auto waiting = waiting_.extract(id).mapped();
      ServerBase::submit(id, waiting.first, std::move(waiting.second));
    }
    load_waiting(*scheduler_, tier_.manager());
    const lesson08::SchedulerOutput& output = scheduler_->schedule();
    if (output.chunks.empty()) {
      tier_.manager().wait_for_load();
      if (scheduler_->idle()) tier_.wait();
      return {.preempted = output.preempted};
    }
    on_pass(*scheduler_, output);
    kv::PassRows rows;
    tier_.begin_pass();
    for (const auto& chunk : output.chunks) {
      const lesson08::ScheduledRequest& request = scheduler_->request(chunk.id);
      add_rows(request, chunk, rows);
      tier_.add_chunk(chunk.id, request.tokens, request.num_computed,
                      request.num_computed + chunk.num_tokens);
    }
    kv::StepOutput step = run(tier_.swapper(), tier_.manager(), rows, output);
    tier_.end_pass();
    for (const kv::EndedRequest& ended : step.ended) tier_.remove(ended.id);
    return step;
  }
  lesson13::SharedTier& tier() { return tier_; }

 private:
  lesson13::SharedTier tier_;
  std::map<int64_t, std::pair<kv::Request, lesson08::RequestOptions>> waiting_;
};

/// Blocks go to the host and into a file, and come back in this server and in the next one. A scale
/// that changes in the host is found. The model's format is FP8.
inline void check_file(kv::Model& model, int num_requests) {
  const auto requests = lesson08_test::mixed(num_requests);
  const auto wanted = lesson08_test::flat(model, requests);  // of rounded rows
  for (const Sizes& sizes : {Sizes{16, 20, 200}, Sizes{4, 60, 400}}) {
    CAPTURE(sizes.block_size);
    const kvtest::TempDir folder;
    for (int start = 0; start < 2; ++start) {
      CAPTURE(start);
      FileServer server(model, sizes, folder.path() / "blocks");
      CHECK((server.tiers().metrics().num_restored > 0) == (start == 1));
      for (int round = 0; round < 2; ++round) {
        kvtest::check_equal(kv::serve(server, requests, {}).generated, wanted);
        server.tiers().manager().check();
      }
      CHECK(server.tiers().manager().metrics().num_hits_in_host > 0);
      server.tiers().settle();
      for (int32_t id = 1; id <= sizes.host; ++id) {
        server.memory().block(id)[server.scales_begin()] ^= std::byte{1};
      }
      kvtest::check_equal(kv::serve(server, requests, {}).generated, wanted);
      CHECK(server.tiers().metrics().num_damaged_in_host > 0);
    }
  }
}

/// What one server has computed, the other one loads from their store. A scale that changes in the
/// store is found; and a server that keeps rounded rows finds nothing under its names.
inline void check_store(kv::Model& model, int num_requests) {
  const auto requests = lesson08_test::mixed(num_requests);
  const auto wanted = lesson08_test::flat(model, requests);  // of rounded rows
  lesson13::MemoryStore store;
  size_t from_end = 0;  // of a value, to the first scale
  {
    StoreServer server(model, {}, store);
    kvtest::check_equal(kv::serve(server, requests, {}).generated, wanted);
    from_end = static_cast<size_t>(server.cache().bytes_per_block()) - server.scales_begin();
    server.tier().settle();
    CHECK(server.tier().metrics().num_put > 0);
  }
  {
    StoreServer other(model, {}, store);
    kvtest::check_equal(kv::serve(other, requests, {}).generated, wanted);
    CHECK(other.tier().metrics().num_fetched > 0);
    CHECK(other.tier().metrics().num_damaged == 0);
    other.tier().settle();
  }
  lesson13::SharedTierEngine rounded(
      model, {.num_blocks = 20}, store, {},
      {.host = {.host_blocks = 200, .policy = lesson11::LoadPolicy::kAlways},
       .policy = lesson11::LoadPolicy::kAlways});
  kvtest::check_equal(rounded.generate(requests), wanted);
  CHECK(rounded.server()->tier().metrics().num_damaged == 0);
  const auto values = store.values();
  for (const auto& [name, entry] : values) {
    std::string value = entry.value;
    char& scale = value[value.size() - from_end];
    scale = static_cast<char>(scale ^ 1);
    store.put(name, value);
  }
  StoreServer last(model, {}, store);
  kvtest::check_equal(kv::serve(last, requests, {}).generated, wanted);
  CHECK(last.tier().metrics().num_damaged > 0);
}

}  // namespace lesson14_test
