#include "instruments/serve/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <random>

#include "common/error.h"
#include "common/json.h"
#include "common/utf8.h"
#include "instruments/serve/api/fields.h"
#include "instruments/serve/api/spelling.h"
#include "instruments/serve/http/framing.h"
#include "instruments/serve/pages.h"

namespace serve {
namespace {

using nlohmann::ordered_json;

std::string dump(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

/// A number that no other answer has, also of an earlier start of the server.
std::string new_id() {
  static std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{:016x}{:016x}", random(), random());
}

/// Takes the same time wherever the two differ, so that a key cannot be guessed letter by letter.
bool same_secret(const std::string& found, const std::string& wanted) {
  size_t different = found.size() ^ wanted.size();
  for (size_t i = 0; i < found.size(); ++i) {
    const char other = wanted.empty() ? '\0' : wanted[i % wanted.size()];
    different |= static_cast<size_t>(static_cast<unsigned char>(found[i] ^ other));
  }
  return different == 0;
}

LessonOptions with_log(LessonOptions options, watch::EventLog& log) {
  options.serve.on_cache_event = log.sink();
  return options;
}

RequestLimits with_length(RequestLimits limits, const kv::Model& model,
                          const kv::Tokenizer& tokenizer, const std::filesystem::path& model_dir,
                          const LessonServer& server, const LessonOptions& options) {
  const auto positions = static_cast<int>(
      std::min({int64_t{model.config().max_position_embeddings}, tokenizer.config().max_length,
                int64_t{defaults_of(model_dir).max_length}}));
  const auto room = static_cast<int>(server.max_tokens(positions));
  // Without chunks a request that is preempted computes all its tokens again in one pass.
  const lesson08::SchedulerOptions& scheduler = options.serve.scheduler;
  const int fits = scheduler.chunked_prefill ? room : std::min(room, scheduler.max_tokens_per_pass);
  if (options.max_model_len > fits) {
    kv::user_error(
        "--max-model-len {}: the model has {} positions, the pool room for {} tokens{}; wanted at "
        "most {}",
        options.max_model_len, positions, room,
        fits < room ? fmt::format(", and a pass without chunks {}", fits) : "", fits);
  }
  limits.max_model_len = options.max_model_len > 0 ? options.max_model_len : fits;
  return limits;
}

ApiRules rules_of(const ServerOptions& options, int max_model_len) {
  ApiRules rules{.model_name = options.model_name,
                 .defaults = defaults_of(options.model_dir),
                 .by_priority = options.lesson.serve.scheduler.order == lesson08::Order::kPriority,
                 .has_store = options.lesson.store != nullptr,
                 .prefill = options.prefill,
                 .max_choices = options.limits.max_queued};
  // A template makes more than a token of each two values, as a rule.
  rules.max_chat_values = 1000 + 2 * static_cast<size_t>(max_model_len);
  rules.defaults.seed = options.seed;
  return rules;
}

}  // namespace

const std::vector<ApiServer::Route> ApiServer::kRoutes = {
    {"POST", "/v1/completions", true,
     [](ApiServer& server, const Shared& to) { server.generate(to, parse_completion); }},
    {"POST", "/v1/chat/completions", true,
     [](ApiServer& server, const Shared& to) { server.generate(to, parse_chat); }},
    {"GET", "/v1/models", true, &ApiServer::models},
    {"GET", "/v1/models/", true, &ApiServer::models},
    {"POST", "/tokenize", true, &ApiServer::tokenize},
    {"POST", "/detokenize", true, &ApiServer::detokenize},
    {"GET", "/kv_events", true, &ApiServer::kv_events},
    {"GET", "/kv_snapshot", true, &ApiServer::kv_snapshot},
    {"GET", "/metrics", false,
     [](ApiServer& server, const Shared& to) {
       to->reply(200, server.metrics_.text(), "text/plain; version=0.0.4; charset=utf-8");
     }},
    {"GET", "/health", false, &ApiServer::health},
    {"GET", "/ping", false, &ApiServer::health},
    {"GET", "/version", false,
     [](ApiServer&, const Shared& to) { to->reply(200, R"({"version":"page-by-page 0.1"})"); }},
    {"GET", "/", false, &ApiServer::page},
    {"GET", "/pages/", false, &ApiServer::page},
};

ApiServer::ApiServer(kv::Model& model, const ServerOptions& options)
    : model_(model),
      engine_id_(new_id()),
      options_(options),
      tokenizer_(kv::Tokenizer::load(options.model_dir)),
      chat_template_(options.model_dir, options.chat_template, tokenizer_),
      lesson_(make_server(model, with_log(options.lesson, log_))),
      limits_(with_length(options.limits, model, tokenizer_, options.model_dir, *lesson_,
                          options.lesson)),
      rules_(rules_of(options, limits_.max_model_len)),
      metrics_(options.model_name, limits_.max_model_len, options.lesson.block_size,
               lesson_->num_blocks()),
      requests_(tokenizer_, tokenizer_.with_eos_token(model.config().eos_token_ids), limits_,
                metrics_),
      http_(options.http, [this](const Shared& exchange) { handle(exchange); }) {
  for (int32_t id = 0; id < tokenizer_.vocab_size(); ++id) {
    if (!tokenizer_.has(id)) continue;
    longest_token_ = std::max(longest_token_, tokenizer_.token_bytes(id).size());
  }
  metrics_.store_blocks = lesson_->state().store_blocks;
  if (!options.kv_events.empty()) {
    publisher_ =
        std::make_unique<watch::Publisher>(options.kv_events, "", options.kv_events_replay);
  }
  const auto on_report = [this](PassReport report) {
    http_.post([this, report = std::move(report)] { take(report); });
  };
  thread_ = std::make_unique<PassThread>(*lesson_, log_, on_report, publisher_.get());
  requests_.set_passes(thread_.get());
}

void ApiServer::run(bool with_signals) {
  if (with_signals) http_.on_first_signal([this] { begin_drain(); });
  http_.run();
}

void ApiServer::drain() {
  http_.post([this] { begin_drain(); });
}
void ApiServer::stop() {
  http_.post([this] { http_.stop(); });
}

void ApiServer::begin_drain() {
  draining_ = true;
  tell_cache_events();
  for (const Shared& reader : std::exchange(event_readers_, {})) {
    reader->on_gone = nullptr;
    reader->end_stream();
  }
  http_.drain(std::chrono::milliseconds(static_cast<int64_t>(1000 * options_.drain_seconds)));
}

void ApiServer::take(const PassReport& report) {
  num_blocks_used_ = report.pass.state.num_blocks_used;
  metrics_.kv_usage = static_cast<double>(report.pass.state.num_blocks_used) /
                      static_cast<double>(lesson_->num_blocks());
  requests_.take(report);
  if (!report.cache_events) return;
  new_events_.push_back(*report.cache_events);
  // Tokens first: the events of a prompt of 512 tokens take 0.2 ms.
  http_.after_writing([this] { tell_cache_events(); });
}

void ApiServer::tell_cache_events() {
  for (const watch::Frame& frame : std::exchange(new_events_, {})) {
    const std::string event = events_.add(frame);
    for (const Shared& reader : event_readers_) reader->write(event);
  }
}

void ApiServer::handle(const Shared& exchange) {
  try {
    if (options_.cors) exchange->add_header("Access-Control-Allow-Origin", "*");
    dispatch(exchange);
  } catch (const ApiError& error) {
    if (error.status == 503) exchange->add_header("Retry-After", "1");
    if (error.status == 401) exchange->add_header("WWW-Authenticate", "Bearer");
    exchange->reply(error.status, body_of(error));
  } catch (const std::exception& error) {
    exchange->reply(500, body_of(ApiError(500, error.what())));
  }
}

const ApiServer::Route& ApiServer::route_of(const Exchange& exchange) {
  const auto found = std::ranges::find_if(kRoutes, [&](const Route& route) {
    return exchange.path() == route.path || (route.path.size() > 1 && route.path.ends_with('/') &&
                                             exchange.path().starts_with(route.path));
  });
  if (found == kRoutes.end()) {
    throw ApiError(404, fmt::format("There is no route {}.", exchange.path()));
  }
  const bool head_alone = exchange.method() == "HEAD" && found->path != "/kv_events";
  if ((head_alone ? "GET" : exchange.method()) != found->method) {
    throw ApiError(405, fmt::format("{} takes {} alone", found->path, found->method));
  }
  return *found;
}

void ApiServer::dispatch(const Shared& exchange) {
  if (!exchange->fault().empty()) throw ApiError(400, exchange->fault());
  if (options_.cors && exchange->method() == "OPTIONS") {
    // Clients have headers of their own; "*" would not stand for Authorization.
    const std::string asked = exchange->header("Access-Control-Request-Headers");
    exchange->add_header("Access-Control-Allow-Methods", "GET, HEAD, POST");
    exchange->add_header("Access-Control-Allow-Headers",
                         asked.empty() ? "Authorization, Content-Type, Last-Event-ID" : asked);
    exchange->add_header("Vary", "Access-Control-Request-Headers");
    return exchange->reply(204, "");
  }
  const Route& route = route_of(*exchange);
  if (route.needs_key && !options_.api_key.empty() &&
      !same_secret(bearer_of(exchange->header("Authorization")), options_.api_key)) {
    throw ApiError(401, "Unauthorized: wanted the header \"Authorization: Bearer KEY\"");
  }
  if (route.method == "POST") {
    // A browser asks before it sends JSON to another origin, so no foreign page can make this
    // server compute.
    if (!is_media_type(exchange->header("Content-Type"), "application/json")) {
      throw ApiError(415, "Unsupported Media Type: Only 'application/json' is allowed");
    }
    if (draining_) throw ApiError(503, "the server is shutting down");
  }
  route.handle(*this, exchange);
}

void ApiServer::health(const Shared& exchange) {
  exchange->reply(draining_ || !requests_.failure().empty() ? 503 : 200, "");
}

void ApiServer::models(const Shared& exchange) {
  const std::string model = fmt::format(
      R"({{"id":{0},"object":"model","created":0,)"
      R"("owned_by":"page-by-page","root":{0},"parent":null,"max_model_len":{1},)"
      R"("permission":[{{"id":"modelperm","object":"model_permission","created":0,)"
      R"("allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,)"
      R"("allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,)"
      R"("organization":"*","group":null,"is_blocking":false}}],)"
      R"("chat_template":"{2}","block_size":{3}}})",
      json_text(options_.model_name), max_model_len(), chat_template(), options_.lesson.block_size);
  const std::string all = "/v1/models";
  if (exchange->path().size() <= all.size() + 1) {
    return exchange->reply(200, R"({"object":"list","data":[)" + model + "]}");
  }
  check_model(exchange->path().substr(all.size() + 1), rules_);
  exchange->reply(200, model);
}

