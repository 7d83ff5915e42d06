#include "instruments/serve/http/http.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>
#include <event2/thread.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "common/error.h"
#include "common/url.h"
#include "instruments/serve/http/chunks.h"
#include "instruments/serve/http/error_page.h"
#include "instruments/serve/http/framing.h"

namespace serve {
namespace {

/// Bytes of the next requests that are read while a reply is being made.
constexpr size_t kMaxReadAhead = size_t{64} << 10;
using Buffer = std::unique_ptr<evbuffer, void (*)(evbuffer*)>;
Buffer buffer_of(std::string_view bytes) {
  Buffer buffer(evbuffer_new(), evbuffer_free);
  evbuffer_add(buffer.get(), bytes.data(), bytes.size());
  return buffer;
}

/// The methods that a route may have; any other is empty, and no route's.
std::string method_of(evhttp_request* request) {
  constexpr std::pair<evhttp_cmd_type, const char*> kMethods[] = {{EVHTTP_REQ_GET, "GET"},
                                                                  {EVHTTP_REQ_POST, "POST"},
                                                                  {EVHTTP_REQ_HEAD, "HEAD"},
                                                                  {EVHTTP_REQ_OPTIONS, "OPTIONS"}};
  for (const auto& [command, name] : kMethods) {
    if (command == evhttp_request_get_command(request)) return name;
  }
  return {};
}

bufferevent* socket_of(evhttp_connection* connection) {
  return evhttp_connection_get_bufferevent(connection);
}

Headers headers_of(evhttp_request* request) {
  Headers headers;
  const evkeyvalq* list = evhttp_request_get_input_headers(request);
  for (const evkeyval* one = list->tqh_first; one != nullptr; one = one->next.tqe_next) {
    headers.emplace_back(one->key, one->value);
  }
  return headers;
}

}  // namespace

Exchange::Exchange(evhttp_request* request) : request_(request), method_(method_of(request)) {
  const evhttp_uri* uri = evhttp_request_get_evhttp_uri(request);
  const char* path = uri == nullptr ? nullptr : evhttp_uri_get_path(uri);
  size_t size = 0;
  if (char* decoded = path == nullptr ? nullptr : evhttp_uridecode(path, 0, &size)) {
    path_.assign(decoded, size);
    std::free(decoded);
  }
  evbuffer* body = evhttp_request_get_input_buffer(request);
  body_.resize(evbuffer_get_length(body));
  evbuffer_copyout(body, body_.data(), body_.size());
}

std::string Exchange::header(const char* name) const {
  if (request_ == nullptr) return {};
  const char* value = evhttp_find_header(evhttp_request_get_input_headers(request_), name);
  return value == nullptr ? "" : value;
}

void Exchange::add_header(const char* name, const std::string& value) {
  if (is_open()) {
    evhttp_add_header(evhttp_request_get_output_headers(request_), name, value.c_str());
  }
}

void Exchange::reply(int status, std::string_view body, const char* type) {
  if (!is_open()) return;
  if (!body.empty()) add_header("Content-Type", type);
  if (status != HTTP_NOCONTENT) add_header("Content-Length", std::to_string(body.size()));
  ended_ = true;
  evhttp_send_reply(request_, status, nullptr, buffer_of(method_ == "HEAD" ? "" : body).get());
}

void Exchange::begin_stream(const char* type) {
  add_header("Content-Type", type);
  if (is_open()) evhttp_send_reply_start(request_, HTTP_OK, "OK");
}

void Exchange::write(std::string_view bytes) {
  if (is_open() && !bytes.empty()) evhttp_send_reply_chunk(request_, buffer_of(bytes).get());
}

void Exchange::end_stream() {
  if (!is_open()) return;
  ended_ = true;
  evhttp_send_reply_end(request_);
}

/// Whether the client has left more than that unread for longer than kMaxBehind.
bool Exchange::is_behind(size_t max_unread) {
  bufferevent* socket = socket_of(evhttp_request_get_connection(request_));
  if (ended_ || evbuffer_get_length(bufferevent_get_output(socket)) <= max_unread) {
    behind_since_.reset();
    return false;
  }
  const auto now = std::chrono::steady_clock::now();
  if (!behind_since_) behind_since_ = now;
  return now - *behind_since_ >= HttpOptions::kMaxBehind;
}

struct HttpServer::Impl {
  Impl(const HttpOptions& given, Handler to) : options(given), handler(std::move(to)) {
    std::signal(SIGPIPE, SIG_IGN);  // of a client that has gone; writing to it fails
    evthread_use_pthreads();
    event_set_log_callback([](int, const char*) {});  // its warnings are of broken clients
    base = event_base_new();
    http = evhttp_new(base);
    evhttp_set_max_body_size(http, static_cast<ev_ssize_t>(options.max_body));
    evhttp_set_max_headers_size(http, static_cast<ev_ssize_t>(options.max_headers));
    evhttp_set_timeout(http, options.idle_seconds);
    evhttp_set_allowed_methods(http, 0xFFFF);  // routes refuse them, in JSON
    evhttp_set_gencb(http, &call<&Impl::begin, evhttp_request>, this);
    evhttp_set_bevcb(http, &Impl::on_connection, this);
    wake = event_new(base, -1, EV_PERSIST, &call<&Impl::run_posted>, this);
    tick = evtimer_new(base, &call<&Impl::look_around>, this);
    written = evtimer_new(base, &call<&Impl::run_postponed>, this);
  }

