#include "instruments/serve/http/error_page.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <fmt/format.h>

#include <charconv>

#include "instruments/serve/api/error.h"

namespace serve {
namespace {

constexpr size_t kStatusAt = sizeof "HTTP/1.1 " - 1, kStatusEnd = kStatusAt + 3;
constexpr size_t kMaxPage = 4096;  // bytes; libevent's have some hundred

std::string first_bytes(evbuffer* buffer, size_t count) {
  std::string bytes(count, '\0');
  const ev_ssize_t got = evbuffer_copyout(buffer, bytes.data(), bytes.size());
  bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return bytes;
}

/// Runs in the turn of the loop in which libevent has written, so that nothing has left yet.
void replace(evutil_socket_t, short, void* given) {
  bufferevent* const socket = static_cast<bufferevent*>(given);
  evbuffer* const output = bufferevent_get_output(socket);
  const std::string reply = api_reply_for(first_bytes(output, kMaxPage));
  if (!reply.empty()) {
    evbuffer_unfreeze(output, 1);
    evbuffer_drain(output, evbuffer_get_length(output));
    evbuffer_freeze(output, 1);
    evbuffer_add(output, reply.data(), reply.size());
  }
  bufferevent_decref(socket);
}

void on_output(evbuffer* output, const evbuffer_cb_info* change, void* socket) {
  if (change->orig_size > 0 || change->n_added < kStatusEnd) return;
  const std::string line = first_bytes(output, kStatusEnd);
  if (!line.starts_with("HTTP/") || line[kStatusAt] != '4') return;
  bufferevent_incref(static_cast<bufferevent*>(socket));
  const timeval now{};
  event_base_once(bufferevent_get_base(static_cast<bufferevent*>(socket)), -1, EV_TIMEOUT, &replace,
                  socket, &now);
}

}  // namespace

std::string api_reply_for(std::string_view reply) {
  const size_t end = reply.find("\r\n\r\n");
  const bool is_page = end != reply.npos &&
                       reply.substr(0, end).find("\r\nContent-Type: text/html\r\n") != reply.npos;
  int status = 0;
  if (is_page && reply.size() > kStatusEnd) {
    std::from_chars(reply.data() + kStatusAt, reply.data() + kStatusEnd, status);
  }
  if (status < 400) return {};
  const std::string body = body_of(ApiError(
      status,
      status == 413
          ? "the body is larger than this server takes; wanted a shorter one, or a server "
            "with more --max-body-mib"
          : "the request is no HTTP/1.1 that this server reads: wanted a method, a path and "
            "headers of at most 64 KiB, and a body as they say"));
  return fmt::format(
      "{}\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}",
      reply.substr(0, reply.find("\r\n")), body.size(), body);
}

void replace_error_pages(bufferevent* socket) {
  evbuffer_add_cb(bufferevent_get_output(socket), &on_output, socket);
}

}  // namespace serve