std::vector<int32_t> ApiServer::tokens_of(const Conversation& conversation) const {
  const auto check = [&](size_t num_bytes) { check_size(num_bytes, "messages"); };
  check(conversation.num_bytes);
  return chat_template_.render(conversation, check);
}

std::vector<int32_t> ApiServer::tokens_of(const Prompt& prompt, bool add_special) const {
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) {
    for (const int32_t id : *ids) {
      if (id >= model_.config().vocab_size) {
        throw ApiError(400, fmt::format("Token id {} is out of vocabulary", id), "prompt");
      }
    }
    return *ids;
  }
  const std::string& text = std::get<std::string>(prompt);
  check_size(text.size(), "prompt");
  std::vector<int32_t> ids = tokenizer_.encode(text, true);
  return add_special ? tokenizer_.with_special_tokens(std::move(ids)) : ids;
}

/// A text that is surely too long is refused before it is tokenised.
void ApiServer::check_size(size_t num_bytes, const char* field) const {
  if (num_bytes / longest_token_ <= static_cast<size_t>(max_model_len())) return;
  throw ApiError(400,
                 fmt::format("{} bytes of text exceed the model's maximum context length ({}); "
                             "wanted a shorter text.",
                             num_bytes, max_model_len()),
                 field);
}

void ApiServer::tokenize(const Shared& exchange) {
  const kv::Json json = parse_body(exchange->body(), rules_.max_chat_values);
  Fields fields(json);
  check_model(fields.text("model", rules_.model_name), rules_);
  const bool chat = fields.find("messages") != nullptr;
  if (chat == (fields.find("prompt") != nullptr)) {
    fields.wrong("prompt", "a string, or messages instead");
  }
  const bool with_strings = fields.boolean("return_token_strs", false);
  refuse_for_tokenize(fields);
  const bool add_special = fields.boolean("add_special_tokens", !chat);
  std::vector<int32_t> ids = chat ? tokens_of(parse_conversation(fields, exchange->body()))
                                  : tokens_of(fields.text("prompt"), add_special);
  if (chat && add_special) ids = tokenizer_.with_special_tokens(std::move(ids));
  warn_unknown(fields.unknown());
  ordered_json strings;
  if (with_strings) strings = spelled(tokenizer_, ids);
  exchange->reply(200, dump({{"count", ids.size()},
                             {"max_model_len", max_model_len()},
                             {"tokens", ids},
                             {"token_strs", strings}}));
}