  ~Impl() {
    for (const auto& [connection, exchange] : exchanges) {
      exchange->request_ = nullptr;
      exchange->on_gone = nullptr;
    }
    exchanges.clear();
    evhttp_free(http);
    forget_closed();
    for (event* one : signals) event_free(one);
    event_free(written);
    event_free(tick);
    event_free(wake);
    event_base_free(base);
  }

  void listen() {
    errno = 0;
    bound = evhttp_bind_socket_with_handle(http, kv::without_brackets(options.host).c_str(),
                                           static_cast<uint16_t>(options.port));
    if (bound == nullptr) {
      kv::user_error(
          "cannot listen at {} ({}); choose others with --host, an address of this machine, and "
          "--port",
          kv::host_and_port(options.host, options.port),
          errno == EADDRINUSE ? "the port is in use"
          : errno == 0        ? "no such host"
                              : std::strerror(errno));
    }
    listener = evhttp_bound_socket_get_listener(bound);
    const int socket = evconnlistener_get_fd(listener);
    // evhttp's backlog is 128. With more clients at once, some would try again a second later.
    ::listen(socket, 4096);
    // Accepted sockets inherit it. Else tokens would wait for delayed acknowledgements, 40 ms.
    const int one = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    // Out of descriptors: wait, or the loop would do nothing but fail to accept.
    evconnlistener_set_error_cb(
        listener, [](evconnlistener*, void* self) { static_cast<Impl*>(self)->pause_listening(); });
  }

