#include "instruments/route/router.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/error.h"
#include "common/utf8.h"
#include "instruments/route/router_state.h"
#include "instruments/serve/api/error.h"
#include "instruments/serve/http/framing.h"

namespace route {
namespace {

constexpr double kTick = 0.2;            // seconds between two attempts to reach a server
constexpr double kEver = 1e8;            // a stream of events may be silent for years
constexpr double kSnapshotTimeout = 30;  // seconds
constexpr int kMaxLost = 2;              // a request that ends two servers is not sent to a third
constexpr int kHealthTicks = 10;         // between two looks at a server's health
constexpr double kHealthTimeout = 5;     // seconds
constexpr int kReplayTicks = 5;          // in which a replay must begin
constexpr const char* kJson = "application/json";

bool is_events(const std::string& type) { return serve::is_media_type(type, "text/event-stream"); }

}  // namespace

Router::Router(const RouterOptions& options)
    : options_(options),
      reader_(options.model_dir, options.chat_template),
      chooser_(options.policy, options.seed),
      prefill_chooser_(options.policy, options.seed),
      stored_(Upstream::kMaxSentBlocks),
      http_(options.http, [this](const Shared& exchange) { handle(exchange); }),
      client_(http_.loop()) {
  for (const std::string& url : options.servers) add_server(url, false);
  for (const std::string& url : options.prefill) add_server(url, true);
  client_.every(kTick, [this] { follow_all(); });
  http_.post([this] { follow_all(); });
}

Router::~Router() = default;

void Router::add_server(const std::string& given, bool prefill) {
  const char* const option = prefill ? "--prefill" : "--server";
  const load::Url url = kv::parse_http_server(given, option);
  const auto is_it = [&](const auto& one) {
    return one->url.host == url.host && one->url.port == url.port && one->url.path == url.path;
  };
  if (std::ranges::any_of(servers_, is_it)) {
    kv::user_error("{} {}: found twice, wanted each server once; leave one out", option, given);
  }
  servers_.push_back(std::make_unique<Server>(Server{.url = url, .prefill = prefill}));
}

void Router::run(bool with_signals) {
  if (with_signals) http_.on_first_signal([this] { begin_drain(); });
  http_.run();
}

void Router::drain() {
  http_.post([this] { begin_drain(); });
}
void Router::stop() {
  http_.post([this] { http_.stop(); });
}

void Router::begin_drain() {
  draining_ = true;
  http_.drain(std::chrono::milliseconds(static_cast<int64_t>(1000 * options_.drain_seconds)));
}

bool Router::any_up() const {
  return std::ranges::any_of(servers_, [](const auto& one) { return one->up && !one->prefill; });
}

void Router::say(const Server& server, const std::string& what) const {
  if (!options_.quiet) fmt::print(stderr, "{}\n", kv::one_line(server.url.text + ": " + what));
}

void Router::handle(const Shared& exchange) {
  try {
    if (!exchange->fault().empty()) throw serve::ApiError(400, exchange->fault());
    const bool get = exchange->method() == "GET" || exchange->method() == "HEAD";
    const std::string& path = exchange->path();
    if (get && (path == "/health" || path == "/ping")) {
      return exchange->reply(any_up() && !draining_ ? 200 : 503, "");
    }
    if (get && path == "/metrics") {
      return exchange->reply(200, metrics(), "text/plain; version=0.0.4; charset=utf-8");
    }
    accept(exchange);
  } catch (const serve::ApiError& error) {
    if (error.status == 503) exchange->add_header("Retry-After", "1");
    exchange->reply(error.status, serve::body_of(error));
  }
}

void Router::accept(const Shared& exchange) {
  static const std::vector<std::pair<const char*, const char*>> kPassedOn = {
      {"POST", "/v1/completions"}, {"POST", "/v1/chat/completions"}, {"GET", "/v1/models"},
      {"POST", "/tokenize"},       {"POST", "/detokenize"},          {"GET", "/version"}};
  const auto route = std::ranges::find(kPassedOn, exchange->path(),
                                       [](const auto& one) { return std::string(one.second); });
  if (route == kPassedOn.end()) {
    throw serve::ApiError(404, fmt::format("The router has no route {}.", exchange->path()));
  }
  const bool head = exchange->method() == "HEAD" && route->first == std::string("GET");
  if (exchange->method() != route->first && !head) {
    throw serve::ApiError(405, fmt::format("{} takes {} alone", route->second, route->first));
  }
  if (draining_) throw serve::ApiError(503, "the router is shutting down");
  const auto job = std::make_shared<Job>(Job{.exchange = exchange, .tried = {}});
  job->tried.resize(servers_.size());
  int block_size = 0;
  for (const auto& server : servers_) {
    if (server->up) block_size = std::max(block_size, server->state.mirror.block_size());
  }
  const bool completes = exchange->path().ends_with("/completions");
  const bool chat = exchange->path() == "/v1/chat/completions";
  job->read = completes ? reader_.read(exchange->body(), chat, block_size)
                        : PromptReader::Read{.prompts = std::make_shared<Prompts>()};
  exchange->on_gone = [this, weak = std::weak_ptr(job)] {
    const SharedJob gone = weak.lock();
    if (gone == nullptr || gone->number < 0) return;
    client_.cancel(gone->call);
    servers_[gone->server]->not_begun.erase(gone->call);
    servers_[gone->server]->state.end(gone->number, Clock::now());
  };
  job->prefill = wants_prefill(*job->read.prompts);
  dispatch(job);
}

/// Prefill is of use if there is a block that a server would find, and none has all of them.
bool Router::wants_prefill(const Prompts& prompts) const {
  const int64_t findable = prompts.num_findable();
  return findable > 0 && std::ranges::none_of(servers_, [&](const auto& one) {
           return one->up && !one->prefill && one->state.view(prompts).cached_blocks >= findable;
         });
}

/// A block that any server has or had is in the servers' store, unless the store has evicted it.
std::vector<int64_t> Router::in_store(const Prompts& prompts) const {
  std::vector<int64_t> found;
  for (const Prompts::One& one : prompts.all) {
    if (options_.store_seconds_per_block == 0) break;
    const int64_t blocks = length_of_run(one.blocks, [&](uint64_t block) {
      return stored_.has(block) || std::ranges::any_of(servers_, [&](const auto& server) {
               return server->state.mirror.has(block);
             });
    });
    found.push_back(std::min(blocks, std::max<int64_t>(0, one.tokens - 1) / prompts.block_size));
  }
  return found;
}

/// Sends the request to the best server that has not failed it.
void Router::dispatch(const SharedJob& job) {
  std::vector<size_t> indices;
  std::vector<const Upstream*> states;
  for (size_t i = 0; i < servers_.size(); ++i) {
    if (!servers_[i]->up || servers_[i]->prefill != job->prefill || job->tried[i]) continue;
    indices.push_back(i);
    states.push_back(&servers_[i]->state);
  }
  if (indices.empty() && !std::exchange(job->prefill, false)) return refuse(*job);
  if (indices.empty()) return dispatch(job);
  const Prompts& prompts = *job->read.prompts;
  const std::vector<double> rates = rates_of(states);
  const std::vector<int64_t> stored = in_store(prompts);
  std::vector<ServerView> views;
  for (size_t i = 0; i < indices.size(); ++i) {
    views.push_back(states[i]->view(prompts, stored));
    views.back().rate = rates[i];
    views.back().store_seconds = options_.store_seconds_per_block;
  }
  Chooser& chooser = job->prefill ? prefill_chooser_ : chooser_;
  const size_t chosen = chooser.choose(prompts.size(), views);
  if (!job->prefill) {
    blocks_asked_ += prompts.size().blocks;
    blocks_found_ += views[chosen].cached_blocks;
  }
  send(job, indices[chosen]);
}

void Router::send(const SharedJob& job, size_t index) {
  Server& server = *servers_[index];
  job->server = index;
  job->number =
      server.state.begin(job->read.prompts, job->read.stream && !job->prefill, Clock::now());
  job->status = 0;
  job->begun = false;
  ++server.num_requests;
  Call call{.server = server.url,
            .path = job->exchange->path(),
            .headers = {{"Authorization", job->exchange->header("Authorization")},
                        {"Content-Type", job->exchange->header("Content-Type")}},
            .timeout = options_.timeout};
  if (job->exchange->method() == "POST") call.body = std::string(job->exchange->body());
  if (job->prefill) {
    call.body = prefill_body(job->exchange->body());
    ++num_prefills_;
  }
  job->call = client_.send(
      call, {.on_head =
                 [job](int status, const std::string& type) {
                   job->status = status;
                   job->type = type;
                 },
             .on_bytes = [this, job](std::string_view bytes) { take_bytes(*job, bytes); },
             .on_end = [this, job](const std::string& failure) { finish(job, failure); }});
  server.not_begun.insert(job->call);
}

/// The head of a stream comes when a server has accepted the request. It is passed on with the
/// first byte, up to which the request may still go elsewhere.
void Router::take_bytes(Job& job, std::string_view bytes) {
  if (job.prefill) return;
  if (!std::exchange(job.begun, true)) {
    servers_[job.server]->not_begun.erase(job.call);
    job.body.clear();
    job.passes = job.status == 200 && is_events(job.type);
    if (job.passes) job.exchange->begin_stream(job.type.c_str());
    if (job.status == 200) servers_[job.server]->state.first_byte(job.number, Clock::now());
  }
  if (job.passes) {
    job.exchange->write(bytes);
  } else {
    job.body += bytes;
  }
}

void Router::finish(const SharedJob& job, const std::string& failure) {
  Server& server = *servers_[job->server];
  server.state.end(std::exchange(job->number, -1), Clock::now());
  server.not_begun.erase(job->call);
  const bool no_room = failure.empty() && job->status == 503;
  if (!failure.empty()) {
    ++server.num_failures;
    if (!job->begun) fail(server, failure);
  }
  if (failure.empty() && job->status == 200) {
    for (const Prompts::One& one : job->read.prompts->all) stored_.use(one.blocks);
  }
  if (std::exchange(job->prefill, false)) {  // with or without success: a decode server is next
    num_prefills_failed_ += !failure.empty() || job->status != 200;
    return dispatch(job);
  }
  const bool lost = !failure.empty() && !job->begun;
  job->num_lost += lost && failure != kNoServer;  // what never came cannot have ended a server
  if (no_room || (lost && job->num_lost < kMaxLost)) {
    job->tried[job->server] = true;
    ++num_sent_elsewhere_;
    return dispatch(job);
  }
  serve::Exchange& exchange = *job->exchange;
  if (failure.empty()) {
    if (job->passes) return exchange.end_stream();
    return exchange.reply(job->status, job->body, job->type.empty() ? kJson : job->type.c_str());
  }
  ++num_failed_;
  const std::string error = serve::body_of(serve::ApiError(
      502, fmt::format("{} has not answered to the end: {}", server.url.text, failure)));
  if (!job->passes) return exchange.reply(502, error);
  exchange.write("data: " + error + "\n\ndata: [DONE]\n\n");
  exchange.end_stream();
}

/// No server is left that could take it. If one has said why, that is the answer.
void Router::refuse(Job& job) {
  ++num_failed_;
  job.exchange->add_header("Retry-After", "1");
  if (job.status == 503) return job.exchange->reply(503, job.body, kJson);
  job.exchange->reply(503, serve::body_of(serve::ApiError(503, "no server is up")));
}

void Router::follow_all() {
  for (const auto& server : servers_) {
    CacheMirror& mirror = server->state.mirror;
    if (!server->events) follow(*server);
    if (server->streams && ++server->ticks >= kReplayTicks) mirror.give_up_replay();
    if (server->streams && mirror.wants_snapshot()) take_snapshot(*server);
    if (num_ticks_ % kHealthTicks == 0) ask_health(*server);
  }
  ++num_ticks_;
  http_.post([] {});  // which is when it cuts off clients that leave too much unread
}

/// A stream of events that begins tells that the server is there. One that ends may begin again;
/// one that does not begin tells that the server is gone.
void Router::follow(Server& server) {
  server.streams = false;
  const auto on_head = [this, &server](int status, const std::string& type) {
    if (status != 200 || !is_events(type)) {
      kv::user_error("GET /kv_events is answered with {}; wanted a ./course serve{}", status,
                     status == 401 ? ", and its --api-key" : "");
    }
    server.streams = true;
    server.ticks = 0;
    take_in(server);
    if (server.state.mirror.wants_snapshot()) take_snapshot(server);
  };
  const auto on_bytes = [this, &server](std::string_view bytes) {
    if (!server.streams) return;
    server.state.mirror.take(bytes);
    cache_changed(server);
  };
  const auto on_end = [this, &server](const std::string& failure) {
    server.events.reset();
    if (!std::exchange(server.streams, false)) fail(server, failure);
  };
  server.events = client_.send({.server = server.url,
                                .path = "/kv_events",
                                .headers = {{"Authorization", bearer()},
                                            {"Last-Event-ID", server.state.mirror.begin_stream()}},
                                .timeout = kEver},
                               {.on_head = on_head, .on_bytes = on_bytes, .on_end = on_end});
}

void Router::take_snapshot(Server& server) {
  if (server.snapshot) return;
  const auto body = std::make_shared<std::string>();
  const auto on_end = [this, &server, body](const std::string& failure) {
    server.snapshot.reset();
    if (!failure.empty()) return;  // asked for again at the next tick
    server.state.mirror.take_snapshot(*body);
    cache_changed(server);
  };
  server.snapshot =
      client_.send({.server = server.url,
                    .path = "/kv_snapshot",
                    .headers = {{"Authorization", bearer()}},
                    .timeout = kSnapshotTimeout},
                   {.on_head =
                        [](int status, const std::string&) {
                          if (status != 200)
                            kv::user_error("GET /kv_snapshot is answered with {}", status);
                        },
                    .on_bytes = [body](std::string_view bytes) { *body += bytes; },
                    .on_end = on_end});
}

/// A server whose engine is dead, or that hangs, has no queue and would get all requests.
void Router::ask_health(Server& server) {
  if (server.health) return;
  const auto status = std::make_shared<int>(0);
  const auto on_end = [this, &server, status](const std::string& failure) {
    server.health.reset();
    if (*status == 0 && failure != kTimedOut) return;  // that nothing listens is seen elsewhere
    server.well = *status == 200;
    if (server.up && !server.well) {
      fail(server, "GET /health: " + (failure.empty() ? std::to_string(*status) : failure));
    }
    take_in(server);
  };
  server.health = client_.send(
      {.server = server.url, .path = "/health", .timeout = kHealthTimeout},
      {.on_head = [status](int code, const std::string&) { *status = code; }, .on_end = on_end});
}

void Router::take_in(Server& server) {
  if (!server.streams || !server.well) return;
  if (!std::exchange(server.up, true)) say(server, "up");
  server.said.clear();
}

std::string Router::bearer() const {
  return options_.api_key.empty() ? "" : "Bearer " + options_.api_key;
}

void Router::cache_changed(Server& server) { server.state.cache_changed(Clock::now()); }

/// Removes the server, with all that is known of its cache. The next tick tries to reach it. Calls
/// that wait for a prefill server go on at once. Calls that wait for an unhealthy server go to
/// another one.
void Router::fail(Server& server, const std::string& why) {
  for (std::optional<Client::Id>* call : {&server.events, &server.snapshot}) {
    if (*call) client_.cancel(**call);
    call->reset();
  }
  if (server.prefill || !server.well) {
    for (const Client::Id call : server.not_begun) client_.fail(call, why);
  }
  server.streams = server.up = false;
  server.state.mirror.clear();
  if (server.said != why) say(server, "down: " + why);
  server.said = why;
}

}  // namespace route