void ApiServer::detokenize(const Shared& exchange) {
  const kv::Json json = parse_body(exchange->body());
  Fields fields(json);
  check_model(fields.text("model", rules_.model_name), rules_);
  if (fields.find("tokens") == nullptr) fields.wrong("tokens", "a list of token ids");
  const std::vector<int32_t> ids = fields.token_ids("tokens");
  for (const int32_t id : ids) {
    if (!tokenizer_.has(id)) fields.wrong("tokens", "ids of the vocabulary");
  }
  warn_unknown(fields.unknown());
  exchange->reply(200, dump({{"prompt", tokenizer_.decode(ids)}}));
}

void ApiServer::generate(const Shared& exchange, Parse parse) {
  if (!requests_.failure().empty()) {
    throw ApiError(500, "the server has failed: " + requests_.failure());
  }
  requests_.check_room(1);
  const ApiRequest request = parse(exchange->body(), rules_);
  requests_.check_room(request.num_choices());
  warn_unknown(request.unknown);
  std::vector<std::vector<int32_t>> prompts;
  if (request.chat) {
    prompts.push_back(tokens_of(request.conversation));
    if (prompts.front().empty()) throw ApiError(400, "the messages are empty", "messages");
    if (request.add_special) {
      prompts.front() = tokenizer_.with_special_tokens(std::move(prompts.front()));
    }
  }
  for (const Prompt& prompt : request.prompts) {
    prompts.push_back(tokens_of(prompt, request.add_special));
  }
  const std::string id = request.request_id.empty() ? new_id() : request.request_id;
  const AnswerHead head{.id = (request.chat ? "chatcmpl-" : "cmpl-") + id,
                        .model_name = options_.model_name,
                        .engine_id = engine_id_,
                        .created = std::time(nullptr),
                        .tell_cached = options_.tell_cached};
  requests_.start(exchange, request, prompts, head);
}

