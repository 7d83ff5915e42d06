#pragma once

// The host's pool in a file: block i of the host is record i. A thread writes the blocks that are
// offloaded, and the next start begins with the blocks that it finds there.

#include <list>
#include <vector>

#include "block_file.h"
#include "common/job_thread.h"
#include "lessons/07_lru_eviction/block_pool.h"
#include "lessons/11_host_tier/host_blocks.h"
#include "lessons/11_host_tier/transfers.h"

namespace lesson12 {

using lesson06::BlockKey;
using lesson07::BlockPool;
using lesson11::HostBlocks;
using lesson11::Job;

/// Counts of blocks since the start.
struct FileMetrics {
  int64_t num_restored = 0;         // read from the file by this start
  int64_t num_damaged_in_file = 0;  // found damaged by this start
  int64_t num_saved = 0;
  int64_t num_not_saved = 0;          // the file could not be written: the disk is full, say
  int64_t num_damaged_to_host = 0;    // changed on their way from the device to the host
  int64_t num_damaged_in_host = 0;    // changed in the host's memory
  int64_t num_damaged_to_device = 0;  // changed on their way back to the device
};

class FileTier {
 public:
  /// Borrows all five. The pool is empty, and has a block for each record; the records that are
  /// whole are read into the host's memory, and can be found in the pool. `checksums` [host ids]
  /// has the checksum of every block that has arrived in the host. Throws std::invalid_argument for
  /// a pool with fewer blocks than the file has records, and UserError for a file that cannot be
  /// changed.
  FileTier(BlockFile& file, const HostBlocks& host, BlockPool& pool, uint64_t* checksums,
           FileMetrics& metrics, kv::RunJobs run = kv::RunJobs::kThread);
  /// Writes the blocks that have arrived in the host.
  ~FileTier();
  FileTier(const FileTier&) = delete;
  FileTier& operator=(const FileTier&) = delete;

  /// Notes that `job` copies all blocks that the host's pool got since the last call. They are not
  /// overwritten until they are in the file. A block with extra keys is not saved: the fingerprint
  /// does not cover the adapter or the image that they name.
  void save(Job job);
  /// Passes on the blocks of all jobs up to `done`, which are complete, to be written. Records
  /// which blocks are written.
  void complete(Job done);
  /// Waits until all blocks that complete() knows of are in the file, and on the disk.
  void finish();
  /// Erases all records, so that a restart finds none; see BlockFile::clear(). finish() comes
  /// first. Throws UserError if the file cannot be changed.
  void forget_all(uint64_t fingerprint) { file_.clear(fingerprint); }

  int num_unsaved() const { return num_unsaved_; }

 private:
  enum class Outcome { kSaved, kNotSaved, kDamaged };
  struct Save {
    Job job = 0;
    int32_t id = 0;
    Record record;  // a copy of the key: the thread never looks at the pool
    Outcome outcome = Outcome::kNotSaved;
  };
  void restore();
  bool restore_record(int32_t record, const Record& header);
  Outcome write(Save& save);
  void poll();

  BlockFile& file_;
  const HostBlocks& host_;
  BlockPool& pool_;
  uint64_t* checksums_;
  FileMetrics& metrics_;
  std::vector<int32_t> fresh_;  // blocks that the pool got since the last save()
  uint64_t next_age_ = 1;
  std::list<Save> arriving_;  // in the order of their jobs
  int num_unsaved_ = 0;  // in arriving_, and with the writer; their blocks are in use in the pool
  kv::JobThread<Save> writer_;  // last: its thread uses the members above
};

}  // namespace lesson12
