#include "sockets.h"

#include <zmq.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/error.h"

namespace lesson07::watch {
namespace {

using Parts = std::vector<std::string>;
using std::chrono::milliseconds;

constexpr size_t kReplayed = 10'000;     // frames that are kept to be sent again
constexpr uint64_t kEnd = ~uint64_t{0};  // the number after the last replayed frame: -1
constexpr int kMostWaiting = 100'000;    // frames for a watcher who does not keep up

/// One for the whole program, as ZeroMQ wants it. Its sockets close without lingering, so that
/// nobody who has gone away keeps it from ending.
void* context() {
  static const std::unique_ptr<void, int (*)(void*)> made(zmq_ctx_new(), &zmq_ctx_term);
  return made.get();
}

class Socket {
 public:
  Socket(int type, const char* what, std::string endpoint)
      : what_(what), endpoint_(std::move(endpoint)), socket_(zmq_socket(context(), type)) {
    if (socket_ == nullptr) fail();
    set(ZMQ_LINGER, 0);
    set(ZMQ_SNDHWM, kMostWaiting);
    set(ZMQ_RCVHWM, kMostWaiting);
    const int64_t longest = kMaxPayload;
    if (zmq_setsockopt(socket_, ZMQ_MAXMSGSIZE, &longest, sizeof longest) != 0) fail();
  }
  ~Socket() { zmq_close(socket_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  void set(int option, int value) {
    if (zmq_setsockopt(socket_, option, &value, sizeof value) != 0) fail();
  }
  std::string bind() {
    if (zmq_bind(socket_, endpoint_.c_str()) != 0) fail();
    std::string bound(256, '\0');
    size_t size = bound.size();
    if (zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, bound.data(), &size) != 0) fail();
    bound.resize(size - 1);
    return bound;
  }
  void connect() {
    if (zmq_connect(socket_, endpoint_.c_str()) != 0) fail();
  }
  void subscribe(const std::string& topic) {
    if (zmq_setsockopt(socket_, ZMQ_SUBSCRIBE, topic.data(), topic.size()) != 0) fail();
  }
  void send(const Parts& parts) {
    for (size_t i = 0; i < parts.size(); ++i) {
      const int more = i + 1 < parts.size() ? ZMQ_SNDMORE : 0;
      const std::string& part = parts[i];
      if (zmq_send(socket_, part.data(), part.size(), more | ZMQ_DONTWAIT) >= 0) continue;
      if (zmq_errno() != EAGAIN && zmq_errno() != EINTR && zmq_errno() != EHOSTUNREACH) fail();
      return;  // whoever it was for has gone away
    }
  }
  /// No value: nothing came. Ctrl-C ends the wait, too.
  std::optional<Parts> receive(milliseconds time) {
    zmq_pollitem_t item{.socket = socket_, .fd = 0, .events = ZMQ_POLLIN, .revents = 0};
    if (zmq_poll(&item, 1, static_cast<long>(time.count())) <= 0) return std::nullopt;
    Parts parts;
    for (bool more = true; more;) {
      zmq_msg_t message;
      zmq_msg_init(&message);
      if (zmq_msg_recv(&message, socket_, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&message);
        return std::nullopt;
      }
      parts.emplace_back(static_cast<const char*>(zmq_msg_data(&message)), zmq_msg_size(&message));
      more = zmq_msg_more(&message) != 0;
      zmq_msg_close(&message);
    }
    return parts;
  }

 private:
  [[noreturn]] void fail() const {
    kv::user_error("{} {}: {}", what_, endpoint_, zmq_strerror(zmq_errno()));
  }
  const char* what_;
  std::string endpoint_;
  void* socket_;
};

}  // namespace

struct Publisher::Sockets {
  Socket publish;
  std::optional<Socket> replay;
  std::deque<Frame> sent;
  int num_watchers = 0;