void ApiServer::warn_unknown(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (warned_.size() >= 100 || !warned_.insert(name).second) continue;
    fmt::print(stderr, "warning: requests have a field {} that is unknown, and ignored\n",
               kv::quote(name));
  }
}

void ApiServer::kv_events(const Shared& exchange) {
  tell_cache_events();
  const std::string last = exchange->header("Last-Event-ID");
  exchange->begin_stream("text/event-stream; charset=utf-8");
  exchange->write(": events of the KV cache\n\n");
  if (!last.empty() && last.size() < 19 &&
      std::ranges::all_of(last, [](char c) { return c >= '0' && c <= '9'; })) {
    exchange->write(events_.after(std::stoull(last)));
  }
  event_readers_.push_back(exchange);
  exchange->on_gone = [this, reader = exchange.get()] {
    std::erase_if(event_readers_, [&](const Shared& one) { return one.get() == reader; });
  };
}

void ApiServer::kv_snapshot(const Shared& exchange) {
  tell_cache_events();
  exchange->reply(200, events_.snapshot(options_.lesson.block_size, lesson_->num_blocks()));
}

void ApiServer::page(const Shared& exchange) {
  std::optional<std::filesystem::path> file = options_.page;
  if (exchange->path() != "/") {
    file = file_in(options_.pages, exchange->path().substr(std::string("/pages/").size()));
  }
  if (!file || !std::filesystem::is_regular_file(*file)) {
    throw ApiError(404, exchange->path() == "/"
                            ? "This build has no page."
                            : "There is no such page; ./course web makes them.");
  }
  exchange->reply(200, kv::read_file(*file, size_t{64} << 20), content_type_of(*file));
}

}  // namespace serve
