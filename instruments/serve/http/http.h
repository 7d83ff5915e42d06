#pragma once

// HTTP/1.1 on libevent: one thread, a loop, and exchanges of a request and its reply. Only
// the files of this folder know libevent.

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct event_base;
struct evhttp_request;

namespace serve {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8000;             // 0 means any free one
  int max_connections = 1024;  // more of them wait until one is closed
  size_t max_body = size_t{8} << 20;
  size_t max_headers = size_t{64} << 10;
  int idle_seconds = 30;  // a connection without a request that sends or takes nothing is closed
  /// Bytes that a client may leave unread. One that is further behind, and still so after
  /// kMaxBehind, is cut off. A burst is no reason: its bytes need some turns of the loop to leave.
  size_t max_unread = size_t{1} << 20;
  static constexpr std::chrono::milliseconds kMaxBehind{500};
};

/// A request and its reply: reply(), or begin_stream(), any number of write() and end_stream().
/// Only the loop's thread may use it. Where the client has gone, all of them do nothing.
class Exchange {
 public:
  explicit Exchange(evhttp_request* request);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  const std::string& method() const { return method_; }
  const std::string& path() const { return path_; }  // decoded, without the query
  std::string_view body() const { return body_; }
  /// Why the end of the request is in doubt; empty if it is clear. Such a request must be refused.
  /// Its connection ends with the reply.
  const std::string& fault() const { return fault_; }
  /// A header's value; empty if there is none.
  std::string header(const char* name) const;

  void add_header(const char* name, const std::string& value);
  void reply(int status, std::string_view body, const char* type = "application/json");
  void begin_stream(const char* type);
  void write(std::string_view bytes);
  void end_stream();
  /// True until the reply is given, or the client has gone.
  bool is_open() const { return request_ != nullptr && !ended_; }

  /// Called once if the client goes before the reply has ended, or is cut off.
  std::function<void()> on_gone;

 private:
  friend class HttpServer;
  bool is_behind(size_t max_unread);

  evhttp_request* request_;
  std::string method_, path_, body_, fault_;
  bool ended_ = false;  // libevent has all of the reply, and frees the request
  std::optional<std::chrono::steady_clock::time_point> behind_since_;
};

class HttpServer {
 public:
  using Handler = std::function<void(const std::shared_ptr<Exchange>&)>;

  /// Listens from now on. The handler is called for each request, once it is there in full. Throws
  /// UserError for an address that cannot be listened at.
  HttpServer(const HttpOptions& options, Handler handler);
  ~HttpServer();

  int port() const;
  /// libevent's loop, for what else is to run on this thread.
  event_base* loop() const;

  /// Serves until stop(), or until drain() is done. Rethrows what a posted function has thrown.
  void run();
  /// Runs a function on the loop's thread. May be called from any thread.
  void post(std::function<void()> function);
  /// Runs a function on the loop's thread when the bytes that were written have left for the
  /// clients. Only that thread may call it.
  void after_writing(std::function<void()> function);
  /// Accepts no more connections. run() returns when the last reply has left, or after `grace`.
  void drain(std::chrono::milliseconds grace);
  void stop();
  /// Calls `on_signal` at the first SIGTERM or SIGINT. The second one ends run().
  void on_first_signal(std::function<void()> on_signal);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace serve
