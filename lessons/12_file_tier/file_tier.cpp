#include "file_tier.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <utility>

#include "checksum_blocks.h"
#include "common/error.h"

namespace lesson12 {

using lesson07::CacheEvent;

FileTier::FileTier(BlockFile& file, const HostBlocks& host, BlockPool& pool, uint64_t* checksums,
                   FileMetrics& metrics, kv::RunJobs run)
    : file_(file),
      host_(host),
      pool_(pool),
      checksums_(checksums),
      metrics_(metrics),
      writer_(run, [this](Save& save) { save.outcome = write(save); }) {
  if (pool.num_blocks() < file.num_records()) {
    throw std::invalid_argument(fmt::format("FileTier: {} records, and {} blocks in the pool",
                                            file.num_records(), pool.num_blocks()));
  }
  restore();
  fresh_.reserve(pool.num_blocks());
  pool.set_event_sink([this](const CacheEvent& event) {
    if (event.kind == CacheEvent::Kind::kStored) fresh_.push_back(event.block_id);
  });
}

/// A record that is not restored must not come back later, when its number may mean another
/// prefix: it is erased. The same would happen if the disk had older records than those read here.
/// So all of it is on the disk before the first new number is given.
void FileTier::restore() {
  std::vector<int32_t> ids(pool_.num_blocks());
  std::vector<uint64_t> ages(ids.size() + 1);  // by id; 0 means an empty block
  pool_.get_new_blocks(ids);
  const int num_records = file_.num_records();
  for (int32_t record = 1; record <= num_records; ++record) {
    const auto header = file_.read_header(record);
    if (header && restore_record(record, *header)) {
      ages[record] = header->age;
      next_age_ = std::max(next_age_, header->age + 1);
    } else if (!file_.is_empty(record) && !file_.erase(record)) {
      kv::user_error(
          "record {} of the file is damaged and cannot be erased: {}; free the disk, or give "
          "another file",
          record, kv::File::last_error());
    }
  }
  if (!file_.sync()) kv::user_error("syncing the file failed: {}", kv::File::last_error());
  std::ranges::stable_sort(ids, std::greater<>(), [&](int32_t id) { return ages[id]; });
  pool_.free_blocks(ids);  // the last one is overwritten first
}

bool FileTier::restore_record(int32_t record, const Record& header) {
  const BlockKey key{.hash = header.hash,
                     .parent = header.parent,
                     .tokens = header.tokens,
                     .extra_keys = {},
                     .prefix = header.prefix};
  if (pool_.index().find(key) != nullptr) return false;  // a record with this content is there
  if (!file_.read_content(record, header, host_.block(record))) {
    ++metrics_.num_damaged_in_file;
    return false;
  }
  checksums_[record] = header.content_checksum;
  pool_.cache_full_block(record, key);
  ++metrics_.num_restored;
  return true;
}

FileTier::~FileTier() {
  pool_.set_event_sink({});
  finish();
}

void FileTier::save(Job job) {
  std::list<Save> saves;
  for (const int32_t id : fresh_) {
    const lesson06::CachedBlock* const block = pool_.index().block(id);
    if (block == nullptr || !block->extra_keys.empty()) continue;
    const auto tokens = pool_.index().tokens(id);
    saves.push_back({.job = job,
                     .id = id,
                     .record = {.age = next_age_++,
                                .hash = block->hash,
                                .prefix = block->prefix,
                                .parent = block->parent,
                                .tokens = {tokens.begin(), tokens.end()}}});
  }
  // Nothing allocates from here on, so nothing can fail.
  for (const Save& save : saves) pool_.touch({&save.id, 1});
  fresh_.clear();
  num_unsaved_ += static_cast<int>(saves.size());
  arriving_.splice(arriving_.end(), saves);
}

void FileTier::complete(Job done) {
  std::list<Save> arrived;
  const auto end = std::ranges::find_if(arriving_, [&](const Save& s) { return s.job > done; });
  arrived.splice(arrived.end(), arriving_, arriving_.begin(), end);
  writer_.start(std::move(arrived));
  poll();
}

void FileTier::finish() {
  for (poll(); !writer_.idle(); poll()) writer_.wait(std::chrono::milliseconds(100));
  file_.sync();
}

/// Forgets the saves that are done; their blocks may be overwritten again.
void FileTier::poll() {
  for (auto one = writer_.take_done(); !one.empty(); one = writer_.take_done()) {
    const Save& save = one.front();
    metrics_.num_saved += save.outcome == Outcome::kSaved;
    metrics_.num_not_saved += save.outcome == Outcome::kNotSaved;
    if (save.outcome == Outcome::kDamaged) {
      ++metrics_.num_damaged_to_host;
      pool_.evict_blocks({&save.id, 1});
    }
    pool_.free_blocks({&save.id, 1});
    --num_unsaved_;
  }
}

/// An exception counts as not saved: it costs this block its place in the file and no more.
FileTier::Outcome FileTier::write(Save& save) {
  const std::span<const std::byte> content = host_.block(save.id);
  save.record.content_checksum = checksums_[save.id];
  if (checksum_of(content) != save.record.content_checksum) return Outcome::kDamaged;
  return file_.write(save.id, save.record, content) ? Outcome::kSaved : Outcome::kNotSaved;
}

}  // namespace lesson12
