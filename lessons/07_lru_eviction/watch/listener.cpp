#include "listener.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <iterator>
#include <mutex>
#include <thread>

#include "sockets.h"
#include "watcher.h"

namespace lesson07::watch {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{50};         // then it looks whether it is to end
constexpr milliseconds kAnswer{2000};     // for a server that is asked for frames
constexpr size_t kMostWaiting = 100'000;  // more wait in the socket, and later ones are missing

}  // namespace

class Listener::Thread {
 public:
  Thread(const std::string& endpoint, const std::string& replay_endpoint)
      : subscriber_(endpoint, {}, replay_endpoint), thread_([this] { listen(); }) {}
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
  std::vector<Frame> take(size_t most) {
    const std::lock_guard lock(mutex_);
    const auto end =
        waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(most, waiting_.size()));
    std::vector<Frame> taken(std::make_move_iterator(waiting_.begin()),
                             std::make_move_iterator(end));
    waiting_.erase(waiting_.begin(), end);
    return taken;
  }

 private:
  void listen() {
    if (subscriber_.can_replay()) replay();
    Frame frame;
    while (!ends_) {
      if (num_waiting() >= kMostWaiting) {
        std::this_thread::sleep_for(kLook);
        continue;
      }
      if (!subscriber_.receive(frame, kLook)) continue;
      if (subscriber_.can_replay() && order_.misses_before(frame)) replay();
      hand_on(frame);
    }
  }
  void replay() {
    subscriber_.replay(order_.next_seq(), kAnswer, [this](const Frame& frame) { hand_on(frame); });
  }
  void hand_on(const Frame& frame) {
    order_.take(frame);
    const std::lock_guard lock(mutex_);
    waiting_.push_back(frame);
  }

  Subscriber subscriber_;  // of the thread alone once it runs
  Watcher order_;          // knows what is missing, and when a server began anew
  mutable std::mutex mutex_;
  std::deque<Frame> waiting_;
  std::atomic<bool> ends_ = false;
  std::thread thread_;  // last: it uses all the others
};

Listener::Listener(const std::string& endpoint, const std::string& replay_endpoint)
    : thread_(std::make_unique<Thread>(endpoint, replay_endpoint)) {}
Listener::~Listener() = default;
size_t Listener::num_waiting() const { return thread_->num_waiting(); }
std::vector<Frame> Listener::take(size_t most) { return thread_->take(most); }

}  // namespace lesson07::watch
