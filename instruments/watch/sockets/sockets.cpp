#include "instruments/watch/sockets/sockets.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <cstring>
#include <deque>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>
#include <zmq_addon.hpp>

#include "common/error.h"

namespace watch {
namespace {

using Parts = std::vector<std::string>;
using std::chrono::milliseconds;

constexpr size_t kMaxKept = 10'000;      // frames that can be sent again
constexpr size_t kMaxAtOnce = 256;       // of them, sent between two passes of the server
constexpr size_t kMaxAnswers = 16;       // watchers that are answered at the same time
constexpr uint64_t kEnd = ~uint64_t{0};  // the number after the last replayed frame: -1
constexpr int kMaxWaiting = 100'000;     // frames for a watcher that does not keep up

/// One for the whole program, as ZeroMQ wants it. Its sockets close without lingering, so that a
/// watcher that has gone away does not keep the program from ending.
zmq::context_t& context() {
  static zmq::context_t made;
  return made;
}

/// ZeroMQ knows schemes in small letters alone, no slash after the port, and binds no name.
std::string plain(std::string endpoint) {
  const size_t scheme = endpoint.find("://");
  if (scheme == std::string::npos) return endpoint;
  std::transform(endpoint.begin(), endpoint.begin() + static_cast<std::ptrdiff_t>(scheme),
                 endpoint.begin(), [](unsigned char c) { return std::tolower(c); });
  if (endpoint.starts_with("tcp://") && endpoint.ends_with('/')) endpoint.pop_back();
  if (endpoint.starts_with("tcp://localhost:")) endpoint.replace(6, 9, "127.0.0.1");
  return endpoint;
}

/// ZeroMQ closes a socket some time after its owner, so no address is used twice.
std::string unused_address() {
  static std::atomic<int> num_used = 0;
  return fmt::format("inproc://connections-{}", ++num_used);
}

class Socket {
 public:
  Socket(zmq::socket_type type, const char* what, std::string endpoint)
      : what_(what), endpoint_(plain(std::move(endpoint))) {
    with([&] {
      socket_ = zmq::socket_t(context(), type);
      socket_.set(zmq::sockopt::linger, 0);
      socket_.set(zmq::sockopt::sndhwm, kMaxWaiting);
      socket_.set(zmq::sockopt::rcvhwm, kMaxWaiting);
      socket_.set(zmq::sockopt::maxmsgsize, int64_t{kMaxPayload});
      if (endpoint_.find('[') != std::string::npos) socket_.set(zmq::sockopt::ipv6, 1);
    });
  }

  /// Runs `action` and turns ZeroMQ's errors into a UserError with the endpoint. Returns false if
  /// nothing came, after Ctrl-C, or if the receiver has gone away.
  template <class Action>
  bool with(const Action& action) {
    try {
      action();
      return true;
    } catch (const zmq::error_t& error) {
      if (error.num() == EAGAIN || error.num() == EINTR || error.num() == EHOSTUNREACH)
        return false;
      const bool no_address =
          error.num() == EPROTONOSUPPORT || error.num() == EINVAL || error.num() == ENODEV;
      if (no_address) refuse();
      kv::user_error("{} {}: {}", what_, endpoint_, error.what());
    }
  }
  std::string bind() {
    check_port();
    with([&] { socket_.bind(endpoint_); });
    return socket_.get(zmq::sockopt::last_endpoint);
  }
  const std::string& endpoint() const { return endpoint_; }
  void connect() {
    if (endpoint_.starts_with("tcp:") && endpoint_.ends_with(":0")) refuse();  // where none listens
    check_port();
    with([&] { socket_.connect(endpoint_); });
  }
  /// Binds a PAIR socket at `address` to which ZeroMQ tells connections that begin and end.
  void tell_connections(const std::string& address) {
    with([&] {
      constexpr int kEvents = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED;
      if (zmq_socket_monitor(socket_.handle(), address.c_str(), kEvents) != 0) throw zmq::error_t();
    });
  }
  void subscribe(const std::string& topic) { socket_.set(zmq::sockopt::subscribe, topic); }
  void tell_all_subscriptions() { socket_.set(zmq::sockopt::xpub_verboser, 1); }
  void send(const Parts& parts) {
    std::vector<zmq::const_buffer> buffers;
    for (const std::string& part : parts) buffers.push_back(zmq::buffer(part));
    with([&] { zmq::send_multipart(socket_, buffers, zmq::send_flags::dontwait); });
  }
  /// Empty if nothing came within `time`.
  std::optional<Parts> receive(milliseconds time) {
    std::vector<zmq::message_t> messages;
    const bool came = with([&] {
      socket_.set(zmq::sockopt::rcvtimeo, static_cast<int>(time.count()));
      static_cast<void>(zmq::recv_multipart(socket_, std::back_inserter(messages)));
    });
    if (!came || messages.empty()) return std::nullopt;
    Parts parts;
    for (const zmq::message_t& message : messages) parts.push_back(message.to_string());
    return parts;
  }

 private:
  [[noreturn]] void refuse() const {
    kv::user_error(
        "{} {}: not an address; wanted an address as tcp://127.0.0.1:5557 or tcp://[::1]:5557",
        what_, endpoint_);
  }
  /// Refuses a port that no machine has: ZeroMQ would take another one.
  void check_port() const {
    const char* const end = endpoint_.data() + endpoint_.size();
    uint16_t port = 0;
    const auto read = std::from_chars(endpoint_.data() + endpoint_.rfind(':') + 1, end, port);
    if (endpoint_.starts_with("tcp:") && read.ec == std::errc::result_out_of_range) refuse();
  }

