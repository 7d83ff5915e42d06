#pragma once

// A tokenizer that is small enough to see through, a server inside the test's process, and a client
// that sends any bytes.

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/files/small_tokenizer.h"
#include "tests/support/shipped_model.h"

#ifdef KV_SERVE_TESTS_SERVER
#include "instruments/serve/server.h"
#endif

namespace serve_test {

using nlohmann::json;
using namespace std::chrono_literals;

/// Bytes, and ChatML's tokens.
inline json chat_tokenizer(const std::vector<std::pair<std::string, std::string>>& merges = {}) {
  json file = kv::testing::small_tokenizer(merges);
  int id = 5000;
  for (const char* text : {"<|im_start|>", "<|im_end|>"}) {
    json token = file["added_tokens"][0];
    token["content"] = text;
    token["id"] = id++;
    file["added_tokens"].push_back(token);
  }
  return file;
}

/// A connection. What is received is kept until it is taken.
class Client {
 public:
  explicit Client(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int one = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { close(); }
  Client(const Client&) = delete;

  bool connected() const { return connected_; }
  void send(const std::string& bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const auto n = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return;
      sent += static_cast<size_t>(n);
    }
  }
  void end_sending() { ::shutdown(socket_, SHUT_WR); }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  void reset() {
    const linger now{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }
  /// Receives until `text` is there. False at the end of the connection, or after the time.
  bool wait_for(const std::string& text, std::chrono::milliseconds time = 20s) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (received_.find(text) == received_.npos) {
      if (std::chrono::steady_clock::now() > end || !receive(end)) return false;
    }
    return true;
  }
  /// All until the server ends the connection. False after the time.
  bool wait_for_end(std::chrono::milliseconds time = 20s) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (receive(end)) continue;
    return std::chrono::steady_clock::now() < end;
  }
  /// One reply: its head, then its body without the chunks' lengths.
  struct Reply {
    int status = 0;
    std::string head, body;
    json parsed() const { return json::parse(body); }
  };
  Reply reply(bool has_body = true) {
    Reply reply;
    if (!wait_for("\r\n\r\n")) return reply;
    reply.head = take(received_.find("\r\n\r\n") + 4);
    reply.status = std::stoi(reply.head.substr(9, 3));
    if (!has_body) return reply;
    if (reply.head.find("chunked") != reply.head.npos) {
      while (true) {
        wait_for("\r\n");
        const size_t size = std::stoul(take(received_.find("\r\n") + 2), nullptr, 16);
        wait_for_bytes(size + 2);
        reply.body += take(size + 2).substr(0, size);
        if (size == 0) return reply;
      }
    }
    const size_t at = reply.head.find("Content-Length: ");
    if (at == reply.head.npos) return reply;
    const size_t size = std::stoul(reply.head.substr(at + 16));
    wait_for_bytes(size);
    reply.body = take(size);
    return reply;
  }
  const std::string& received() const { return received_; }

 private:
  std::string take(size_t bytes) {
    std::string taken = received_.substr(0, bytes);
    received_.erase(0, bytes);
    return taken;
  }
  void wait_for_bytes(size_t bytes) {
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (received_.size() < bytes) {
      if (!receive(end)) throw std::runtime_error("the reply is cut: " + received_);
    }
  }
  bool receive(std::chrono::steady_clock::time_point end) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    pollfd one{socket_, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&one, 1, static_cast<int>(left.count())) <= 0) return false;
    char bytes[65536];
    const auto n = ::recv(socket_, bytes, sizeof bytes, 0);
    if (n > 0) received_.append(bytes, static_cast<size_t>(n));
    return n > 0;
  }

  int socket_;
  bool connected_ = false;
  std::string received_;
};

