#include "instruments/watch/watcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "common/error.h"
#include "common/table.h"

namespace watch {
namespace {

void tell(Watcher::Step& step, const std::string& what) {
  step.note += (step.note.empty() ? "" : "; ") + what;
}

}  // namespace

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
  if (frame.seq < next_seq_) {
    // A server that began anew counts from 0 again, and its clock went on.
    if (!batch || batch->ts <= last_ts_) {
      ++counts_.repeated;
      return step;
    }
    ++counts_.restarts;
    mirror_.clear();
    next_seq_ = 0;
    tell(step, "the server began anew, its cache is empty");
  }
  if (const uint64_t missing = frame.seq - next_seq_; missing > 0) {
    counts_.missing += std::min(static_cast<int64_t>(missing), INT64_MAX - counts_.missing);
    tell(step, fmt::format("{} missing before number {}",
                           missing == 1 ? "1 batch is" : fmt::format("{} batches are", missing),
                           frame.seq));
  }
  next_seq_ = frame.seq + 1;
  if (!batch) {
    ++counts_.unreadable;
    tell(step, problem);
    return step;
  }
  if (counts_.batches++ == 0) first_ts_ = batch->ts;
  last_ts_ = step.ts = batch->ts;
  step.applied = true;
  step.changes = mirror_.apply(*batch);
  counts_.changes += step.changes;
  counts_.unknown += batch->num_unknown;
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