  const char* what_;
  std::string endpoint_;
  zmq::socket_t socket_;
};

}  // namespace

struct Publisher::Sockets {
  struct Answer {
    std::string to;     // the watcher that has asked
    uint64_t next = 0;  // number of the frame that it gets next
  };

  Socket publish;
  std::optional<Socket> replay;
  std::deque<Frame> sent;
  std::deque<Answer> answers;
  int num_watchers = 0;

  // XPUB is a PUB that tells of subscriptions.
  explicit Sockets(const std::string& endpoint)
      : publish(zmq::socket_type::xpub, "publish at", endpoint) {
    publish.tell_all_subscriptions();
  }
  void note_watchers(milliseconds time) {
    for (auto parts = publish.receive(time); parts; parts = publish.receive(milliseconds(0))) {
      if (!parts->at(0).empty()) num_watchers += parts->at(0)[0] == 1 ? 1 : -1;
    }
  }
  void note_questions() {
    while (answers.size() < kMaxAnswers) {
      auto asked = replay->receive(milliseconds(0));
      if (!asked) return;
      if (asked->size() != 3 || asked->at(2).size() != 8) continue;
      answers.push_back({.to = std::move(asked->at(0)), .next = seq_of(asked->at(2))});
    }
  }
};

Publisher::Publisher(const std::string& endpoint, const std::string& topic,
                     const std::string& replay_endpoint)
    : sockets_(std::make_unique<Sockets>(endpoint)), topic_(topic) {
  endpoint_ = sockets_->publish.bind();
  if (replay_endpoint.empty()) return;
  sockets_->replay.emplace(zmq::socket_type::router, "replay at", replay_endpoint);
  replay_endpoint_ = sockets_->replay->bind();
}

Publisher::~Publisher() = default;

void Publisher::send(const Frame& frame) {
  sockets_->note_watchers(milliseconds(0));
  sockets_->publish.send({topic_, seq_bytes(frame.seq), frame.payload});
  if (!sockets_->replay) return;
  sockets_->sent.push_back(frame);
  if (sockets_->sent.size() > kMaxKept) sockets_->sent.pop_front();
}

bool Publisher::answer_replays() {
  if (!sockets_->replay) return false;
  sockets_->note_questions();
  auto& answers = sockets_->answers;
  for (size_t num_left = kMaxAtOnce; num_left > 0 && !answers.empty();) {
    auto& [to, next] = answers.front();
    auto frame = std::lower_bound(sockets_->sent.begin(), sockets_->sent.end(), next,
                                  [](const Frame& one, uint64_t seq) { return one.seq < seq; });
    for (; frame != sockets_->sent.end() && num_left > 0; ++frame, --num_left) {
      sockets_->replay->send({to, "", seq_bytes(frame->seq), frame->payload});
      next = frame->seq + 1;
    }
    if (frame != sockets_->sent.end()) break;
    sockets_->replay->send({to, "", seq_bytes(kEnd), ""});
    answers.pop_front();
  }
  return !answers.empty();
}

int Publisher::num_watchers(milliseconds time) {
  sockets_->note_watchers(time);
  return sockets_->num_watchers;
}

struct Subscriber::Sockets {
  Socket subscribe;
  Socket connections;  // news of the subscriber's
  std::string replay_endpoint;
  bool is_connected = false;
  int64_t num_connections = 0, num_told = 0;  // up to now, and when reconnected() was asked

  Sockets(const std::string& endpoint, const std::string& topic, const std::string& replay)
      : subscribe(zmq::socket_type::sub, "watch", endpoint),
        connections(zmq::socket_type::pair, "watch", unused_address()),
        replay_endpoint(replay) {
    subscribe.tell_connections(connections.endpoint());
    connections.connect();
    subscribe.subscribe(topic);
    subscribe.connect();
  }
};

Subscriber::Subscriber(const std::string& endpoint, const std::string& topic,
                       const std::string& replay_endpoint)
    : sockets_(std::make_unique<Sockets>(endpoint, topic, replay_endpoint)) {
  // An endpoint that is none is refused now.
  if (can_replay()) Socket(zmq::socket_type::dealer, "--replay", replay_endpoint).connect();
}

Subscriber::~Subscriber() = default;

bool Subscriber::can_replay() const { return !sockets_->replay_endpoint.empty(); }

bool Subscriber::is_connected() {
  while (const auto parts = sockets_->connections.receive(milliseconds(0))) {
    uint16_t event = 0;  // the first 16 bits of a message, in this machine's byte order
    std::memcpy(&event, parts->at(0).data(), sizeof event);
    sockets_->is_connected = event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
    sockets_->num_connections += sockets_->is_connected;
  }
  return sockets_->is_connected;
}

bool Subscriber::reconnected() {
  is_connected();
  const int64_t before = std::exchange(sockets_->num_told, sockets_->num_connections);
  return before > 0 && sockets_->num_connections > before;
}

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
  // A socket for each question, so that a late answer to an old one reaches nothing.
  Socket asking(zmq::socket_type::dealer, "--replay", sockets_->replay_endpoint);
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

}  // namespace watch