  // XPUB is a PUB that says who subscribes.
  explicit Sockets(const std::string& endpoint) : publish(ZMQ_XPUB, "publish at", endpoint) {
    publish.set(ZMQ_XPUB_VERBOSER, 1);
  }
  void note_watchers(milliseconds time) {
    for (auto parts = publish.receive(time); parts; parts = publish.receive(milliseconds(0))) {
      if (!parts->at(0).empty()) num_watchers += parts->at(0)[0] == 1 ? 1 : -1;
    }
  }
};

Publisher::Publisher(const std::string& endpoint, const std::string& topic,
                     const std::string& replay_endpoint)
    : sockets_(std::make_unique<Sockets>(endpoint)), topic_(topic) {
  endpoint_ = sockets_->publish.bind();
  if (replay_endpoint.empty()) return;
  sockets_->replay.emplace(ZMQ_ROUTER, "replay at", replay_endpoint);
  replay_endpoint_ = sockets_->replay->bind();
}

Publisher::~Publisher() = default;

void Publisher::send(const Frame& frame) {
  sockets_->note_watchers(milliseconds(0));
  sockets_->publish.send({topic_, seq_bytes(frame.seq), frame.payload});
  if (!sockets_->replay) return;
  sockets_->sent.push_back(frame);
  if (sockets_->sent.size() > kReplayed) sockets_->sent.pop_front();
  answer_replays();
}

void Publisher::answer_replays() {
  if (!sockets_->replay) return;
  while (const auto asked = sockets_->replay->receive(milliseconds(0))) {
    if (asked->size() != 3 || asked->at(2).size() != 8) continue;
    const uint64_t from = seq_of(asked->at(2));
    for (const Frame& frame : sockets_->sent) {
      if (frame.seq < from) continue;
      sockets_->replay->send({asked->at(0), "", seq_bytes(frame.seq), frame.payload});
    }
    sockets_->replay->send({asked->at(0), "", seq_bytes(kEnd), ""});
  }
}

int Publisher::num_watchers(milliseconds time) {
  sockets_->note_watchers(time);
  return sockets_->num_watchers;
}

struct Subscriber::Sockets {
  Socket subscribe;
  std::string replay_endpoint;
};

Subscriber::Subscriber(const std::string& endpoint, const std::string& topic,
                       const std::string& replay_endpoint)
    : sockets_(new Sockets{.subscribe = {ZMQ_SUB, "watch", endpoint},
                           .replay_endpoint = replay_endpoint}) {
  sockets_->subscribe.subscribe(topic);
  sockets_->subscribe.connect();
  if (can_replay()) Socket(ZMQ_DEALER, "--replay", replay_endpoint).connect();  // or it throws now
}

Subscriber::~Subscriber() = default;

bool Subscriber::can_replay() const { return !sockets_->replay_endpoint.empty(); }

bool Subscriber::receive(Frame& frame, milliseconds time) {
  auto parts = sockets_->subscribe.receive(time);
  if (!parts) return false;
  if (parts->size() != 3 || parts->at(1).size() != 8 || parts->at(2).size() > kMaxPayload) {
    ++num_refused_;
    return false;
  }
  frame = {.seq = seq_of(parts->at(1)), .payload = std::move(parts->at(2))};
  return true;
}

bool Subscriber::replay(uint64_t seq, milliseconds time,
                        const std::function<void(const Frame&)>& take) {
  // A socket for each question: what comes late for an old one finds nobody.
  Socket asking(ZMQ_DEALER, "--replay", sockets_->replay_endpoint);
  asking.connect();
  asking.send({"", seq_bytes(seq)});
  while (auto parts = asking.receive(time)) {
    if (parts->size() != 3 || parts->at(1).size() != 8) {
      ++num_refused_;
      continue;
    }
    Frame frame{.seq = seq_of(parts->at(1)), .payload = std::move(parts->at(2))};
    if (frame.seq == kEnd) return true;
    take(frame);
  }
  return false;
}

}  // namespace lesson07::watch
