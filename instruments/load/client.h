#pragma once

// The client's end of HTTP/1.1, on libevent: many requests at once in one thread.

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "instruments/load/answer.h"

struct event;
struct event_base;
struct evhttp_connection;
struct evhttp_request;

namespace load {

/// "http://HOST:PORT/PATH".
struct Url {
  std::string host;
  int port = 80;
  std::string path;  // before /v1; no slash at its end
  std::string text;  // as messages show it
};
/// Throws UserError, which names the option, for anything else; https is refused by name.
Url parse_url(const std::string& text, const char* option = "--url");

struct ClientOptions {
  Url url;
  std::string api_key;
  double timeout = 300;  // seconds in which a server sends nothing
};

class Client {
 public:
  explicit Client(const ClientOptions& options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// The body of an answer with status 200. Throws UserError for any other answer, and where there
  /// is none: the message says what to type.
  std::string get(const std::string& path);

  /// Sends a request whose answer is a stream.
  void send(size_t request, const std::string& path, const std::string& body);
  /// Requests that have not ended.
  size_t num_open() const { return calls_.size(); }
  /// Handles what comes, until a request ends or `seconds` have passed. Returns what has ended.
  std::vector<Outcome> wait(double seconds);

 private:
  struct Call;
  static void on_chunk(evhttp_request* request, void* call);
  static void on_error(int error, void* call);
  static void on_done(evhttp_request* request, void* call);
  void start(std::unique_ptr<Call> call, const std::string& path, const std::string* body,
             double timeout);
  evhttp_connection* take_connection();

  ClientOptions options_;
  event_base* base_;
  event* timer_;                                      // ends a wait
  std::vector<evhttp_connection*> connections_;       // all
  std::vector<evhttp_connection*> free_connections_;  // without a request
  std::list<std::unique_ptr<Call>> calls_;
  std::vector<Outcome> ended_;
};

}  // namespace load
