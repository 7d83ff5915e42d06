#include "block_swapper.h"

#include <utility>

#include "common/base/error.h"
#include "swap_blocks.h"

namespace lesson11 {

BlockSwapper::BlockSwapper(PagedKvCache& cache, const HostBlocks& host, const kv::Stream& passes)
    : cache_(cache),
      host_(host),
      passes_(passes),
      stream_(passes.device()),
      passes_so_far_(passes.device()) {}

BlockSwapper::~BlockSwapper() {
  try {
    stream_.synchronize();
  } catch (const kv::DeviceError&) {  // the device is lost, and nothing runs on it
  }
}

Ticket BlockSwapper::start(Way way, std::span<const BlockMove> moves) {
  Batch batch{.ticket = last_ + 1,
              .num_risen = way == Way::kUp ? moves.size() : 0,
              .begin = kv::Event(stream_.device()),
              .end = kv::Event(stream_.device())};
  passes_so_far_.record(passes_);
  passes_so_far_.let_wait(stream_);
  batch.begin.record(stream_);
  try {
    swap_blocks({.cache = &cache_, .host = &host_, .way = way, .moves = moves}, stream_);
    batch.end.record(stream_);
    under_way_.push_back(std::move(batch));
  } catch (...) {
    stream_.synchronize();  // nobody would know of these copies
    throw;
  }
  return last_ = under_way_.back().ticket;
}

Ticket BlockSwapper::completed() {
  while (!under_way_.empty() && under_way_.front().end.done()) finish_first();
  return last_ - std::ssize(under_way_);
}

void BlockSwapper::wait(Ticket ticket) {
  while (!under_way_.empty() && under_way_.front().ticket <= ticket) {
    under_way_.front().end.wait();
    finish_first();
  }
}

void BlockSwapper::let_passes_wait(Ticket ticket) {
  for (const Batch& batch : under_way_) {
    if (batch.ticket == ticket) batch.end.let_wait(passes_);
  }
}

void BlockSwapper::finish_first() {
  const Batch& batch = under_way_.front();
  if (batch.num_risen > 0) {
    const double now = batch.end.seconds_since(batch.begin) / static_cast<double>(batch.num_risen);
    seconds_per_block_ = smoothed(seconds_per_block_, now);
  }
  under_way_.pop_front();
}

}  // namespace lesson11
