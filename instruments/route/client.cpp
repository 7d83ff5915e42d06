#include "instruments/route/client.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <fmt/format.h>

#include <exception>
#include <stdexcept>

namespace route {

struct Client::Open {
  Client* client = nullptr;
  Id id = 0;
  evhttp_connection* connection = nullptr;
  CallHandlers handlers = {};
  bool has_head = false, ended = false;
  std::string failure = {};

  ~Open() {
    if (connection != nullptr) evhttp_connection_free(connection);
  }
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

timeval time_of(double seconds) {
  timeval time{};
  time.tv_sec = static_cast<time_t>(seconds);
  time.tv_usec = static_cast<suseconds_t>((seconds - static_cast<double>(time.tv_sec)) * 1e6);
  return time;
}

}  // namespace

Client::Client(event_base* loop) : loop_(loop) {
  sweeper_ = event_new(
      loop, -1, 0, [](int, short, void* self) { static_cast<Client*>(self)->sweep(); }, this);
}

Client::~Client() {
  calls_.clear();
  if (timer_ != nullptr) event_free(timer_);
  event_free(sweeper_);
}

Client::Id Client::send(const Call& call, CallHandlers handlers) {
  const Id id = next_++;
  Open& open = *calls_.emplace(id, std::make_unique<Open>()).first->second;
  open.client = this;
  open.id = id;
  open.handlers = std::move(handlers);
  open.connection = evhttp_connection_base_new(loop_, nullptr, call.server.host.c_str(),
                                               static_cast<uint16_t>(call.server.port));
  const timeval timeout = time_of(call.timeout);
  evhttp_connection_set_timeout_tv(open.connection, &timeout);
  evhttp_request* const request = evhttp_request_new(on_done, &open);
  evhttp_request_set_chunked_cb(request, on_chunk);
  evhttp_request_set_error_cb(request, [](evhttp_request_error error, void* self) {
    static_cast<Open*>(self)->end(error == EVREQ_HTTP_TIMEOUT ? kTimedOut : "connection lost");
  });
  evkeyvalq* const headers = evhttp_request_get_output_headers(request);
  const std::string host = fmt::format("{}:{}", call.server.host, call.server.port);
  evhttp_add_header(headers, "Host", host.c_str());
  evhttp_add_header(headers, "Connection", "close");
  for (const auto& [name, value] : call.headers) {
    if (!value.empty()) evhttp_add_header(headers, name, value.c_str());
  }
  if (call.body) {
    evbuffer_add(evhttp_request_get_output_buffer(request), call.body->data(), call.body->size());
  }
  if (evhttp_make_request(open.connection, request, call.body ? EVHTTP_REQ_POST : EVHTTP_REQ_GET,
                          (call.server.path + call.path).c_str()) != 0) {
    open.end("no connection");
  }
  return id;
}

void Client::on_chunk(evhttp_request* request, void* self) {
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

void Client::on_done(evhttp_request* request, void* self) {
  Open& open = *static_cast<Open*>(self);
  if (request == nullptr || evhttp_request_get_response_code(request) == 0) {
    return open.end(kNoServer);
  }
  on_chunk(request, self);  // the last bytes, or a head alone
  open.end("");
}

void Client::sweep() {
  for (const Id id : std::exchange(ended_, {})) {
    const auto call = calls_.extract(id);
    if (call.empty()) continue;
    const Open& open = *call.mapped();
    try {
      if (open.handlers.on_end) open.handlers.on_end(open.failure);
    } catch (const std::exception& error) {
      fmt::print(stderr, "error: {}\n", error.what());
    }
  }
}

void Client::cancel(Id id) {
  const auto call = calls_.find(id);
  if (call == calls_.end()) return;
  call->second->handlers = {};
  call->second->end("cancelled");
}

void Client::fail(Id id, const std::string& why) {
  if (const auto call = calls_.find(id); call != calls_.end()) call->second->end(why);
}

void Client::every(double seconds, std::function<void()> function) {
  on_timer_ = std::move(function);
  timer_ = event_new(
      loop_, -1, EV_PERSIST,
      [](int, short, void* self) { static_cast<Client*>(self)->on_timer_(); }, this);
  const timeval time = time_of(seconds);
  event_add(timer_, &time);
}

}  // namespace route
