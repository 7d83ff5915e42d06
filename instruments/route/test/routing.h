#pragma once

// A router inside the test's process, servers as programs, and servers that do what a test says.

#define KV_SERVE_TESTS_SERVER
#include <sys/wait.h>

#include <atomic>
#include <csignal>

#include "instruments/load/test/tiny_server.h"
#include "instruments/route/router.h"
#include "instruments/serve/test/support.h"

namespace route_test {

using namespace serve_test;
using kvtest::TinyServer;

inline std::string url_of(int port) { return "http://127.0.0.1:" + std::to_string(port); }

/// The sum of a metric over its lines.
inline double sum_of(const std::string& text, const std::string& name) {
  double sum = 0;
  for (size_t at = 0; (at = text.find("\n" + name + "{", at)) != text.npos; ++at) {
    sum += std::stod(text.substr(text.find("} ", at) + 2));
  }
  return sum;
}

/// A router that runs as long as this object.
class Routing {
 public:
  explicit Routing(std::vector<std::string> servers, route::RouterOptions options = {})
      : router_(with(std::move(options), std::move(servers))), thread_([this] { router_.run(); }) {}
  ~Routing() {
    router_.stop();
    if (thread_.joinable()) thread_.join();
  }
  route::Router& router() { return router_; }
  void join() { thread_.join(); }
  int port() const { return router_.port(); }
  Client::Reply ask(const std::string& request) const { return serve_test::ask(port(), request); }
  Client::Reply complete(const json& body) const {
    return ask(post("/v1/completions", body.dump()));
  }
  double metric(const std::string& name) const {
    const std::string body = ask(get("/metrics")).body;
    REQUIRE(body.find("\ncourse:route_" + name) != body.npos);  // it would be 0
    return sum_of(body, "course:route_" + name);
  }
  bool becomes_exact(double servers) const {
    return eventually([&] { return metric("up") == servers && metric("exact") == servers; });
  }

 private:
  static route::RouterOptions with(route::RouterOptions options, std::vector<std::string> servers) {
    options.servers = std::move(servers);
    options.http.port = 0;
    options.model_dir = KV_SOURCE_DIR "/models/tiny";
    options.quiet = true;
    return options;
  }
  route::Router router_;
  std::thread thread_;
};

/// ./course serve as a process of its own, which can be killed. (Servers inside this process would
/// share the model, and with it the memory of a pass.)
class Program {
 public:
  explicit Program(int port = 0, std::vector<std::string> more = {}) {
    int out[2];
    REQUIRE(::pipe(out) == 0);
    const auto serve = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "serve";
    const std::string number = std::to_string(port);
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(out[1], STDOUT_FILENO);
      ::close(out[0]);
      ::close(out[1]);
      std::vector<std::string> words = {"serve",    "--model",      KV_SOURCE_DIR "/models/tiny",
                                        "--device", "cpu",          "--port",
                                        number,     "--num-blocks", "256"};
      words.insert(words.end(), more.begin(), more.end());
      std::vector<char*> arguments;
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      ::execv(serve.c_str(), arguments.data());
      ::_exit(127);
    }
    ::close(out[1]);
    std::string text;
    for (char one; text.find("http://127.0.0.1:") == text.npos || !text.ends_with('\n');) {
      REQUIRE(::read(out[0], &one, 1) == 1);
      text += one;
    }
    ::close(out[0]);
    port_ = std::stoi(text.substr(text.find("http://127.0.0.1:") + 17));
  }
  ~Program() { kill(); }
  Program(const Program&) = delete;
  int port() const { return port_; }
  Client::Reply ask(const std::string& request) const { return serve_test::ask(port_, request); }
  Client::Reply complete(const json& body) const {
    return ask(post("/v1/completions", body.dump()));
  }
  /// The sum of a metric over its lines.
  double metric(const std::string& name) const { return sum_of(ask(get("/metrics")).body, name); }
  bool becomes_idle() const {
    return eventually([&] {
      return metric("vllm:num_requests_running") + metric("vllm:num_requests_waiting") == 0;
    });
  }
  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(std::exchange(process_, 0), nullptr, 0);
  }

 private:
  pid_t process_ = 0;
  int port_ = 0;
};

/// Gives each request the same answer.
inline TinyServer::Handler always(const std::string& bytes) {
  return [bytes](const TinyServer::Request&) { return TinyServer::Reply{bytes}; };
}

/// A server for the router alone: its cache is empty, and its answers are what the test says.
inline TinyServer fake_server(TinyServer::Handler answer,
                              const std::atomic<int>* health = nullptr) {
  return TinyServer([answer, health](const TinyServer::Request& request) -> TinyServer::Reply {
    if (request.head.starts_with("GET /kv_events ")) {
      return {TinyServer::stream_head() + TinyServer::chunk(": events\n\n")};
    }
    if (request.head.starts_with("GET /kv_snapshot ")) {
      return {TinyServer::with_length(200,
                                      R"({"seq":-1,"block_size":16,"num_blocks":10,"blocks":[]})")};
    }
    if (request.head.starts_with("GET /health ")) {
      return {TinyServer::with_length(health == nullptr ? 200 : health->load(), "")};
    }
    return answer(request);
  });
}

}  // namespace route_test
