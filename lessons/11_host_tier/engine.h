#pragma once

// Lesson 08's server with a pool in the host's memory beside the device's.

#include <memory>

#include "block_swapper.h"
#include "host_tier_manager.h"
#include "lessons/08_scheduler/engine.h"

namespace lesson11 {

using kv::StepOutput;
using lesson03::PagedOptions;
using lesson08::ServeOptions;

enum class LoadPolicy {
  kQuicker,  // load a block if that takes less time than computing it, or if one time is unknown
  kAlways,
  kNever,  // compute; nothing is loaded
};

struct HostTierOptions {
  int host_blocks = 0;  // 0 means default_host_blocks()
  LoadPolicy policy = LoadPolicy::kQuicker;
  /// How many of the device's next victims are copied to the host ahead of time.
  int offload_ahead = 64;
  /// Requests that must have found a block before it is worth a copy. (vLLM's store_threshold.)
  int min_hits_to_offload = 0;
};

/// Measured times, as exponential moving averages. 0 means not known yet.
struct Rates {
  double seconds_per_token = 0;  // of a pass of 32 rows or more
  double seconds_per_block = 0;  // of a load
};
bool is_worth_loading(LoadPolicy policy, const Rates& rates, int block_size);

using lesson08::Scheduler;

/// Starts loading the host's blocks that waiting requests could begin with, as far as there is
/// room, in the order of the queue.
void load_waiting(const Scheduler& scheduler, HostTierManager& manager);

/// The bytes of a block's K and V in all layers.
int64_t bytes_per_block(const kv::Model& model, const PagedOptions& options);
/// Blocks of a host pool whose size is not given: four times the device's blocks. A quarter of the
/// host's free memory must hold them; the least is one block.
int default_host_blocks(const kv::Model& model, const PagedOptions& options,
                        int64_t free_bytes = kv::memory_of(kv::Device::kCpu).free);
/// Memory for the host's pool of a server with `options`.
HostBlocks make_host_blocks(const kv::Model& model, const PagedOptions& options,
                            const HostTierOptions& tier);

/// Runs a pass. Returns the average time of a token: if the pass computes a prompt, `average` with
/// this pass in it.
double run_measured(kv::TokenChooser& chooser, const kv::PassRows& rows, kv::Attention& attention,
                    double average);

class Server : public lesson08::ServerBase<Scheduler> {
 public:
  /// Borrows the model. options.num_blocks is at least 1. Throws UserError as lesson 08's server
  /// does.
  Server(kv::Model& model, const PagedOptions& options, const ServeOptions& serve,
         const HostTierOptions& tier);

  /// Like lesson 08's. If no other request is left, also waits for the loads still in flight.
  bool abort(int64_t id);
  StepOutput step(const lesson08::PassObserver<Scheduler>& on_pass = {});

  const HostTierManager& manager() const { return manager_; }
  const PagedKvCache& cache() const { return cache_; }
  Rates rates() const { return {seconds_per_token_, swapper_.seconds_per_block()}; }

 private:
  HostTierOptions tier_;
  DevicePool pool_;
  PagedKvCache cache_;
  BlockRegions regions_;  // of cache_
  HostBlocks host_;
  BlockPool host_pool_;
  BlockSwapper swapper_;                  // borrows regions_ and host_
  lesson08::ServingAttention attention_;  // borrows cache_
  HostTierManager manager_;               // borrows the pools and the swapper
  double seconds_per_token_ = 0;
};

/// A server for the ladder. If options.num_blocks is given, it is made at once, so that no request
/// waits until the host's memory is pinned.
class HostTierEngine : public lesson08::EngineOf<Server> {
 public:
  HostTierEngine(kv::Model& model, const PagedOptions& options, const ServeOptions& serve = {},
                 const HostTierOptions& tier = {});
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options);

}  // namespace lesson11
