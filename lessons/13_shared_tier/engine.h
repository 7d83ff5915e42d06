#pragma once

// Lesson 11's server with a store that it shares with other servers.

#include <cstdint>
#include <map>
#include <memory>

#include "lessons/11_host_tier/engine.h"
#include "shared_tier.h"

namespace lesson13 {

using kv::StepOutput;
using lesson03::PagedOptions;
using lesson11::HostTierOptions;
using lesson11::LoadPolicy;
using lesson11::Rates;

struct SharedTierOptions {
  HostTierOptions host = {};  // of which only host_blocks and policy count: nothing is offloaded
  SharedOptions shared = {};
  LoadPolicy policy = LoadPolicy::kQuicker;  // of the store
  kv::RunJobs run = kv::RunJobs::kThread;
};

/// Lesson 08's attention. In a pass of chunks, which no CUDA graph replays, each layer's full
/// blocks go to the host while the next layer is computed.
class GatheringAttention final : public lesson08::ServingAttention {
 public:
  /// Borrows cache and tier.
  GatheringAttention(const kv::ModelConfig& config, PagedKvCache& cache, SharedTier& tier)
      : ServingAttention(config, cache), tier_(tier) {}

  void begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) override {
    by_layer_ = rows.max_rows_per_seq() > 1;
    ServingAttention::begin_pass(rows, arrays);
  }
  void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override {
    ServingAttention::forward(rows, stream);
    if (by_layer_) tier_.gather(rows.layer);
  }

 private:
  SharedTier& tier_;
  bool by_layer_ = false;
};

class Server : public lesson08::ServerBase<lesson11::Scheduler> {
 public:
  /// Borrows the model and the store. options.num_blocks is at least 1.
  Server(kv::Model& model, const PagedOptions& options, const ServeOptions& serve,
         const SharedTierOptions& tier, BlockStore& store);

  // As lesson 08's.
  void submit(int64_t id, const kv::Request& request, lesson08::RequestOptions options = {});
  bool abort(int64_t id);
  StepOutput step(const lesson08::PassObserver<Scheduler>& on_pass = {});
  bool idle() const { return ServerBase::idle() && waiting_.empty(); }
  /// New requests, and those that wait for the store.
  int num_waiting() const { return static_cast<int>(waiting_.size()); }

  /// Waits until the store has, or has refused, every block that is full.
  void settle() { tier_.settle(); }

  const HostTierManager& manager() const { return tier_.manager(); }
  const PagedKvCache& cache() const { return cache_; }
  const SharedTier& tier() const { return tier_; }
  Rates rates() const { return {seconds_per_token_, tier_.seconds_per_block()}; }  // of the store

 private:
  struct Waiting {
    kv::Request request;
    lesson08::RequestOptions options;
  };
  void submit_ready(int64_t id);

  SharedTierOptions tier_options_;
  PagedKvCache cache_;
  BlockRegions regions_;  // of cache_
  HostBlocks memory_;
  SharedTier tier_;                     // borrows memory_ and regions_
  GatheringAttention attention_;        // borrows cache_ and tier_
  std::map<int64_t, Waiting> waiting_;  // new, or waiting for the store
  double seconds_per_token_ = 0;
};

/// A server for the ladder, which is made at once as lesson 11's is.
class SharedTierEngine : public lesson08::EngineOf<Server> {
 public:
  /// Borrows the model and the store.
  SharedTierEngine(kv::Model& model, const PagedOptions& options, BlockStore& store,
                   const ServeOptions& serve = {}, const SharedTierOptions& tier = {});
  /// Ends when the store has what was computed, so that another server finds it.
  kv::GenerateResult generate(std::span<const kv::Request> requests,
                              const kv::TokenCallback& on_token = {}) override;
  void settle() { server_for({}).settle(); }
};

/// Two servers in turn over one store in this process: what one has computed, the other one loads.
std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options);

}  // namespace lesson13
