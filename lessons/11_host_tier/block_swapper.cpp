#include "block_swapper.h"

#include <utility>

#include "common/error.h"
#include "swap_blocks.h"

namespace lesson11 {

BlockSwapper::BlockSwapper(const BlockRegions& regions, const HostBlocks& host,
                           const kv::Stream& passes)
    : regions_(regions),
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

Job BlockSwapper::start(Direction direction, std::span<const BlockMove> moves) {
  InFlight job{.job = last_ + 1,
               .num_loaded = direction == Direction::kLoad ? moves.size() : 0,
               .begin = kv::Event(stream_.device()),
               .end = kv::Event(stream_.device())};
  passes_so_far_.record(passes_);
  passes_so_far_.let_wait(stream_);
  job.begin.record(stream_);
  try {
    swap_blocks({.regions = &regions_, .host = &host_, .direction = direction, .moves = moves},
                stream_);
    job.end.record(stream_);
    in_flight_.push_back(std::move(job));
  } catch (...) {
    stream_.synchronize();  // copies that run now belong to no job
    throw;
  }
  return last_ = in_flight_.back().job;
}

Job BlockSwapper::completed() {
  while (!in_flight_.empty() && in_flight_.front().end.done()) complete_first();
  return last_ - std::ssize(in_flight_);
}

void BlockSwapper::wait(Job job) {
  while (!in_flight_.empty() && in_flight_.front().job <= job) {
    in_flight_.front().end.wait();
    complete_first();
  }
}

void BlockSwapper::let_passes_wait(Job job) {
  for (const InFlight& one : in_flight_) {
    if (one.job == job) one.end.let_wait(passes_);
  }
}

void BlockSwapper::complete_first() {
  const InFlight& first = in_flight_.front();
  if (first.num_loaded > 0) {
    const double seconds = first.end.seconds_since(first.begin);
    seconds_per_block_ =
        smoothed(seconds_per_block_, seconds / static_cast<double>(first.num_loaded));
  }
  in_flight_.pop_front();
}

}  // namespace lesson11
