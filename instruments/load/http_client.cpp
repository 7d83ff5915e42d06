#include "instruments/load/http_client.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <fmt/format.h>

#include <exception>

#include "common/utf8.h"

namespace load {

struct HttpClient::Open {
  HttpClient* client = nullptr;
  Id id = 0;
  Connection connection = nullptr;
  std::string server = {};
  CallHandlers handlers = {};
  bool has_head = false, ended = false;
  std::string failure = {};

  /// Runs a handler. No exception may pass through libevent.
  void guarded(const auto& handler) {
    try {
      handler();
    } catch (const std::exception& error) {
      end(error.what());
    }
  }
  /// Its connection must not be freed inside of its own callbacks, so the loop does it later.
  void end(const std::string& why) {
    if (std::exchange(ended, true)) return;
    failure = why;
    client->ended_.push_back(id);
    event_active(client->sweeper_, 0, 0);
  }
};

namespace {

std::string failure_of(evhttp_request_error error) {
  if (error == EVREQ_HTTP_TIMEOUT) return kTimedOut;
  return error == EVREQ_HTTP_INVALID_HEADER ? "broken HTTP" : "connection lost";
}

}  // namespace

timeval time_of(double seconds) {
  timeval time{};
  time.tv_sec = static_cast<time_t>(seconds);
  time.tv_usec = static_cast<suseconds_t>((seconds - static_cast<double>(time.tv_sec)) * 1e6);
  return time;
}

void HttpClient::FreeConnection::operator()(evhttp_connection* connection) const {
  evhttp_connection_free(connection);
}

HttpClient::HttpClient(event_base* loop, bool keeps_connections)
    : loop_(loop), keeps_connections_(keeps_connections) {
  sweeper_ = event_new(
      loop, -1, 0, [](int, short, void* self) { static_cast<HttpClient*>(self)->sweep(); }, this);
}

HttpClient::~HttpClient() {
  calls_.clear();
  kept_.clear();
  if (timer_ != nullptr) event_free(timer_);
  event_free(sweeper_);
}

HttpClient::Connection HttpClient::connection_to(const Url& server, const std::string& name) {
  std::vector<Connection>& kept = kept_[name];
  if (kept.empty()) {
    return Connection(evhttp_connection_base_new(loop_, nullptr, server.host.c_str(),
                                                 static_cast<uint16_t>(server.port)));
  }
  Connection connection = std::move(kept.back());
  kept.pop_back();
  return connection;
}

HttpClient::Id HttpClient::send(const Call& call, CallHandlers handlers) {
  const Id id = next_++;
  Open& open = *calls_.emplace(id, std::make_unique<Open>()).first->second;
  open.client = this;
  open.id = id;
  open.handlers = std::move(handlers);
  open.server = kv::host_and_port(call.server.host, call.server.port);
  open.connection = connection_to(call.server, open.server);
  const timeval timeout = time_of(call.timeout);
  evhttp_connection_set_timeout_tv(open.connection.get(), &timeout);
  constexpr ev_ssize_t kMaxHead = 64 << 10;  // bytes; else a head without end would fill the memory
  evhttp_connection_set_max_headers_size(open.connection.get(), kMaxHead);
  evhttp_request* const request = evhttp_request_new(on_done, &open);
  evhttp_request_set_chunked_cb(request, on_chunk);
  evhttp_request_set_error_cb(request, [](evhttp_request_error error, void* self) {
    static_cast<Open*>(self)->end(failure_of(error));
  });
  evkeyvalq* const headers = evhttp_request_get_output_headers(request);
  evhttp_add_header(headers, "Host", open.server.c_str());
  if (!keeps_connections_) evhttp_add_header(headers, "Connection", "close");
  for (const auto& [name, value] : call.headers) {
    if (!value.empty()) evhttp_add_header(headers, name, value.c_str());
  }
  if (call.body) {
    evbuffer_add(evhttp_request_get_output_buffer(request), call.body->data(), call.body->size());
  }
  if (evhttp_make_request(open.connection.get(), request,
                          call.body ? EVHTTP_REQ_POST : EVHTTP_REQ_GET,
                          (call.server.path + call.path).c_str()) != 0) {
    open.end("no connection");
  }
  return id;
}

void HttpClient::on_chunk(evhttp_request* request, void* self) {
  Open& open = *static_cast<Open*>(self);
  if (open.ended) return;
  open.guarded([&] {
    if (!std::exchange(open.has_head, true) && open.handlers.on_head) {
      const char* const type =
          evhttp_find_header(evhttp_request_get_input_headers(request), "Content-Type");
      open.handlers.on_head(evhttp_request_get_response_code(request), type ? type : "");
    }
    evbuffer* const buffer = evhttp_request_get_input_buffer(request);
    const size_t size = evbuffer_get_length(buffer);
    if (size == 0 || open.ended || !open.handlers.on_bytes) return;
    open.handlers.on_bytes({reinterpret_cast<const char*>(evbuffer_pullup(buffer, -1)), size});
  });
}

void HttpClient::on_done(evhttp_request* request, void* self) {
  Open& open = *static_cast<Open*>(self);
  if (request == nullptr || evhttp_request_get_response_code(request) == 0) {
    return open.end(kNoServer);
  }
  on_chunk(request, self);  // the last bytes, or a head alone
  open.end("");
}

void HttpClient::sweep() {
  for (const Id id : std::exchange(ended_, {})) {
    const auto call = calls_.extract(id);
    if (call.empty()) continue;
    Open& open = *call.mapped();
    if (keeps_connections_ && open.failure.empty()) {
      kept_[open.server].push_back(std::move(open.connection));
    }
    try {
      if (open.handlers.on_end) open.handlers.on_end(open.failure);
    } catch (const std::exception& error) {
      fmt::print(stderr, "error: {}\n", kv::one_line(error.what()));
    }
  }
}

void HttpClient::cancel(Id id) {
  const auto call = calls_.find(id);
  if (call == calls_.end()) return;
  call->second->handlers = {};
  call->second->end("cancelled");
}

void HttpClient::fail(Id id, const std::string& why) {
  if (const auto call = calls_.find(id); call != calls_.end()) call->second->end(why);
}

void HttpClient::every(double seconds, std::function<void()> function) {
  on_timer_ = std::move(function);
  timer_ = event_new(
      loop_, -1, EV_PERSIST,
      [](int, short, void* self) { static_cast<HttpClient*>(self)->on_timer_(); }, this);
  const timeval time = time_of(seconds);
  event_add(timer_, &time);
}

}  // namespace load
