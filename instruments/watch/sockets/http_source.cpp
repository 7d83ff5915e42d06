#include "instruments/watch/sockets/http_source.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <fmt/format.h>

#include <utility>

#include "common/error.h"
#include "common/url.h"
#include "instruments/watch/sockets/server_events.h"

namespace watch {
namespace {

constexpr const char* kGone = "the server has gone";
constexpr int kYear = 365 * 24 * 3600;  // a server may have nothing to tell

std::string text_of(evhttp_request* request) {
  evbuffer* const buffer = evhttp_request_get_input_buffer(request);
  std::string text(evbuffer_get_length(buffer), '\0');
  evbuffer_remove(buffer, text.data(), text.size());
  return text;
}

}  // namespace

struct HttpSource::Impl {
  explicit Impl(const std::string& given) : url(kv::parse_http_server(given, "attach")) {
    base = event_base_new();
    for (evhttp_connection** one : {&stream, &other}) {
      *one = evhttp_connection_base_new(base, nullptr, url.host.c_str(),
                                        static_cast<uint16_t>(url.port));
      evhttp_connection_set_timeout(*one, kYear);
    }
    ask(stream, "/kv_events", &call<&Impl::end>, &call<&Impl::read_events>);
  }
  ~Impl() {
    evhttp_connection_free(stream);
    evhttp_connection_free(other);
    event_base_free(base);
  }

  using Callback = void (*)(evhttp_request*, void*);
  void ask(evhttp_connection* connection, const char* path, Callback done, Callback more) {
    evhttp_request* const request = evhttp_request_new(done, this);
    evhttp_request_set_chunked_cb(request, more);
    evhttp_add_header(evhttp_request_get_output_headers(request), "Host",
                      kv::host_and_port(url.host, url.port).c_str());
    evhttp_make_request(connection, request, EVHTTP_REQ_GET, (url.path + path).c_str());
  }
  /// No exception may pass through libevent.
  template <auto Member>
  static void call(evhttp_request* request, void* self) {
    Impl& impl = *static_cast<Impl*>(self);
    try {
      const int status = request == nullptr ? 0 : evhttp_request_get_response_code(request);
      if (status == 0) throw std::runtime_error(impl.asked ? kGone : "no server answers there");
      if (status != 200) throw std::runtime_error(fmt::format("it answers HTTP {}", status));
      (impl.*Member)(request);
    } catch (const std::exception& problem) {
      if (impl.error.empty()) impl.error = problem.what();
    }
  }

  /// Once events come, the snapshot is asked for: no event is missing between the two.
  void read_events(evhttp_request* request) {
    if (!std::exchange(asked, true)) ask(other, "/kv_snapshot", &call<&Impl::begin>, nullptr);
    bytes += text_of(request);
    for (size_t end; (end = bytes.find("\n\n")) != std::string::npos; bytes.erase(0, end + 2)) {
      const size_t data = bytes.find("data: ");
      if (data < end) events.take_event(bytes.substr(data + 6, end - data - 6));
    }
  }
  void end(evhttp_request*) { throw std::runtime_error(kGone); }
  void begin(evhttp_request* request) { events.take_snapshot(text_of(request)); }

  kv::HttpServerUrl url;
  event_base* base = nullptr;
  evhttp_connection *stream = nullptr, *other = nullptr;
  bool asked = false;  // for the snapshot
  std::string bytes;   // of an event that is not whole yet
  ServerEvents events;
  std::string error;  // why no more can come
};

HttpSource::HttpSource(const std::string& url) : impl_(std::make_unique<Impl>(url)) {}
HttpSource::~HttpSource() = default;

std::vector<Frame> HttpSource::receive(std::chrono::milliseconds time) {
  const timeval limit{time.count() / 1000, time.count() % 1000 * 1000};
  event_base_loopexit(impl_->base, &limit);
  event_base_dispatch(impl_->base);
  if (!impl_->events.any() && !impl_->error.empty()) {
    kv::user_error("{}: {}; attach to it again once ./course serve runs there", impl_->url.text,
                   impl_->error);
  }
  return impl_->events.frames();
}

}  // namespace watch
