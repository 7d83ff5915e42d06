#pragma once

// Lesson 11's server whose host blocks are in a file, too. Each block is checked wherever it has
// been.

#include <filesystem>
#include <memory>

#include "file_tier.h"
#include "lessons/11_host_tier/engine.h"
#include "lessons/12_file_tier/checked_swapper.h"

namespace lesson12 {

using kv::StepOutput;
using lesson03::PagedOptions;
using lesson08::ServeOptions;
using lesson11::HostTierManager;
using lesson11::HostTierOptions;
using lesson11::Rates;

struct FileTierOptions {
  HostTierOptions host = {};        // host_blocks 0 means at least one for each record of the file
  std::filesystem::path file = {};  // empty means that nothing outlasts the server
};

/// The blocks of a server on the device, in the host and in the file, without its model: what
/// happens to them between two passes.
class Tiers {
 public:
  /// Borrows all four; `file` may be null. The pools have the blocks of the regions and of the
  /// memory; blocks of the file can be found in the host's pool. Throws UserError for a file that
  /// cannot be changed.
  Tiers(const BlockRegions& regions, const HostBlocks& memory, BlockFile* file,
        const kv::Stream& passes, const ServeOptions& serve = {},
        kv::RunJobs run = kv::RunJobs::kThread);

  /// Handles the copies that are complete. Loaded blocks are checked, and can be found from now on;
  /// offloaded blocks are written to the file.
  void complete();
  /// Lesson 11's offload(), with a place in the file for what is copied.
  void offload(int num_ahead, int min_hits);
  /// Waits until no copy is in flight, and the file has the blocks that have arrived in the host.
  void settle();
  /// Copies all cached blocks of the device to the host and to the file, as far as there is room.
  void flush(int min_hits);
  /// Erases all records of the file, which gets this fingerprint. Before that it waits as settle()
  /// does.
  void forget_file(uint64_t fingerprint);

  HostTierManager& manager() { return manager_; }
  const HostTierManager& manager() const { return manager_; }
  CheckedSwapper& swapper() { return swapper_; }
  const CheckedSwapper& swapper() const { return swapper_; }
  const FileMetrics& metrics() const { return metrics_; }
  int num_unsaved() const { return saver_ ? saver_->num_unsaved() : 0; }

 private:
  void drop_damaged();

  const HostBlocks& memory_;
  FileMetrics metrics_;
  lesson11::DevicePool pool_;
  BlockPool host_pool_;
  CheckedSwapper swapper_;           // borrows host_pool_
  std::unique_ptr<FileTier> saver_;  // borrows host_pool_, which it fills; null without a file
  HostTierManager manager_;          // borrows the pools and the swapper
};

class Server : public lesson08::ServerBase<lesson11::Scheduler> {
 public:
  /// Borrows the model. options.num_blocks is at least 1. With a file the server begins with the
  /// blocks of the file. Throws UserError for a file that cannot be used (another model's, say), or
  /// that has more records than tier.host.host_blocks.
  Server(kv::Model& model, const PagedOptions& options, const ServeOptions& serve,
         const FileTierOptions& tier);
  /// Writes to the file what the device and the host have.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  bool abort(int64_t id);  // as lesson 11's
  StepOutput step(const lesson08::PassObserver<Scheduler>& on_pass = {});

  const HostTierManager& manager() const { return tiers_.manager(); }
  const PagedKvCache& cache() const { return cache_; }
  const HostBlocks& host_memory() const { return memory_; }
  const FileMetrics& metrics() const { return tiers_.metrics(); }
  Rates rates() const { return {seconds_per_token_, tiers_.swapper().seconds_per_block()}; }

 private:
  FileTierOptions tier_;
  std::unique_ptr<BlockFile> file_;  // null without a file
  HostBlocks memory_;
  PagedKvCache cache_;
  BlockRegions regions_;                  // of cache_
  Tiers tiers_;                           // borrows file_, memory_ and regions_
  lesson08::ServingAttention attention_;  // borrows cache_
  double seconds_per_token_ = 0;
};

/// A server for the ladder, which has no file.
class FileTierEngine : public lesson08::EngineOf<Server> {
 public:
  FileTierEngine(kv::Model& model, const PagedOptions& options, const ServeOptions& serve = {},
                 const FileTierOptions& tier = {});
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options);

}  // namespace lesson12
