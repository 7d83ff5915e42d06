#pragma once

// Sends a load: many requests at once in one thread, whose answers are streams.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "instruments/load/answer.h"
#include "instruments/load/http_client.h"

namespace load {

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
  size_t num_open() const { return http_->num_open(); }
  /// Handles what comes, until a request ends or `seconds` have passed. Returns what has ended.
  std::vector<Outcome> wait(double seconds);

 private:
  struct Answer;
  HttpClient::Id start(std::shared_ptr<Answer> answer, const std::string& path,
                       std::optional<std::string> body, double timeout);

  ClientOptions options_;
  event_base* loop_;
  event* timer_;  // ends a wait
  std::vector<Outcome> ended_;
  std::optional<HttpClient> http_;
};

}  // namespace load
