#pragma once

// The client's end of HTTP/1.1, on libevent: many calls at once, to several servers, in the thread
// of an event loop.

#include <sys/time.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/url.h"

struct event;
struct event_base;
struct evhttp_connection;
struct evhttp_request;

namespace load {

using Url = kv::HttpServerUrl;

/// A request to a server.
struct Call {
  Url server;
  std::string path;
  std::vector<std::pair<const char*, std::string>> headers = {};  // an empty value is left out
  std::optional<std::string> body = {};                           // makes it a POST
  double timeout = 10;  // seconds in which the server sends nothing
};

// Failures of a call; others are what a handler has thrown.
inline constexpr const char* kNoServer = "no server";  // nothing listens there
inline constexpr const char* kTimedOut = "time-out";

/// Functions to call while the answer comes, in this order.
struct CallHandlers {
  std::function<void(int status, const std::string& type)> on_head = nullptr;
  std::function<void(std::string_view bytes)> on_bytes = nullptr;
  /// The last one. `failure` is empty if the answer is whole.
  std::function<void(const std::string& failure)> on_end = nullptr;
};

class HttpClient {
 public:
  /// If `keeps_connections`, a call takes a connection on which another one has ended. Else each
  /// has its own, so that a connection that fails says something about the server and nothing about
  /// an old connection.
  explicit HttpClient(event_base* loop, bool keeps_connections = false);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  using Id = int64_t;
  /// No handler is called before it returns. A handler that throws ends its call, with that
  /// failure.
  Id send(const Call& call, CallHandlers handlers);
  /// Calls that have not ended.
  size_t num_open() const { return calls_.size(); }
  /// Ends a call; none of its handlers is called any more. One that has ended is no error.
  void cancel(Id id);
  /// Ends a call with a failure, which on_end gets.
  void fail(Id id, const std::string& why);
  /// Calls a function again and again. Once for a client.
  void every(double seconds, std::function<void()> function);

 private:
  struct FreeConnection {
    void operator()(evhttp_connection* connection) const;
  };
  using Connection = std::unique_ptr<evhttp_connection, FreeConnection>;
  struct Open;
  static void on_chunk(evhttp_request* request, void* open);
  static void on_done(evhttp_request* request, void* open);
  Connection connection_to(const Url& server, const std::string& name);
  void sweep();

  event_base* loop_;
  bool keeps_connections_;
  event *sweeper_, *timer_ = nullptr;
  std::function<void()> on_timer_;
  std::unordered_map<Id, std::unique_ptr<Open>> calls_;
  std::map<std::string, std::vector<Connection>> kept_;  // by server
  std::vector<Id> ended_;
  Id next_ = 0;
};

/// As libevent wants it.
timeval time_of(double seconds);

}  // namespace load
