#include "instruments/watch/sockets/http_source.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/error.h"

namespace watch {
namespace {

using nlohmann::json;

constexpr const char* kGone = "the server has gone";
constexpr int kYear = 365 * 24 * 3600;  // a server may have nothing to tell

BlockHash hash_from(const std::string& hex) {
  BlockHash hash;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    hash += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return hash;
}

std::optional<BlockHash> parent_from(const json& hex) {
  return hex.is_null() ? std::nullopt : std::optional(hash_from(hex));
}

Event event_from(const json& one) {
  if (one.at("type") == "AllBlocksCleared") return AllBlocksCleared{};
  const Place place{.medium = one.at("medium"), .group_idx = one.at("group_idx")};
  std::vector<BlockHash> hashes;
  for (const json& hash : one.at("block_hashes")) hashes.push_back(hash_from(hash));
  if (one.at("type") == "BlockRemoved") return BlockRemoved{std::move(hashes), place};
  return BlockStored{.block_hashes = std::move(hashes),
                     .parent_block_hash = parent_from(one.at("parent_block_hash")),
                     .token_ids = one.at("token_ids"),
                     .block_size = one.at("block_size"),
                     .place = place};
}

/// The blocks of a snapshot, stored one after the other.
std::vector<Event> events_from(const json& snapshot) {
  std::vector<Event> events;
  for (const json& block : snapshot.at("blocks")) {
    const BlockStored stored{.block_hashes = {hash_from(block.at("hash"))},
                             .parent_block_hash = parent_from(block.at("parent")),
                             .token_ids = block.at("token_ids"),
                             .block_size = snapshot.at("block_size")};
    events.insert(events.end(), block.at("copies"), stored);
  }
  return events;
}

std::string text_of(evhttp_request* request) {
  evbuffer* const buffer = evhttp_request_get_input_buffer(request);
  std::string text(evbuffer_get_length(buffer), '\0');
  evbuffer_remove(buffer, text.data(), text.size());
  return text;
}

}  // namespace

struct HttpSource::Impl {
  explicit Impl(const std::string& given) : url(given) {
    const std::unique_ptr<evhttp_uri, void (*)(evhttp_uri*)> uri(evhttp_uri_parse(url.c_str()),
                                                                 evhttp_uri_free);
    const int port = uri ? evhttp_uri_get_port(uri.get()) : 0;
    if (port <= 0) kv::user_error("{}: wanted http://HOST:PORT, as http://127.0.0.1:8000", url);
    host = evhttp_uri_get_host(uri.get());
    if (host == "localhost") host = "127.0.0.1";  // its IPv6 address often comes first
    base = event_base_new();
    for (evhttp_connection** one : {&stream, &other}) {
      *one = evhttp_connection_base_new(base, nullptr, host.c_str(), static_cast<uint16_t>(port));
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
    evhttp_add_header(evhttp_request_get_output_headers(request), "Host", host.c_str());
    evhttp_make_request(connection, request, EVHTTP_REQ_GET, path);
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
      if (data < end) take(json::parse(bytes.substr(data + 6, end - data - 6)));
    }
  }
  void end(evhttp_request*) { throw std::runtime_error(kGone); }
  void begin(evhttp_request* request) {
    const json snapshot = json::parse(text_of(request));
    last = snapshot.at("seq").get<int64_t>();
    hand_on(events_from(snapshot));
    for (const json& batch : std::exchange(early, {})) take(batch);
  }

  void take(const json& batch) {
    const int64_t seq = batch.at("seq");
    if (!last) return early.push_back(batch);
    if (seq <= *last) return;  // part of the snapshot
    if (seq > *last + 1) throw std::runtime_error("events are missing");
    last = seq;
    std::vector<Event> events;
    for (const json& one : batch.at("events")) events.push_back(event_from(one));
    hand_on(std::move(events));
  }
  void hand_on(std::vector<Event> events) {
    if (events.empty()) return;
    const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
    ready.push_back({next_seq++, encode({.ts = now.count(), .events = std::move(events)})});
  }

  std::string url, host;
  event_base* base = nullptr;
  evhttp_connection *stream = nullptr, *other = nullptr;
  bool asked = false;           // for the snapshot
  std::string bytes;            // of an event that is not whole yet
  std::vector<json> early;      // batches that came before the snapshot
  std::optional<int64_t> last;  // the server's number of the last batch; empty before the snapshot
  uint64_t next_seq = 0;
  std::vector<Frame> ready;
  std::string error;  // why no more can come
};

HttpSource::HttpSource(const std::string& url) : impl_(std::make_unique<Impl>(url)) {}
HttpSource::~HttpSource() = default;

std::vector<Frame> HttpSource::receive(std::chrono::milliseconds time) {
  const timeval limit{time.count() / 1000, time.count() % 1000 * 1000};
  event_base_loopexit(impl_->base, &limit);
  event_base_dispatch(impl_->base);
  if (impl_->ready.empty() && !impl_->error.empty()) {
    kv::user_error("{}: {}; attach to it again once ./course serve runs there", impl_->url,
                   impl_->error);
  }
  return std::exchange(impl_->ready, {});
}

}  // namespace watch