  void pause_listening() {
    evconnlistener_disable(listener);
    look_soon();
  }
  void look_soon() {
    const timeval soon{0, 50'000};
    event_add(tick, &soon);
  }
  /// As long as there are connections: frees those that are closed, and accepts others again.
  void look_around() {
    forget_closed();
    if (listener != nullptr && std::ssize(sockets) < options.max_connections) {
      evconnlistener_enable(listener);
    }
    if (!sockets.empty()) look_soon();
  }

  /// evhttp does not tell when a connection ends. So each has a reference here; without callbacks
  /// it is the last one. The descriptor is closed with it: if evhttp closed it, an event that is
  /// due could read from what has the same number by then.
  static bufferevent* on_connection(event_base* base, void* self) {
    auto& impl = *static_cast<Impl*>(self);
    bufferevent* socket = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    if (socket == nullptr) return nullptr;
    bufferevent_incref(socket);
    replace_error_pages(socket);
    impl.forget_closed();
    impl.sockets.emplace(socket, drop_chunk_extensions(socket));
    if (std::ssize(impl.sockets) >= impl.options.max_connections) impl.pause_listening();
    impl.look_soon();
    return socket;
  }
  void forget_closed() {
    // The newest one gets its callbacks after on_connection().
    std::erase_if(sockets, [](const auto& one) {
      bufferevent_event_cb on_event = nullptr;
      bufferevent_getcb(one.first, nullptr, nullptr, &on_event, nullptr);
      if (on_event == nullptr) bufferevent_decref(one.first);
      return on_event == nullptr;
    });
  }

  void begin(evhttp_request* request) {
    evhttp_connection* connection = evhttp_request_get_connection(request);
    const auto exchange = std::make_shared<Exchange>(request);
    exchanges[connection] = exchange;
    evhttp_connection_set_closecb(connection, &call<&Impl::close, evhttp_connection>, this);
    evhttp_request_set_on_complete_cb(request, &call<&Impl::complete, evhttp_request>, this);
    watch_for_end(socket_of(connection));
    exchange->fault_ = framing_error(headers_of(request));
    if (listener == nullptr || !exchange->fault_.empty()) {
      exchange->add_header("Connection", "close");
    }
    handler(exchange);
  }

  /// evhttp stops to read while a request is answered, and would not see the client's end. What
  /// comes is read, up to a limit, and waits; evhttp's own callback would end the process.
  void watch_for_end(bufferevent* socket) const {
    bufferevent_data_cb on_write = nullptr;
    bufferevent_event_cb on_event = nullptr;
    void* argument = nullptr;
    bufferevent_getcb(socket, nullptr, &on_write, &on_event, &argument);
    bufferevent_setcb(socket, nullptr, on_write, on_event, argument);
    bufferevent_setwatermark(socket, EV_READ, 0, kMaxReadAhead);
    const timeval idle{options.idle_seconds, 0};
    bufferevent_set_timeouts(socket, nullptr, &idle);  // an answer may take any time
    bufferevent_enable(socket, EV_READ);
  }
  /// The reply has left, and evhttp reads the next request.
  void complete(evhttp_request* request) {
    evhttp_connection* connection = evhttp_request_get_connection(request);
    const timeval idle{options.idle_seconds, 0};
    bufferevent_set_timeouts(socket_of(connection), &idle, &idle);
    bufferevent_setwatermark(socket_of(connection), EV_READ, 0, 0);
    forget(connection);
  }
  void close(evhttp_connection* connection) {
    bufferevent_disable(socket_of(connection), EV_READ | EV_WRITE);
    const auto found = exchanges.find(connection);
    if (found == exchanges.end()) return;
    const std::shared_ptr<Exchange> exchange = found->second;
    evhttp_request* request = exchange->request_;
    forget(connection);
    if (exchange->ended_) return;
    if (exchange->on_gone) std::exchange(exchange->on_gone, nullptr)();
    // evhttp has let go of a request that had no whole reply when its client went.
    if (evhttp_request_get_connection(request) == nullptr) evhttp_request_free(request);
  }
  void forget(evhttp_connection* connection) {
    const auto found = exchanges.find(connection);
    if (found == exchanges.end()) return;
    found->second->request_ = nullptr;
    exchanges.erase(found);
    stop_if_drained();
  }
  void stop_if_drained() {
    if (listener == nullptr && exchanges.empty()) event_base_loopexit(base, nullptr);
  }

  void run_posted() {
    std::vector<std::function<void()>> functions;
    {
      const std::lock_guard lock(mutex);
      functions.swap(posted);
    }
    cut_slow_readers();
    for (const auto& function : functions) function();
  }
  void run_postponed() {
    for (const auto& function : std::exchange(postponed, {})) function();
  }
  void cut_slow_readers() {
    std::vector<evhttp_connection*> slow;
    for (const auto& [connection, exchange] : exchanges) {
      if (exchange->is_behind(options.max_unread)) slow.push_back(connection);
    }
    for (evhttp_connection* connection : slow) evhttp_connection_free(connection);
  }

  void signal() {
    if (!on_signal) return static_cast<void>(event_base_loopbreak(base));
    std::exchange(on_signal, nullptr)();
  }

  /// libevent's callbacks call a member function. No exception may pass through libevent.
  template <auto Member, class... What>
  static void guarded(void* self, What*... what) {
    auto& impl = *static_cast<Impl*>(self);
    try {
      (impl.*Member)(what...);
    } catch (...) {
      impl.error = std::current_exception();
      event_base_loopbreak(impl.base);
    }
  }
  template <auto Member>
  static void call(evutil_socket_t, short, void* self) {
    guarded<Member>(self);
  }
  template <auto Member, class What>
  static void call(What* what, void* self) {
    guarded<Member>(self, what);
  }

  HttpOptions options;
  Handler handler;
  event_base* base = nullptr;
  evhttp* http = nullptr;
  evconnlistener* listener = nullptr;  // null when draining
  evhttp_bound_socket* bound = nullptr;
  event *wake = nullptr, *tick = nullptr, *written = nullptr;
  std::vector<event*> signals;
  std::unordered_map<bufferevent*, std::shared_ptr<void>> sockets;  // a reference to each one
  std::unordered_map<evhttp_connection*, std::shared_ptr<Exchange>> exchanges;
  std::mutex mutex;
  std::vector<std::function<void()>> posted, postponed;  // the first under the mutex
  std::function<void()> on_signal;
  std::exception_ptr error;
};

HttpServer::HttpServer(const HttpOptions& options, Handler handler)
    : impl_(std::make_unique<Impl>(options, std::move(handler))) {
  impl_->listen();  // if it throws, ~Impl frees the rest
}
HttpServer::~HttpServer() = default;
event_base* HttpServer::loop() const { return impl_->base; }

int HttpServer::port() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  const int socket = evhttp_bound_socket_get_fd(impl_->bound);
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

void HttpServer::run() {
  event_base_loop(impl_->base, EVLOOP_NO_EXIT_ON_EMPTY);
  if (impl_->error) std::rethrow_exception(std::exchange(impl_->error, nullptr));
}

void HttpServer::post(std::function<void()> function) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->posted.push_back(std::move(function));
  }
  event_active(impl_->wake, 0, 0);
}

/// A turn of the loop writes to the sockets first, and looks at timers then.
void HttpServer::after_writing(std::function<void()> function) {
  impl_->postponed.push_back(std::move(function));
  const timeval now{};
  event_add(impl_->written, &now);
}

void HttpServer::drain(std::chrono::milliseconds grace) {
  if (std::exchange(impl_->listener, nullptr) == nullptr) return;
  evhttp_del_accept_socket(impl_->http, impl_->bound);
  const timeval limit{grace.count() / 1000, grace.count() % 1000 * 1000};
  event_base_loopexit(impl_->base, &limit);
  impl_->stop_if_drained();
}

void HttpServer::stop() { event_base_loopexit(impl_->base, nullptr); }

void HttpServer::on_first_signal(std::function<void()> on_signal) {
  impl_->on_signal = std::move(on_signal);
  for (const int number : {SIGTERM, SIGINT}) {
    impl_->signals.push_back(
        evsignal_new(impl_->base, number, &Impl::call<&Impl::signal>, impl_.get()));
    event_add(impl_->signals.back(), nullptr);
  }
}

}  // namespace serve
