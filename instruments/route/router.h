#pragma once

// The router: an HTTP server in front of several. It mirrors their caches, sends each request where
// its policy says, and passes the answer on as it comes. One thread does all of it.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "instruments/load/http_client.h"
#include "instruments/route/policy.h"
#include "instruments/route/prompts.h"
#include "instruments/route/upstream.h"
#include "instruments/serve/http/http.h"

namespace route {

using load::Call;
using load::kNoServer;
using load::kTimedOut;
using Client = load::HttpClient;

struct RouterOptions {
  serve::HttpOptions http = {};
  std::vector<std::string> servers;       // "http://HOST:PORT"
  std::vector<std::string> prefill = {};  // servers that compute prompts for those
  double store_seconds_per_block = 0;     // of the store that all share; 0 means none
  Policy policy = Policy::kSeconds;
  uint64_t seed = 0;
  std::filesystem::path model_dir;  // its tokenizer
  std::string chat_template = "auto";
  std::string api_key = {};  // for the servers' events; a client's key is passed on
  double timeout = 300;      // seconds in which a server sends nothing of an answer
  double drain_seconds = 30;
  bool quiet = false;  // says nothing on standard error
};

class Router {
 public:
  /// Listens from now on, and follows the servers once it runs. Throws UserError.
  explicit Router(const RouterOptions& options);
  ~Router();

  int port() const { return http_.port(); }
  /// Serves until stop(), or until a signal has drained it (with_signals).
  void run(bool with_signals = false);

  // These may be called from any thread.
  void drain();
  void stop();

 private:
  struct Server;
  struct Job;
  using Shared = std::shared_ptr<serve::Exchange>;
  using SharedJob = std::shared_ptr<Job>;

  void add_server(const std::string& url, bool prefill);
  void handle(const Shared& exchange);
  void accept(const Shared& exchange);
  std::string metrics() const;
  bool any_up() const;
  void begin_drain();

  // A request and its answer.
  bool wants_prefill(const Prompts& prompts) const;
  std::vector<int64_t> in_store(const Prompts& prompts) const;
  void dispatch(const SharedJob& job);
  void send(const SharedJob& job, size_t server);
  void take_bytes(Job& job, std::string_view bytes);
  void finish(const SharedJob& job, const std::string& failure);
  void refuse(Job& job);

  // A server and its cache.
  void follow_all();
  void follow(Server& server);
  void take_snapshot(Server& server);
  void ask_health(Server& server);
  void take_in(Server& server);
  void cache_changed(Server& server);
  std::string bearer() const;
  void fail(Server& server, const std::string& why);
  void say(const Server& server, const std::string& what) const;

  RouterOptions options_;
  PromptReader reader_;
  Chooser chooser_, prefill_chooser_;
  LruBlocks stored_;  // blocks of prompts that were computed: the shared store has them
  std::vector<std::unique_ptr<Server>> servers_;
  serve::HttpServer http_;
  bool draining_ = false;
  int64_t num_ticks_ = 0;
  int64_t num_sent_elsewhere_ = 0, num_failed_ = 0, blocks_asked_ = 0, blocks_found_ = 0;
  int64_t num_prefills_ = 0, num_prefills_failed_ = 0;
  Client client_;  // last: its calls use all of the above
};

}  // namespace route
