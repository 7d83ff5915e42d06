#include "instruments/load/client.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>

#include <algorithm>
#include <charconv>

#include "common/error.h"

namespace load {

struct Client::Call {
  Client* client = nullptr;
  evhttp_connection* connection = nullptr;
  std::list<std::unique_ptr<Call>>::iterator place = {};
  bool is_stream = false;
  Outcome outcome = {};
  AnswerReader reader = AnswerReader(Clock::now());
  int status = 0;       // 0 until a head has come
  std::string body;     // of an answer that is no stream, its first bytes
  std::string failure;  // why the connection failed
};

namespace {

constexpr const char* kNoServer = "no server";  // nothing listens there
constexpr double kListSeconds = 10;             // in which a server must answer a GET
constexpr size_t kMaxBody = 1 << 20;            // of an answer that is no stream

std::string failure_of(int error) {
  switch (error) {
    case EVREQ_HTTP_TIMEOUT:
      return "time-out";
    case EVREQ_HTTP_EOF:
      return "connection lost";
    case EVREQ_HTTP_INVALID_HEADER:
      return "broken HTTP";
    default:
      return "connection lost";
  }
}

timeval time_of(double seconds) {
  timeval time{};
  time.tv_sec = static_cast<time_t>(seconds);
  time.tv_usec = static_cast<suseconds_t>((seconds - static_cast<double>(time.tv_sec)) * 1e6);
  return time;
}

}  // namespace

Url parse_url(const std::string& text, const char* option) {
  if (text.starts_with("https://")) {
    kv::user_error("{} {}: this client speaks no TLS, wanted http://HOST:PORT", option, text);
  }
  const std::unique_ptr<evhttp_uri, void (*)(evhttp_uri*)> uri(evhttp_uri_parse(text.c_str()),
                                                               evhttp_uri_free);
  const char* const scheme = uri ? evhttp_uri_get_scheme(uri.get()) : nullptr;
  const char* const host = uri ? evhttp_uri_get_host(uri.get()) : nullptr;
  if (!scheme || std::string(scheme) != "http" || !host || *host == '\0') {
    kv::user_error("{} {}: wanted http://HOST:PORT, as http://127.0.0.1:8000", option, text);
  }
  Url url;
  // Its IPv6 address comes first on many machines, and servers listen on the other one.
  url.host = std::string(host) == "localhost" ? "127.0.0.1" : host;
  if (const int port = evhttp_uri_get_port(uri.get()); port > 0) url.port = port;
  const char* const path = evhttp_uri_get_path(uri.get());
  url.path = path ? path : "";
  while (url.path.ends_with('/')) url.path.pop_back();
  if (url.path.ends_with("/v1")) url.path.resize(url.path.size() - 3);  // as clients' base URLs end
  url.text = fmt::format("http://{}:{}{}", host, url.port, url.path);
  return url;
}

Client::Client(const ClientOptions& options) : options_(options), base_(event_base_new()) {
  if (base_ == nullptr) throw std::runtime_error("libevent cannot make its event loop");
  timer_ = event_new(
      base_, -1, 0,
      [](int, short, void* base) { event_base_loopbreak(static_cast<event_base*>(base)); }, base_);
}

Client::~Client() {
  for (evhttp_connection* connection : connections_) evhttp_connection_free(connection);
  event_free(timer_);
  event_base_free(base_);
}

evhttp_connection* Client::take_connection() {
  if (free_connections_.empty()) {
    connections_.push_back(evhttp_connection_base_new(base_, nullptr, options_.url.host.c_str(),
                                                      static_cast<uint16_t>(options_.url.port)));
    free_connections_.push_back(connections_.back());
  }
  evhttp_connection* const connection = free_connections_.back();
  free_connections_.pop_back();
  return connection;
}

void Client::start(std::unique_ptr<Call> owned, const std::string& path, const std::string* body,
                   double timeout) {
  calls_.push_front(std::move(owned));
  Call& call = *calls_.front();
  call.client = this;
  call.place = calls_.begin();
  call.connection = take_connection();
  const timeval time = time_of(timeout);
  evhttp_connection_set_timeout_tv(call.connection, &time);
  evhttp_request* const request = evhttp_request_new(on_done, &call);
  evhttp_request_set_chunked_cb(request, on_chunk);
  evhttp_request_set_error_cb(request,
                              [](evhttp_request_error error, void* its) { on_error(error, its); });
  evkeyvalq* const headers = evhttp_request_get_output_headers(request);
  const std::string host = fmt::format("{}:{}", options_.url.host, options_.url.port);
  evhttp_add_header(headers, "Host", host.c_str());
  if (!options_.api_key.empty()) {
    evhttp_add_header(headers, "Authorization", ("Bearer " + options_.api_key).c_str());
  }
  if (body != nullptr) {
    evhttp_add_header(headers, "Content-Type", "application/json");
    evbuffer_add(evhttp_request_get_output_buffer(request), body->data(), body->size());
  }
  // A failure calls on_done(), at once or later.
  evhttp_make_request(call.connection, request, body != nullptr ? EVHTTP_REQ_POST : EVHTTP_REQ_GET,
                      (options_.url.path + path).c_str());
}

void Client::send(size_t request, const std::string& path, const std::string& body) {
  auto call = std::make_unique<Call>();
  call->is_stream = true;
  call->outcome.request = request;
  start(std::move(call), path, &body, options_.timeout);
}

void Client::on_chunk(evhttp_request* request, void* arg) {
  Call& call = *static_cast<Call*>(arg);
  const Clock::time_point now = Clock::now();
  call.status = evhttp_request_get_response_code(request);
  evbuffer* const buffer = evhttp_request_get_input_buffer(request);
  const size_t size = evbuffer_get_length(buffer);
  if (size == 0) return;
  const std::string_view bytes(reinterpret_cast<const char*>(evbuffer_pullup(buffer, -1)), size);
  if (call.is_stream && call.status == 200) {
    call.reader.take(bytes, now);
  } else if (call.body.size() < kMaxBody) {
    call.body += bytes;
  }
}

void Client::on_error(int error, void* arg) {
  static_cast<Call*>(arg)->failure = failure_of(error);
}

void Client::on_done(evhttp_request* request, void* arg) {
  Call& call = *static_cast<Call*>(arg);
  const Clock::time_point now = Clock::now();
  if (request != nullptr && evhttp_request_get_response_code(request) != 0) {
    on_chunk(request, arg);  // the last bytes
  } else if (call.failure.empty()) {
    call.failure = kNoServer;
  }
  Outcome& outcome = call.outcome;
  if (call.is_stream) call.reader.finish(outcome, now);
  if (!call.failure.empty()) {
    outcome.error = call.failure;
    outcome.error_message = call.status == 0 ? "no answer came" : "in the middle of an answer";
  } else if (call.status != 200) {
    outcome.error = fmt::format("HTTP {}", call.status);
    outcome.error_message = error_message_of(call.body);
  } else if (!call.is_stream) {
    outcome.text = std::move(call.body);
  }
  Client& client = *call.client;
  client.ended_.push_back(std::move(outcome));
  client.free_connections_.push_back(call.connection);
  client.calls_.erase(call.place);
  event_base_loopbreak(client.base_);
}

std::string Client::get(const std::string& path) {
  start(std::make_unique<Call>(), path, nullptr, kListSeconds);
  std::vector<Outcome> ended;
  while (ended.empty()) ended = wait(1);
  const Outcome& outcome = ended.front();
  const std::string& server = options_.url.text;
  if (outcome.error == kNoServer) {
    kv::user_error("no server answers at {}; start one, in another terminal: ./course serve",
                   server);
  }
  if (outcome.error == "HTTP 401") {
    kv::user_error("{} wants a key: --api-key KEY ({})", server, outcome.error_message);
  }
  if (!outcome.error.empty()) {
    kv::user_error("{}{}: {}, {}; wanted a server with OpenAI's API", server, path, outcome.error,
                   outcome.error_message);
  }
  return outcome.text;
}

std::vector<Outcome> Client::wait(double seconds) {
  if (ended_.empty()) {
    const timeval time = time_of(seconds);
    event_add(timer_, &time);
    event_base_dispatch(base_);
    event_del(timer_);
  }
  return std::exchange(ended_, {});
}

}  // namespace load
