#pragma once

// A server for tests: each request is answered with bytes that a test chooses, right or wrong.

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace kvtest {

class TinyServer {
 public:
  struct Request {
    std::string head, body;
    int number = 0;  // of the POST requests so far
    bool is_models() const { return head.starts_with("GET /v1/models "); }
  };
  /// The bytes of the answer; the connection ends after them if they end it ("" at once).
  struct Reply {
    std::string bytes;
    bool close = false;
    int hold_ms = 0;  // before it
  };
  using Handler = std::function<Reply(const Request&)>;

  explicit TinyServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener_, 512) == 0);
    socklen_t size = sizeof address;
    REQUIRE(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept(); });
  }
  ~TinyServer() {
    stops_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const int socket : sockets_) ::shutdown(socket, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
    for (const int socket : sockets_) ::close(socket);
    ::close(listener_);
  }
  TinyServer(const TinyServer&) = delete;
  TinyServer& operator=(const TinyServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int num_posts() const { return num_posts_; }

  static std::string with_length(int status, const std::string& body) {
    return "HTTP/1.1 " + std::to_string(status) +
           " X\r\nContent-Type: application/json\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  static std::string models() {
    return with_length(200, R"({"object":"list","data":[{"id":"tiny"}]})");
  }
  static std::string chunk(const std::string& bytes) {
    char size[20];
    std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
    return size + bytes + "\r\n";
  }
  static std::string stream_head() {
    return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: "
           "chunked\r\n\r\n";
  }
  static std::string event(const std::string& text) {
    return "data: {\"choices\":[{\"index\":0,\"text\":\"" + text +
           "\",\"finish_reason\":null}]}\n\n";
  }
  /// A whole answer of two tokens.
  static std::string stream(const std::string& text) {
    return stream_head() + chunk(event(text)) + chunk(event("!")) +
           chunk(
               "data: "
               "{\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":2}}\n\n") +
           chunk("data: [DONE]\n\n") + "0\r\n\r\n";
  }

 private:
  void accept() {
    for (int socket; (socket = ::accept(listener_, nullptr, nullptr)) >= 0;) {
      const int on = 1;
      ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      const std::lock_guard lock(mutex_);
      sockets_.push_back(socket);
      threads_.emplace_back([this, socket] { serve(socket); });
    }
  }
  void serve(int socket) {
    std::string in;
    for (;;) {
      Request request;
      if (!read(socket, in, request)) break;
      if (request.head.starts_with("POST ")) request.number = num_posts_++;
      const Reply reply = request.is_models() ? Reply{models()} : handler_(request);
      for (int ms = 0; ms < reply.hold_ms && !stops_; ms += 10) ::usleep(10'000);
      if (::send(socket, reply.bytes.data(), reply.bytes.size(), MSG_NOSIGNAL) < 0 || reply.close)
        break;
    }
    ::shutdown(socket, SHUT_RDWR);
  }
  static bool read(int socket, std::string& in, Request& request) {
    const auto more = [&] {
      char buffer[4096];
      const ssize_t count = ::recv(socket, buffer, sizeof buffer, 0);
      if (count > 0) in.append(buffer, static_cast<size_t>(count));
      return count > 0;
    };
    size_t end;
    while ((end = in.find("\r\n\r\n")) == in.npos) {
      if (!more()) return false;
    }
    request.head = in.substr(0, end);
    const size_t at = request.head.find("Content-Length: ");
    const size_t length = at == in.npos ? 0 : std::stoul(request.head.substr(at + 16));
    while (in.size() < end + 4 + length) {
      if (!more()) return false;
    }
    request.body = in.substr(end + 4, length);
    in.erase(0, end + 4 + length);
    return true;
  }

  Handler handler_;
  int listener_ = -1, port_ = 0;
  std::atomic<bool> stops_ = false;
  std::atomic<int> num_posts_ = 0;
  std::mutex mutex_;
  std::vector<int> sockets_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace kvtest
