#include "feed.h"

#include <algorithm>
#include <iterator>

#include "common/base/error.h"
#include "recording.h"

namespace lesson07::watch {

namespace {

constexpr size_t kMostAtOnce = 1000;  // frames: no picture waits for more

}  // namespace

Feed::Feed(const std::string& what, const std::string& replay_endpoint) : name_(what) {
  if (is_endpoint(what)) {
    listener_ = std::make_unique<Listener>(what, replay_endpoint);
    return;
  }
  if (!replay_endpoint.empty()) {
    kv::user_error("watch {}: a recording has all it has; only a server is asked at {}", what,
                   replay_endpoint);
  }
  RecordingReader reader(what);
  for (Frame frame; reader.next(frame);) frames_.push_back(std::move(frame));
  if (frames_.empty()) kv::user_error("watch {}: there is no batch in it", what);
}

size_t Feed::end_of_step(size_t begin, int count) {
  if (!is_live()) {
    return std::min(begin + static_cast<size_t>(std::max(count, 1)), frames_.size());
  }
  const auto known = ends_.find({begin, count});
  if (known != ends_.end()) return known->second;
  const size_t most = count > 0 ? static_cast<size_t>(count) : kMostAtOnce;
  if (frames_.size() < begin + most) {
    std::ranges::move(listener_->take(begin + most - frames_.size()), std::back_inserter(frames_));
  }
  const size_t end = std::min(begin + most, frames_.size());
  if (end > begin) ends_[{begin, count}] = end;
  return end;
}

}  // namespace lesson07::watch
