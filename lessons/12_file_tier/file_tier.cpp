#include "file_tier.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "checksum_blocks.h"
#include "common/error.h"

namespace lesson12 {

using lesson07::CacheEvent;

FileTier::FileTier(BlockFile& file, const HostBlocks& host, BlockPool& pool, uint64_t* checksums,
                   FileMetrics& metrics, Run run)
    : file_(file), host_(host), pool_(pool), checksums_(checksums), metrics_(metrics) {
  check();
  restore();
  fresh_.reserve(static_cast<size_t>(pool.num_blocks()));
  pool.set_event_sink([this](const CacheEvent& event) {
    if (event.kind == CacheEvent::Kind::kStored) fresh_.push_back(event.block_id);
  });
  if (run == Run::kThread) thread_ = std::thread([this] { this->run(); });
}

void FileTier::check() const {
  const FileShape& shape = file_.shape();
  const auto num_records = std::ssize(file_.found()) - 1;
  if (static_cast<int64_t>(host_.bytes_per_block()) != shape.bytes_per_block ||
      pool_.block_size() != shape.block_size || pool_.num_blocks() < num_records ||
      host_.num_ids() <= pool_.num_blocks()) {
    throw std::invalid_argument(fmt::format(
        "FileTier: {} records of {} tokens and {} bytes; {} blocks of {} tokens in the pool, {} of "
        "{} bytes in memory",
        num_records, shape.block_size, shape.bytes_per_block, pool_.num_blocks(),
        pool_.block_size(), host_.num_ids(), host_.bytes_per_block()));
  }
}

/// The record that was written first is overwritten first. A record that is not restored must not
/// come back later, when its number may stand for another prefix: it is erased.
void FileTier::restore() {
  const auto& found = file_.found();
  const auto age = [&](int32_t id) {
    const auto record = static_cast<size_t>(id);
    return record < found.size() && found[record] ? found[record]->age : 0;
  };
  std::vector<int32_t> ids(static_cast<size_t>(pool_.num_blocks()));
  pool_.get_new_blocks(ids);
  bool erased = false;
  for (int32_t record = 1; record < std::ssize(found); ++record) {
    if (found[static_cast<size_t>(record)] && restore_record(record)) continue;
    erased = true;
    if (!file_.erase(record)) {
      kv::user_error("record {} of the file is damaged and cannot be erased: {}", record,
                     kv::File::last_error());
    }
  }
  if (erased && !file_.sync()) {
    kv::user_error("syncing the file failed: {}", kv::File::last_error());
  }
  std::ranges::stable_sort(ids, std::greater<>(), age);
  pool_.free_blocks(ids);  // the last one is overwritten first
}

bool FileTier::restore_record(int32_t record) {
  const BlockKey key = file_.found()[static_cast<size_t>(record)]->key();
  if (pool_.index().find(key) != nullptr) return false;  // a record with this content is there
  const auto checksum = file_.read(record, key, host_.block(record));
  if (!checksum) {
    ++metrics_.num_damaged_in_file;
    return false;
  }
  checksums_[record] = *checksum;
  pool_.cache_full_block(record, key);
  ++metrics_.num_restored;
  return true;
}

FileTier::~FileTier() {
  pool_.set_event_sink({});
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  added_.notify_one();
  thread_.join();
}

void FileTier::save(Job job) {
  std::list<Save> saves;
  for (const int32_t id : fresh_) {
    const lesson06::CachedBlock* const block = pool_.index().block(id);
    if (block == nullptr) continue;
    const auto tokens = pool_.index().tokens(id);
    saves.push_back({.job = job,
                     .id = id,
                     .key = {.hash = block->hash,
                             .parent = block->parent,
                             .prefix = block->prefix,
                             .tokens = {tokens.begin(), tokens.end()},
                             .extra_keys = block->extra_keys}});
  }
  // From here on nothing allocates, and nothing can fail.
  for (const Save& save : saves) pool_.touch({&save.id, 1});
  num_unsaved_ += static_cast<int>(saves.size());
  arriving_.splice(arriving_.end(), saves);
  fresh_.clear();
}

/// Saves go from list to list with their nodes: that allocates nothing, so it cannot fail.
void FileTier::complete(Job done) {
  const auto arrived = std::ranges::find_if(arriving_, [&](const Save& s) { return s.job > done; });
  std::list<Save> saved;
  {
    const std::lock_guard lock(mutex_);
    queue_.splice(queue_.end(), arriving_, arriving_.begin(), arrived);
    if (!thread_.joinable()) {
      for (Save& save : queue_) save.outcome = write(save);
      saved_.splice(saved_.end(), queue_);
    }
    saved.splice(saved.end(), saved_);
  }
  added_.notify_one();
  take_note(saved);
}

void FileTier::take_note(const std::list<Save>& saves) {
  for (const Save& save : saves) {
    --num_unsaved_;
    if (save.outcome == Outcome::kSaved) ++metrics_.num_saved;
    if (save.outcome == Outcome::kNotSaved) ++metrics_.num_not_saved;
    if (save.outcome == Outcome::kDamaged) {
      ++metrics_.num_damaged_to_host;
      pool_.evict_blocks({&save.id, 1});
    }
    pool_.free_blocks({&save.id, 1});
  }
}

void FileTier::finish() {
  std::unique_lock lock(mutex_);
  written_.wait(lock, [&] { return std::ssize(saved_) + std::ssize(arriving_) == num_unsaved_; });
  std::list<Save> saved;
  saved.splice(saved.end(), saved_);
  lock.unlock();
  take_note(saved);
  file_.sync();
}

void FileTier::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    added_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::list<Save> now;
    now.splice(now.end(), queue_, queue_.begin());
    lock.unlock();
    now.front().outcome = write(now.front());
    lock.lock();
    saved_.splice(saved_.end(), now);
    written_.notify_all();
  }
}

/// Any failure, also of memory for the header, costs this block its place in the file and no more.
FileTier::Outcome FileTier::write(const Save& save) noexcept {
  try {
    const auto content = std::as_const(host_).block(save.id);
    const uint64_t checksum = checksums_[save.id];
    if (checksum_of(content) != checksum) return Outcome::kDamaged;
    return file_.write(save.id, save.key.key(), content, checksum) ? Outcome::kSaved
                                                                   : Outcome::kNotSaved;
  } catch (...) {
    return Outcome::kNotSaved;
  }
}

}  // namespace lesson12