inline std::string get(const std::string& path, const std::string& headers = {},
                       const std::string& method = "GET") {
  return method + " " + path + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n";
}
inline std::string post(const std::string& path, const std::string& body,
                        const std::string& headers = {}) {
  return "POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
inline Client::Reply ask(int port, const std::string& request) {
  Client client(port);
  client.send(request);
  return client.reply();
}

/// Waits until a condition holds. False after ten seconds.
inline bool eventually(const auto& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

inline int num_entries(const char* folder) {
  int count = 0;
  for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}
inline int num_descriptors() { return num_entries("/proc/self/fd"); }
inline int num_threads() { return num_entries("/proc/self/task"); }

#ifdef KV_SERVE_TESTS_SERVER
inline serve::ServerOptions options() {
  serve::ServerOptions options;
  options.http.port = 0;
  options.model_dir = KV_SOURCE_DIR "/models/tiny";
  options.model_name = "tiny";
  options.page = KV_SOURCE_DIR "/instruments/serve/page/index.html";
  options.lesson.num_blocks = 256;
  options.drain_seconds = 10;
  return options;
}

/// A server that runs as long as this object.
class Running {
 public:
  explicit Running(const serve::ServerOptions& given = options())
      : server_(kvtest::shipped_model(), given), thread_([this] { server_.run(); }) {}
  ~Running() {
    server_.stop();
    thread_.join();
  }
  serve::ApiServer& server() { return server_; }
  int port() const { return server_.port(); }
  Client::Reply ask(const std::string& request) const { return serve_test::ask(port(), request); }
  Client::Reply complete(const json& body) const {
    return ask(post("/v1/completions", body.dump()));
  }
  /// A sample of /metrics; the first line that begins so.
  double metric(const std::string& name) const {
    const std::string text = ask(get("/metrics")).body;
    const size_t at = text.find("\n" + name);
    REQUIRE(at != text.npos);
    return std::stod(text.substr(text.find("} ", at) + 2));
  }
  /// No request, no block in use.
  bool becomes_idle() const {
    return eventually([&] {
      return metric("vllm:num_requests_running") + metric("vllm:num_requests_waiting") +
                 server_.num_blocks_used() ==
             0;
    });
  }

 private:
  serve::ApiServer server_;
  std::thread thread_;
};

inline const std::string kShort = R"({"prompt":"Once upon a time","max_tokens":4,"temperature":0})";
inline const std::string kStream =
    R"({"prompt":"Once upon a time","max_tokens":30,"temperature":0,"stream":true,"ignore_eos":true})";

inline std::vector<int32_t> tokens_from(int first, int count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

/// Requests of many kinds. Their prompts begin in one of four ways, each of `num_common` words.
inline std::vector<json> mixed(int count, int num_common = 40) {
  std::vector<json> requests;
  for (int i = 0; i < count; ++i) {
    std::string text;
    for (int word = 0; word < num_common; ++word) {
      text += " word " + std::to_string(i % 4 * 100 + word);
    }
    for (int word = 0; word <= i % 9; ++word) text += " friend " + std::to_string(i * 7 + word);
    json request = {{"prompt", text},
                    {"max_tokens", 4 + i % 17},
                    {"seed", i},
                    {"temperature", i % 3 == 0 ? 0.0 : 0.9},
                    {"return_token_ids", true}};
    if (i % 4 == 1) request["n"] = 3;
    if (i % 5 == 2) request["logprobs"] = 3;
    if (i % 5 == 3) request["stop"] = {"e", " the"};
    if (i % 6 == 4) request["cache_salt"] = "tenant";
    if (i % 7 == 5) request["top_k"] = 9, request["top_p"] = 0.8;
    requests.push_back(request);
  }
  return requests;
}

/// The data of the events of a stream, without the last one, which must be [DONE].
inline std::vector<json> events_of(const std::string& body) {
  std::vector<json> events;
  size_t at = 0;
  while (body.compare(at, 6, "data: ") == 0) {
    const size_t end = body.find("\n\n", at);
    const std::string data = body.substr(at + 6, end - at - 6);
    at = end + 2;
    if (data == "[DONE]") break;
    events.push_back(json::parse(data));
  }
  CHECK(body.ends_with("data: [DONE]\n\n"));
  CHECK(at == body.size());
  return events;
}

/// The choices of an answer, whole or put together from a stream: texts, tokens, log probabilities
/// and ends.
inline std::string answer_of(const Client::Reply& reply) {
  INFO(reply.body);
  REQUIRE(reply.status == 200);
  if (!reply.body.starts_with("data: ")) return reply.parsed()["choices"].dump();
  std::map<int, json> choices;
  for (const json& event : events_of(reply.body)) {
    for (const json& part : event["choices"]) {
      const auto [found, is_new] = choices.emplace(part["index"].get<int>(), part);
      if (is_new) continue;
      json& whole = found->second;
      whole["text"] = whole["text"].get<std::string>() + part["text"].get<std::string>();
      for (const json& id : part.value("token_ids", json())) whole["token_ids"].push_back(id);
      for (const auto& [name, values] : part["logprobs"].items()) {
        for (const json& value : values) whole["logprobs"][name].push_back(value);
      }
      whole["finish_reason"] = part["finish_reason"];
      whole["stop_reason"] = part["stop_reason"];
    }
  }
  json list = json::array();
  for (const auto& [index, choice] : choices) list.push_back(choice);
  return list.dump();
}

using Answers = std::vector<std::string>;  // of each request, as answer_of() gives it

Answers one_by_one(const auto& server, const std::vector<json>& requests) {
  Answers answers;
  for (const json& request : requests) answers.push_back(answer_of(server.complete(request)));
  return answers;
}

/// All of them at once; `meanwhile` may be empty.
Answers together(const auto& server, const std::vector<json>& requests,
                 const std::function<void()>& meanwhile = {}) {
  std::vector<std::unique_ptr<Client>> clients;
  for (const json& request : requests) {
    clients.push_back(std::make_unique<Client>(server.port()));
    clients.back()->send(post("/v1/completions", request.dump()));
  }
  if (meanwhile) meanwhile();
  Answers answers;
  for (const auto& client : clients) answers.push_back(answer_of(client->reply()));
  return answers;
}
#endif

}  // namespace serve_test
