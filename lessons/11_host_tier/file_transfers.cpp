#include "file_transfers.h"

#include <fmt/format.h>

#include <chrono>
#include <stdexcept>
#include <utility>

namespace lesson11 {

FileTransfers::FileTransfers(BlockFile& file, const HostBlocks& host,
                             const lesson07::BlockPool& records, Run run)
    : file_(&file), host_(&host), records_(&records) {
  if (static_cast<int64_t>(host.bytes_per_block()) != file.shape().bytes_per_block ||
      records.index().block_size() != file.shape().block_size ||
      records.num_blocks() > file.num_records()) {
    throw std::invalid_argument(fmt::format(
        "FileTransfers: {} records of {} tokens and {} bytes in the file, {} of {} and {} outside",
        file.num_records(), file.shape().block_size, file.shape().bytes_per_block,
        records.num_blocks(), records.index().block_size(), host.bytes_per_block()));
  }
  if (run == Run::kThread) thread_ = std::thread([this] { serve(); });
}

FileTransfers::~FileTransfers() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    started_.notify_one();
    thread_.join();
  }
  file_->sync();
}

Ticket FileTransfers::start(Way way, std::span<const BlockMove> moves) {
  Batch batch{.way = way, .moves = {}};
  for (const BlockMove& blocks : moves) {
    if (blocks.upper < 0 || blocks.upper >= host_->num_ids()) {
      throw std::out_of_range(fmt::format("FileTransfers: host block {}, wanted 0 to {}",
                                          blocks.upper, host_->num_ids() - 1));
    }
    const lesson06::CachedBlock* known = records_->index().block(blocks.lower);
    if (known == nullptr) {
      throw std::logic_error(
          fmt::format("FileTransfers: nobody knows what record {} holds", blocks.lower));
    }
    const std::span<const int32_t> tokens = records_->index().tokens(blocks.lower);
    batch.moves.push_back({.blocks = blocks,
                           .key = {.hash = known->hash,
                                   .parent = known->parent,
                                   .prefix = known->prefix,
                                   .tokens = {tokens.begin(), tokens.end()},
                                   .extra_keys = known->extra_keys}});
  }
  if (!thread_.joinable()) {
    run(batch);
    completed_ = ++last_;
    return last_;
  }
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(batch));
  }
  started_.notify_one();
  return ++last_;
}

void FileTransfers::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    started_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const Batch batch = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    run(batch);
    lock.lock();
    completed_.fetch_add(1, std::memory_order_release);
    done_.notify_all();
  }
}

void FileTransfers::run(const Batch& batch) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<int32_t> damaged;
  for (const Move& move : batch.moves) {
    if (!copy(batch.way, move)) damaged.push_back(move.blocks.lower);
  }
  if (batch.way == Way::kUp && !batch.moves.empty()) {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    const double now = taken.count() / static_cast<double>(batch.moves.size());
    seconds_per_block_ = smoothed(seconds_per_block_, now);
  }
  const std::lock_guard lock(mutex_);
  damaged_.insert(damaged_.end(), damaged.begin(), damaged.end());
}

bool FileTransfers::copy(Way way, const Move& move) {
  const std::span<std::byte> content = host_->block(move.blocks.upper);
  return way == Way::kDown ? file_->write(move.blocks.lower, move.key.key(), content)
                           : file_->read(move.blocks.lower, move.key.key(), content);
}

void FileTransfers::wait(Ticket ticket) {
  if (ticket > last_) {
    throw std::logic_error(
        fmt::format("FileTransfers: batch {} of {} is waited for", ticket, last_));
  }
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return completed() >= ticket; });
}

std::vector<int32_t> FileTransfers::take_damaged() {
  const std::lock_guard lock(mutex_);
  return std::exchange(damaged_, {});
}

void FileTransfers::forget_all() {
  wait(last_);
  file_->clear();
}

}  // namespace lesson11
