#include "instruments/watch/watcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/error.h"
#include "common/table.h"

namespace watch {
namespace {

void tell(Watcher::Step& step, const std::string& what) {
  step.note += (step.note.empty() ? "" : "; ") + what;
}

}  // namespace

void Watcher::start_over() {
  ++counts_.restarts;
  mirror_.clear();
  next_seq_ = 0;
  rank_.reset();
  last_ts_ = 0;
  began_anew_ = true;
}

Watcher::Step Watcher::take(const Frame& frame) {
  Step step;
  if (frame.seq > kMaxSeq) {
    ++counts_.unreadable;
    tell(step, fmt::format("a batch with number {}, wanted at most {}", frame.seq, kMaxSeq));
    return step;
  }
  std::optional<EventBatch> batch;
  std::string problem;
  try {
    batch = decode(frame.payload);
  } catch (const kv::UserError& error) {
    problem = fmt::format("batch {} makes no sense: {}", frame.seq, error.what());
  }
  if (batch && batch->data_parallel_rank != rank_.value_or(batch->data_parallel_rank)) {
    tell(step,
         fmt::format("batch {} is of data-parallel rank {}, passed over: this watches rank {}",
                     frame.seq, batch->data_parallel_rank, *rank_));
    return step;
  }
  if (batch) rank_ = batch->data_parallel_rank;
  if (frame.seq < next_seq_) {
    // A server that restarted counts from 0 again, and its clock went on. If it has come as far as
    // the old one, its last frame is another one.
    const bool other_last = frame.seq + 1 == next_seq_ && frame.payload != last_payload_;
    if (!batch || (batch->ts <= last_ts_ && !other_last)) {
      ++counts_.repeated;
      return step;
    }
    start_over();
  }
  if (std::exchange(began_anew_, false)) {
    tell(step, "the server restarted, its cache is empty");
  }
  if (const uint64_t missing = frame.seq - next_seq_; missing > 0) {
    counts_.missing += std::min(static_cast<int64_t>(missing), INT64_MAX - counts_.missing);
    tell(step, fmt::format("{} missing before number {}",
                           missing == 1 ? "1 batch is" : fmt::format("{} batches are", missing),
                           frame.seq));
  }
  next_seq_ = frame.seq + 1;
  last_payload_ = frame.payload;
  if (!batch) {
    ++counts_.unreadable;
    tell(step, problem);
    return step;
  }
  if (counts_.batches++ == 0 || first_ts_ == 0) first_ts_ = batch->ts;
  last_ts_ = step.ts = std::max(last_ts_, batch->ts);  // one may lack it
  step.applied = true;
  step.changes = mirror_.apply(*batch);
  counts_.changes += step.changes;
  counts_.unknown += batch->num_unknown;
  counts_.senseless += std::ssize(batch->problems);
  for (const std::string& one : batch->problems) {
    tell(step, fmt::format("batch {} has a part that makes no sense: {}", frame.seq, one));
  }
  if (batch->num_unknown > 0) {
    tell(step, kv::count_of(batch->num_unknown, "event") + " of an unknown kind");
  }
  if (step.changes.not_there > 0) {
    tell(step, kv::count_of(step.changes.not_there, "block") +
                   " removed that had not been stored: something was missed");
  }
  return step;
}

}  // namespace watch
