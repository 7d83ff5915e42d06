#include "instruments/watch/sockets/listener.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

#include "common/url.h"
#include "instruments/watch/sockets/catch_up.h"
#include "instruments/watch/sockets/http_source.h"
#include "instruments/watch/sockets/sockets.h"
#include "instruments/watch/watcher.h"

namespace watch {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{50};      // after that the thread looks whether it is to end
constexpr milliseconds kAnswer{2000};  // for a server that is asked for frames
// More frames, or longer ones, wait in the socket. If it is full, too, later ones are missing.
constexpr size_t kMaxWaiting = 100'000;
constexpr size_t kMaxWaitingBytes = size_t{256} << 20;

/// Frames of a publisher, and those that it sends again.
class Subscription {
 public:
  Subscription(const std::string& endpoint, const std::string& replay_endpoint)
      : subscriber_(endpoint, {}, replay_endpoint) {}

  /// Waits for a frame. Returns it after those that were missed.
  std::vector<Frame> receive(milliseconds time) {
    std::vector<Frame> frames;
    if (!std::exchange(has_begun_, true)) replay(frames);
    Frame frame;
    const bool came = subscriber_.receive(frame, time);
    // News of a connection come before its first frame.
    const bool is_new = subscriber_.reconnected() && order_.next_seq() > 0;
    if (is_new || (came && order_.misses_before(frame))) replay(frames);
    if (came) add(frame, frames);
    return frames;
  }

 private:
  void replay(std::vector<Frame>& frames) {
    if (!subscriber_.can_replay()) return;
    catch_up(subscriber_, order_, kAnswer, [&](const Frame& frame) { add(frame, frames); });
  }
  void add(const Frame& frame, std::vector<Frame>& frames) {
    order_.take(frame);
    frames.push_back(frame);
  }

  Subscriber subscriber_;
  Watcher order_;  // knows what is missing, and when a server restarted
  bool has_begun_ = false;
};

/// Returns the frames that have come within a time.
using Source = std::function<std::vector<Frame>(milliseconds)>;

template <class Made>
Source as_source(std::shared_ptr<Made> made) {
  return [made](milliseconds time) { return made->receive(time); };
}

Source source_of(const std::string& endpoint, const std::string& replay_endpoint) {
  const auto url = kv::parse_url(endpoint);
  if (url && (url->scheme == "http" || url->scheme == "https")) {
    return as_source(std::make_shared<HttpSource>(endpoint));
  }
  return as_source(std::make_shared<Subscription>(endpoint, replay_endpoint));
}

}  // namespace

class Listener::Thread {
 public:
  explicit Thread(Source source) : source_(std::move(source)), thread_([this] { run(); }) {}
  ~Thread() {
    ends_ = true;
    thread_.join();
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  size_t num_waiting() const {
    const std::lock_guard lock(mutex_);
    return waiting_.size();
  }
  std::vector<Frame> take(size_t max_frames) {
    const std::lock_guard lock(mutex_);
    const auto count = static_cast<std::ptrdiff_t>(std::min(max_frames, waiting_.size()));
    std::vector<Frame> taken(std::make_move_iterator(waiting_.begin()),
                             std::make_move_iterator(waiting_.begin() + count));
    waiting_.erase(waiting_.begin(), waiting_.begin() + count);
    for (const Frame& frame : taken) waiting_bytes_ -= frame.payload.size();
    return taken;
  }
  std::string error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  /// An exception that left the thread would end the program.
  void run() {
    try {
      listen();
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      error_ = std::string("no more can come: ") + error.what();
    }
  }
  void listen() {
    while (!ends_) {
      if (is_full()) {
        std::this_thread::sleep_for(kLook);
        continue;
      }
      for (Frame& frame : source_(kLook)) hand_on(std::move(frame));
    }
  }
  bool is_full() const {
    const std::lock_guard lock(mutex_);
    return waiting_.size() >= kMaxWaiting || waiting_bytes_ >= kMaxWaitingBytes;
  }
  void hand_on(Frame frame) {
    const std::lock_guard lock(mutex_);
    waiting_bytes_ += frame.payload.size();
    waiting_.push_back(std::move(frame));
  }

  Source source_;             // of the thread alone once it runs
  mutable std::mutex mutex_;  // guards the next three
  std::deque<Frame> waiting_;
  size_t waiting_bytes_ = 0;
  std::string error_;
  std::atomic<bool> ends_ = false;
  std::thread thread_;  // last, because it uses all the others
};

Listener::Listener(const std::string& endpoint, const std::string& replay_endpoint)
    : thread_(std::make_unique<Thread>(source_of(endpoint, replay_endpoint))) {}
Listener::~Listener() = default;
size_t Listener::num_waiting() const { return thread_->num_waiting(); }
std::vector<Frame> Listener::take(size_t max_frames) { return thread_->take(max_frames); }
std::string Listener::error() const { return thread_->error(); }

}  // namespace watch
