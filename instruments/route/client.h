#pragma once

// The client's end of a router: calls to several servers on the loop of serve::HttpServer. Each
// call has a connection of its own, so that a connection that fails says something about the server
// and nothing about an old connection.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "instruments/load/client.h"

namespace route {

/// A request to a server.
struct Call {
  load::Url server;
  std::string path;
  std::vector<std::pair<const char*, std::string>> headers = {};  // an empty value is left out
  std::optional<std::string> body = {};                           // makes it a POST
  double timeout = 10;  // seconds in which the server sends nothing
};

inline constexpr const char* kNoServer = "nothing listens there";  // a failure
inline constexpr const char* kTimedOut = "time-out";               // a failure

/// What is called while the answer comes, in this order.
struct CallHandlers {
  std::function<void(int status, const std::string& type)> on_head = nullptr;
  std::function<void(std::string_view bytes)> on_bytes = nullptr;
  /// The last one. `failure` is empty if the answer is whole.
  std::function<void(const std::string& failure)> on_end = nullptr;
};

class Client {
 public:
  explicit Client(event_base* loop);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  using Id = int64_t;
  /// No handler is called before it returns. A handler that throws ends its call, with that
  /// failure.
  Id send(const Call& call, CallHandlers handlers);
  /// Ends a call; none of its handlers is called any more. One that has ended is no error.
  void cancel(Id id);
  /// Ends a call with a failure, which on_end gets.
  void fail(Id id, const std::string& why);
  /// Calls a function again and again. Once for a client.
  void every(double seconds, std::function<void()> function);

 private:
  struct Open;
  static void on_chunk(evhttp_request* request, void* open);
  static void on_done(evhttp_request* request, void* open);
  void sweep();

  event_base* loop_;
  event *sweeper_, *timer_ = nullptr;
  std::function<void()> on_timer_;
  std::unordered_map<Id, std::unique_ptr<Open>> calls_;
  std::vector<Id> ended_;
  Id next_ = 0;
};

}  // namespace route
