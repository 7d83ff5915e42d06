#pragma once

// The server: its routes, and the two threads that serve them. The loop's thread reads requests,
// makes prompts and writes answers; the other one runs passes.

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "instruments/serve/events.h"
#include "instruments/serve/http/http.h"
#include "instruments/serve/pass_thread.h"
#include "instruments/serve/requests.h"
#include "qwen3/model.h"

namespace serve {

struct ServerOptions {
  HttpOptions http = {};
  LessonOptions lesson = {};
  RequestLimits limits = {};  // but for max_model_len, which the lesson's server gives
  std::string model_name;     // as clients name it
  std::filesystem::path model_dir;
  std::string chat_template = "auto";
  std::string api_key = {};  // empty means that none is needed
  bool cors = false;
  bool tell_cached = false;  // usage has prompt_tokens_details
  bool prefill = false;      // each request is computed up to its first token, for another server
  std::optional<uint64_t> seed = {};  // of requests that give none; without it each gets its own
  double drain_seconds = 30;
  std::filesystem::path page = {}, pages = {};        // the page at /, and the folder at /pages/
  std::string kv_events = {}, kv_events_replay = {};  // ZeroMQ endpoints; empty means none
};

class ApiServer {
 public:
  /// Borrows the model. Listens from now on. Throws UserError.
  ApiServer(kv::Model& model, const ServerOptions& options);

  int port() const { return http_.port(); }
  int max_model_len() const { return limits_.max_model_len; }
  int num_blocks() const { return lesson_->num_blocks(); }
  const std::string& chat_template() const { return chat_template_.name(); }

  /// Serves until stop(), or until a signal has drained it (with_signals). Returns normally then.
  void run(bool with_signals = false);
  /// Lets the answers end and then run() return. May be called from any thread.
  void drain();
  /// Makes run() return soon. May be called from any thread.
  void stop();
  /// Blocks in use after the last pass. May be called from any thread.
  int num_blocks_used() const { return num_blocks_used_; }

 private:
  using Shared = std::shared_ptr<Exchange>;
  struct Route {
    std::string method, path;
    bool needs_key;
    std::function<void(ApiServer&, const Shared&)> handle;
  };
  static const std::vector<Route> kRoutes;

  void handle(const Shared& exchange);
  void dispatch(const Shared& exchange);
  static const Route& route_of(const Exchange& exchange);

  using Parse = ApiRequest (*)(std::string_view body, const ApiRules& rules);
  void generate(const Shared& exchange, Parse parse);
  void models(const Shared& exchange);
  void tokenize(const Shared& exchange);
  void detokenize(const Shared& exchange);
  void health(const Shared& exchange);
  void kv_events(const Shared& exchange);
  void kv_snapshot(const Shared& exchange);
  void page(const Shared& exchange);

  std::vector<int32_t> tokens_of(const Prompt& prompt, bool add_special) const;
  std::vector<int32_t> tokens_of(const Conversation& conversation) const;
  void check_size(size_t num_bytes, const char* field) const;
  void take(const PassReport& report);
  void tell_cache_events();
  void warn_unknown(const std::vector<std::string>& names);
  void begin_drain();

  kv::Model& model_;
  std::string engine_id_;  // another one after each start
  ServerOptions options_;
  kv::Tokenizer tokenizer_;
  ChatTemplate chat_template_;
  size_t longest_token_ = 1;  // bytes
  watch::EventLog log_;       // the lesson's server tells it
  std::unique_ptr<LessonServer> lesson_;
  std::unique_ptr<watch::Publisher> publisher_;
  RequestLimits limits_;
  ApiRules rules_;
  Metrics metrics_;
  Requests requests_;
  CacheEvents events_;
  std::vector<watch::Frame> new_events_;  // that events_ does not have yet
  std::vector<Shared> event_readers_;
  std::set<std::string> warned_;
  HttpServer http_;
  bool draining_ = false;
  std::atomic<int> num_blocks_used_ = 0;
  std::unique_ptr<PassThread> thread_;  // last: it posts to http_
};

}  // namespace serve
