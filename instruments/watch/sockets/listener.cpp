#include "instruments/watch/sockets/listener.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <iterator>
#include <mutex>
#include <thread>

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

}  // namespace

class Listener::Thread {
 public:
  Thread(const std::string& endpoint, const std::string& replay_endpoint)
      : subscriber_(endpoint, {}, replay_endpoint), thread_([this] { run(); }) {}
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
    if (subscriber_.can_replay()) replay();
    Frame frame;
    while (!ends_) {
      if (is_full()) {
        std::this_thread::sleep_for(kLook);
        continue;
      }
      if (!subscriber_.receive(frame, kLook)) continue;
      if (subscriber_.can_replay() && order_.misses_before(frame)) replay();
      hand_on(frame);
    }
  }
  bool is_full() const {
    const std::lock_guard lock(mutex_);
    return waiting_.size() >= kMaxWaiting || waiting_bytes_ >= kMaxWaitingBytes;
  }
  void replay() {
    subscriber_.replay(order_.next_seq(), kAnswer, [this](const Frame& frame) { hand_on(frame); });
  }
  void hand_on(const Frame& frame) {
    order_.take(frame);
    const std::lock_guard lock(mutex_);
    waiting_.push_back(frame);
    waiting_bytes_ += frame.payload.size();
  }

  Subscriber subscriber_;     // of the thread alone once it runs
  Watcher order_;             // knows what is missing, and when a server began anew
  mutable std::mutex mutex_;  // guards the next three
  std::deque<Frame> waiting_;
  size_t waiting_bytes_ = 0;
  std::string error_;
  std::atomic<bool> ends_ = false;
  std::thread thread_;  // last, because it uses all the others
};

Listener::Listener(const std::string& endpoint, const std::string& replay_endpoint)
    : thread_(std::make_unique<Thread>(endpoint, replay_endpoint)) {}
Listener::~Listener() = default;
size_t Listener::num_waiting() const { return thread_->num_waiting(); }
std::vector<Frame> Listener::take(size_t max_frames) { return thread_->take(max_frames); }
std::string Listener::error() const { return thread_->error(); }

}  // namespace watch
