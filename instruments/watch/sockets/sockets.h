#pragma once

// Frames over ZeroMQ, as vLLM sends them: a PUB socket with three parts a frame (topic, number,
// payload), and beside it a ROUTER that sends the last frames again to a watcher that asks. In a
// build without ZeroMQ the constructors throw UserError, which says what to install.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "instruments/watch/kv_events.h"

namespace watch {

/// Sends frames to the watchers connected at that moment, and never waits for a watcher.
class Publisher final : public FrameSink {
 public:
  /// Binds: "tcp://*:5557". `replay_endpoint` may be empty. Throws UserError.
  Publisher(const std::string& endpoint, const std::string& topic = {},
            const std::string& replay_endpoint = {});
  ~Publisher() override;

  void send(const Frame& frame) override;
  /// Sends frames again to watchers that have asked for them: at most 256 in a call, so that a
  /// server between two passes is never held up for long. True if there is more to send.
  bool answer_replays();
  /// Number of subscribers. Waits up to `time` for the next one that comes or goes.
  int num_watchers(std::chrono::milliseconds time);
  const std::string& endpoint() const { return endpoint_; }  // with the port, where it was *
  const std::string& replay_endpoint() const { return replay_endpoint_; }

 private:
  struct Sockets;
  std::unique_ptr<Sockets> sockets_;
  std::string topic_, endpoint_, replay_endpoint_;
};

class Subscriber {
 public:
  /// Connects: "tcp://HOST:5557". Frames come whose topic begins with `topic`. Throws UserError.
  explicit Subscriber(const std::string& endpoint, const std::string& topic = {},
                      const std::string& replay_endpoint = {});
  ~Subscriber();

  /// Returns false if no frame came within this time.
  bool receive(Frame& frame, std::chrono::milliseconds time);
  /// Asks for the frames from `seq` on, and hands them on one after the other. False if the server
  /// was silent for this time.
  bool replay(uint64_t seq, std::chrono::milliseconds time,
              const std::function<void(const Frame&)>& take);
  bool can_replay() const;
  /// True if the server is there: it is connected at this moment.
  bool is_connected();
  /// True once for each connection after the first: one was lost in between.
  bool reconnected();
  int64_t num_refused() const { return num_refused_; }  // messages that were no frames

 private:
  struct Sockets;
  std::unique_ptr<Sockets> sockets_;
  int64_t num_refused_ = 0;
};

}  // namespace watch
