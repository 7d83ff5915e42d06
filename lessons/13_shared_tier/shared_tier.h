#pragma once

// The blocks of a server on the device and in the host, and a store that it shares with other
// servers. A block that becomes full is copied to the host in the pass that fills it, and put into
// the store after that. A request whose prefix the store has waits until it has come. Source:
// vLLM's KVConnectorBase_V1 (v0.22.1: vllm/distributed/kv_transfer/kv_connector/v1/base.py).

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/job_thread.h"
#include "gather_layer.h"
#include "lessons/08_scheduler/step.h"
#include "lessons/11_host_tier/host_tier_manager.h"
#include "lessons/12_file_tier/checked_swapper.h"
#include "store_trips.h"

namespace lesson13 {

using lesson06::BlockHashes;
using lesson07::BlockPool;
using lesson08::ServeOptions;
using lesson11::HostTierManager;

struct SharedOptions {
  std::string secret = {};  // see ValueFormat
  /// Each n-th request whose prefix the store has is computed all the same, and the store's blocks
  /// are compared with what it computes. 0 means none.
  int check_every = 0;
};

/// Counts since the tier was made, of blocks unless a comment says otherwise.
struct SharedMetrics {
  int64_t num_queried = 0;      // looked up in the store
  int64_t num_found = 0;        // looked up, and the store has them
  int64_t num_fetched = 0;      // came whole
  int64_t num_damaged = 0;      // came, and were not what their name says
  int64_t num_unreachable = 0;  // lookups without an answer
  int64_t num_put = 0;
  int64_t num_not_put = 0;
  int64_t num_checked = 0;       // the store has them, and they were computed again
  int64_t num_poisoned = 0;      // checked, and the computed bits are others
  int64_t num_changed_here = 0;  // changed between device and host, or in the host
};

class SharedTier {
 public:
  /// Borrows all but the options. The pools have the blocks of the regions and of the memory.
  SharedTier(const BlockRegions& regions, const HostBlocks& memory, BlockStore& store,
             uint64_t fingerprint, const kv::Stream& passes, const ServeOptions& serve,
             const SharedOptions& options = {}, kv::RunJobs run = kv::RunJobs::kThread);
  /// Puts everything that is still to be put.
  ~SharedTier();
  SharedTier(const SharedTier&) = delete;
  SharedTier& operator=(const SharedTier&) = delete;

  /// A new request, which complete() returns when it may start. If `look_up`, the store is asked
  /// for those of its blocks that neither device nor host has. Returns whether it is asked.
  bool add(int64_t id, std::span<const int32_t> prompt, const ExtraKeys& extra_keys, bool look_up);
  /// The request has ended.
  void remove(int64_t id);
  /// Takes note of all copies and trips that are complete. Returns the new requests that need not
  /// wait for the store (any longer), in the order of their arrival: what came of their prefix can
  /// be found in the host.
  std::vector<int64_t> complete();

  // Around a pass.
  /// Begins a new pass, and forgets a pass that has failed.
  void begin_pass();
  /// The pass computes tokens[begin] .. tokens[end - 1] of the request, which has their slots.
  void add_chunk(int64_t id, std::span<const int32_t> tokens, int begin, int end);
  /// This layer's K and V of the pass are written: copies them to the host, beside the next layer.
  /// Layers that this is not called for are copied by end_pass().
  void gather(int layer);
  /// The pass is done, and the manager has cached its full blocks.
  void end_pass();

  /// Returns when a trip is done, but after a millisecond at the latest; at once if none is left.
  void wait() { worker_.wait(std::chrono::milliseconds(1)); }
  /// Waits until the blocks of all passes are in the host.
  void wait_for_copies() const;
  /// Waits for all copies and trips. No request waits for the store then.
  void settle();
  /// Gives blocks of later requests other names, after a change of the weights. Blocks that the
  /// present requests compute are not shared any more.
  void set_fingerprint(uint64_t fingerprint);

  HostTierManager& manager() { return manager_; }
  const HostTierManager& manager() const { return manager_; }
  lesson12::CheckedSwapper& swapper() { return swapper_; }
  const lesson12::CheckedSwapper& swapper() const { return swapper_; }
  const SharedMetrics& metrics() const { return metrics_; }
  // Puts that were issued, and those of them that the store has confirmed or refused, in the order
  // in which they were issued.
  int64_t num_puts_issued() const { return num_puts_issued_; }
  int64_t num_puts_confirmed() const { return num_puts_confirmed_; }
  /// Time to fetch a block: the exponential moving average over fetches; 0 means none yet.
  double seconds_per_block() const { return seconds_per_block_; }

 private:
  struct Request {
    int64_t arrival = 0;
    BlockName root{};
    bool is_shared = true;
    std::vector<BlockName> names = {};          // of its first blocks
    std::vector<int32_t> prompt = {};           // if the store was asked
    BlockHashes hashes = {};                    // of the prompt
    std::map<BlockName, Digest> to_check = {};  // contents that the store had
  };
  /// Blocks that a pass has filled; after `end` they are in the host.
  struct Outgoing {
    std::list<Trip> puts;
    kv::Event end;
  };
  void poll();
  void drop_damaged();
  Request* asker_of(const Fetch& fetch);
  void take_lookup(std::list<Trip> lookup);
  void take_blocks(const Fetch& fetch);
  void receive(Request& request, const Fetch& fetch);
  void take_put(const Put& put);

  const BlockRegions& regions_;
  const HostBlocks& memory_;
  const kv::Stream& passes_;
  SharedOptions options_;
  uint64_t fingerprint_ = 0;
  SharedMetrics metrics_;
  lesson11::DevicePool pool_;
  BlockPool host_pool_;
  lesson12::CheckedSwapper swapper_;  // borrows host_pool_
  HostTierManager manager_;           // borrows the pools and the swapper
  kv::Stream gathers_;
  kv::Event written_;  // the layer that is gathered
  bool caching_;
  std::map<int64_t, Request> requests_;
  std::vector<int64_t> ready_;     // for the next complete()
  std::list<Trip> filling_;        // puts of the blocks that the pass fills, which hold host blocks
  std::vector<BlockMove> moves_;   // [filling_]
  int num_gathered_ = 0;           // layers of them
  std::deque<Outgoing> outgoing_;  // of earlier passes
  int64_t num_requests_ = 0, num_answered_ = 0;
  int64_t num_puts_issued_ = 0, num_puts_confirmed_ = 0;
  lesson06::PrefixId next_prefix_;
  double seconds_per_block_ = 0;
  StoreTrips trips_;
  kv::JobThread<Trip> worker_;  // last: its thread uses trips_
};

}  // namespace lesson13
