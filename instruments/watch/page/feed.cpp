#include "instruments/watch/page/feed.h"

#include <algorithm>

#include "common/error.h"
#include "common/url.h"
#include "instruments/watch/recording.h"

namespace watch {

namespace {

constexpr size_t kMaxAtOnce = 1000;  // frames of one step, so that a picture never waits for more

}  // namespace

bool Feed::is_http(const std::string& what) {
  const auto url = kv::parse_url(what);
  return url && url->scheme == "http";
}

Feed::Feed(const std::string& what, const std::string& replay_endpoint, size_t max_bytes)
    : name_(what), max_bytes_(max_bytes) {
  if (is_endpoint(what)) {
    listener_ = std::make_unique<Listener>(what, replay_endpoint);
    return;
  }
  if (!replay_endpoint.empty()) {
    kv::user_error("watch {}: a recording has no replay endpoint, found {}; leave it out", what,
                   replay_endpoint);
  }
  RecordingReader reader(what);
  for (Frame frame; reader.next(frame);) frames_.push_back(std::move(frame));
  if (frames_.empty())
    kv::user_error("watch {}: no batch in it, wanted at least one; record again", what);
}

size_t Feed::end_of_step(size_t begin, int count) {
  if (!is_live()) {
    return std::min(begin + static_cast<size_t>(std::max(count, 1)), frames_.size());
  }
  const auto known = ends_.find({begin, count});
  if (known != ends_.end()) return known->second;
  drop_before(begin);
  const size_t max_frames = count > 0 ? static_cast<size_t>(count) : kMaxAtOnce;
  const size_t num_known = num_dropped_ + frames_.size();
  if (num_known < begin + max_frames) receive(begin + max_frames - num_known);
  const size_t end = std::min(begin + max_frames, num_dropped_ + frames_.size());
  if (end > begin) ends_[{begin, count}] = end;
  return end;
}

void Feed::receive(size_t count) {
  for (Frame& frame : listener_->take(count)) {
    num_bytes_ += frame.payload.size();
    frames_.push_back(std::move(frame));
  }
}

void Feed::drop_before(size_t begin) {
  while (num_bytes_ > max_bytes_ && num_dropped_ < begin) {
    after_dropped_.take(frames_.front());
    num_bytes_ -= frames_.front().payload.size();
    frames_.pop_front();
    ++num_dropped_;
  }
}

}  // namespace watch
