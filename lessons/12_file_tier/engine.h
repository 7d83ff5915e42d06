#pragma once

// Lesson 11's server whose host blocks stand in a file, too, and are checked wherever they have
// been.

#include <filesystem>
#include <memory>

#include "checked_swapper.h"
#include "file_tier.h"
#include "lessons/11_host_tier/engine.h"

namespace lesson12 {

using lesson03::PagedOptions;
using lesson08::ServeOptions;
using lesson08::StepOutput;
using lesson11::HostTierManager;
using lesson11::HostTierOptions;
using lesson11::Rates;

struct FileTierOptions {
  HostTierOptions host = {};        // host_blocks 0: at least as many as the file has records
  std::filesystem::path file = {};  // empty: nothing outlasts the server
};

class Server {
 public:
  using Scheduler = lesson11::Server::Scheduler;

  /// Borrows the model. options.num_blocks is at least 1. With a file the server begins with what
  /// the file holds, and throws UserError for one that cannot be used (another model's, say) or
  /// that has more records than the host shall have blocks. `memory` may be null; it is for a
  /// server without a file.
  Server(kv::Model& model, const PagedOptions& options, const ServeOptions& serve,
         const FileTierOptions& tier, std::shared_ptr<const HostBlocks> memory);
  /// Writes to the file what the device and the host have.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // As lesson 08's.
  void check(int64_t id, const kv::Request& request) const;
  void submit(int64_t id, const kv::Request& request, lesson08::RequestOptions options = {});
  bool abort(int64_t id);
  StepOutput step(const lesson08::PassObserver<Scheduler>& on_pass = {});
  bool idle() const { return scheduler_.idle(); }
  void reset_prefix_cache() { reset_wanted_ = true; }  // of both pools, and of the file

  const Scheduler& scheduler() const { return scheduler_; }
  const HostTierManager& manager() const { return manager_; }
  const PagedKvCache& cache() const { return cache_; }
  const lesson08::TokenChooser& chooser() const { return chooser_; }
  const HostBlocks& host_memory() const { return *memory_; }
  const FileMetrics& metrics() const { return metrics_; }
  Rates rates() const { return {seconds_per_token_, swapper_.seconds_per_block()}; }

 private:
  void settle();
  void flush();
  void reset();
  void drop_damaged();
  void run(const kv::PassRows& rows);
  void offload(int num_ahead, int min_hits);

  kv::Model& model_;
  ServeOptions options_;
  FileTierOptions tier_;
  int max_seq_len_;
  FileMetrics metrics_;
  std::unique_ptr<BlockFile> file_;  // null: no file
  std::shared_ptr<const HostBlocks> memory_;
  BlockPool pool_;
  PagedKvCache cache_;
  BlockPool host_pool_;
  CheckedSwapper swapper_;  // borrows cache_, memory_ and host_pool_
  std::unique_ptr<FileTier>
      saver_;  // borrows file_, memory_ and host_pool_, which it fills; or null
  lesson08::ServingAttention attention_;  // borrows cache_
  HostTierManager manager_;               // borrows the pools and the swapper
  Scheduler scheduler_;                   // borrows manager_
  lesson08::TokenChooser chooser_;
  lesson08::TokenStreams streams_;
  lesson06::BlockTable padding_;  // the null block
  double seconds_per_token_ = 0;
  bool reset_wanted_ = false;
};

/// A server for the ladder, which has no file.
class FileTierEngine : public lesson08::EngineOf<Server> {
 public:
  FileTierEngine(kv::Model& model, const PagedOptions& options, const ServeOptions& serve = {},
                 const FileTierOptions& tier = {});
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options);

}  // namespace lesson12
