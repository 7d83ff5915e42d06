// An HTTP server with OpenAI's API on one of the course's servers.
//
//   serve --port 8000
//   curl localhost:8000/v1/completions -H 'Content-Type: application/json' -d '{"prompt": "Once"}'

#include <string>

#include "common/console.h"
#include "common/error.h"
#include "common/table.h"
#include "common/url.h"
#include "common/utf8.h"
#include "instruments/serve/server.h"
#include "instruments/serve/store.h"
#include "programs/generate.h"

namespace {

struct Options {
  kv::GenerateOptions generate;
  serve::ServerOptions server;
  std::string order = "first-come", store, load = "quicker", role = "both";
  int lesson = 0;
  int max_body_mib = 8;
  bool no_caching = false;
  bool no_chunked_prefill = false;
};

void add_http_options(kv::CommandLine& command, Options& options) {
  serve::ServerOptions& server = options.server;
  command
      .value("--host ADDRESS", server.http.host,
             "where to listen; 0.0.0.0, or :: with IPv6: for other machines, too")
      .not_empty();
  command.value("--port N", server.http.port, "0: any free one").between(0, 65535);
  command
      .value("--api-key KEY", server.api_key,
             "the key that clients must send as \"Authorization: Bearer KEY\"")
      .not_empty();
  command.flag("--cors", server.cors, "lets pages of other origins use the server");
  command.value("--max-connections N", server.http.max_connections, "open at once; others wait")
      .between(1, 60'000);
  command.value("--max-body-mib N", options.max_body_mib, "largest body of a request")
      .between(1, 1024);
  command
      .value("--max-queued-requests N", server.limits.max_queued,
             "requests that wait for their first pass; others are refused with 503")
      .between(1, 1 << 20);
  command
      .value("--max-queued-tokens N", server.limits.max_queued_tokens,
             "the same for the tokens of their prompts; 0: no limit")
      .between(0, 1 << 30);
  command
      .value("--drain-seconds X", server.drain_seconds,
             "after Ctrl-C or SIGTERM: how long answers may still take; a second one ends at once")
      .real_between(0, 86'400);
}

void add_lesson_options(kv::CommandLine& command, Options& options) {
  serve::LessonOptions& lesson = options.server.lesson;
  command.value("--lesson N", options.lesson,
                "the lesson of the server, 8 to 14; 0: 8, or 13 with --store");
  kv::add_pool_options(command, lesson.block_size, lesson.num_blocks,
                       "blocks in the pool; 0: as memory allows");
  command
      .value("--memory-utilization X", lesson.memory_utilization,
             "with --num-blocks 0: the share of the free memory that the pool may take")
      .over(0, 1);
  command
      .value("--max-model-len N", lesson.max_model_len,
             "tokens of a prompt and its answer; 0: as the model and the pool allow")
      .between(0, 1 << 24);
  lesson08::SchedulerOptions& scheduler = lesson.serve.scheduler;
  command.value("--max-tokens-per-pass N", scheduler.max_tokens_per_pass, "rows of one pass")
      .between(1, 1 << 20);
  command.value("--max-running N", scheduler.max_running, "requests that hold blocks")
      .between(1, 1 << 20);
  command.flag("--no-chunked-prefill", options.no_chunked_prefill,
               "a prompt runs in one pass, or waits");
  command.flag("--no-caching", options.no_caching, "find no prefixes");
  command.value("--order NAME", options.order, "first-come or priority")
      .one_of({"first-come", "priority"});
  command.flag("--greedy", options.server.limits.greedy,
               "the device chooses the likeliest token; no other sampling, no logprobs");
  command
      .value("--host-blocks N", lesson.host_blocks, "lessons 11 to 13: blocks in the host's memory")
      .between(0, 1 << 24);
  command
      .value("--file FILE", lesson.file, "lesson 12: the file in which blocks outlast the server")
      .not_empty();
  command
      .value(
          "--store STORE", options.store,
          "lesson 13: the store of the servers that share blocks: redis://host:port or unix:/path; "
          "memory: this server's own, to try it")
      .not_empty();
  command
      .value("--store-secret TEXT", lesson.tier.shared.secret,
             "a secret that all servers know; a value made without it is refused")
      .not_empty();
  command
      .value("--load NAME", options.load,
             "load what the store has: always, never, or if it is quicker than computing it")
      .one_of({"always", "never", "quicker"});
  command
      .value("--role NAME", options.role,
             "prefill: compute prompts up to their first token, for other servers over the store; "
             "decode: load them, as --load always; both")
      .one_of({"both", "prefill", "decode"});
}

void add_api_options(kv::CommandLine& command, Options& options) {
  serve::ServerOptions& server = options.server;
  command
      .value("--served-model-name NAME", server.model_name,
             "the model's name in requests; without it the name of its folder")
      .not_empty();
  command.value("--chat-template NAME", server.chat_template, "auto: as the model's folder says")
      .one_of({"auto", "chatml", "qwen3", "none"});
  command.flag("--enable-prompt-tokens-details", server.tell_cached,
               "answers say how many of the prompt's tokens were found in the cache");
  command
      .value("--check-equal-bits X", server.limits.check_equal_bits,
             "the share of the requests that are computed twice, and compared (/metrics)")
      .real_between(0, 1);
  command.value("--kv-events ENDPOINT", server.kv_events,
                "publishes the cache's events over ZeroMQ, too, as tcp://*:5557");
  command.value("--kv-events-replay ENDPOINT", server.kv_events_replay,
                "where watchers ask for events that they have missed");
}

int lesson_of(const Options& options) {
  if (!options.store.empty() && options.lesson != 0 && options.lesson != 13) {
    kv::user_error("--store: only lesson 13 has a store; leave out --lesson {}", options.lesson);
  }
  const bool tells_how = options.lesson == 13 || options.load != "quicker" ||
                         options.role != "both" ||
                         !options.server.lesson.tier.shared.secret.empty();
  if (options.store.empty() && tells_how) {
    kv::user_error("--lesson 13, --load, --role and --store-secret need --store");
  }
  return options.lesson != 0 ? options.lesson : options.store.empty() ? 8 : 13;
}

void open_store(Options& options) {
  serve::LessonOptions& lesson = options.server.lesson;
  if (options.role == "decode") {
    if (options.load == "never") kv::user_error("--role decode loads; leave out --load never");
    options.load = "always";
  }
  options.server.prefill = options.role == "prefill";
  lesson.store = serve::open_store(options.store);
  lesson.tier.policy = serve::load_policy_of(options.load);
  if (options.load == "always") lesson.tier.host.policy = lesson.tier.policy;
}

void run(Options& options) {
  serve::ServerOptions& server = options.server;
  server.lesson.number = lesson_of(options);
  if (!server.lesson.file.empty() && server.lesson.number != 12) {
    kv::user_error("--file {}: only lesson 12 has a file; add --lesson 12",
                   server.lesson.file.string());
  }
  if (server.lesson.host_blocks > 0 && (server.lesson.number < 11 || server.lesson.number > 13)) {
    kv::user_error(
        "--host-blocks {}: only lessons 11 to 13 keep blocks in the host's memory; add --lesson 11",
        server.lesson.host_blocks);
  }
  if (!server.kv_events_replay.empty() && server.kv_events.empty()) {
    kv::user_error("--kv-events-replay needs --kv-events");
  }
  kv::Model model = kv::load_model(options.generate);
  server.model_dir = options.generate.model_dir;
  if (server.model_name.empty()) {
    server.model_name = std::filesystem::canonical(server.model_dir).filename().string();
  }
  server.http.max_body = static_cast<size_t>(options.max_body_mib) << 20;
  lesson08::ServeOptions& serve = server.lesson.serve;
  serve.caching = !options.no_caching;
  serve.scheduler.chunked_prefill = !options.no_chunked_prefill;
  if (options.order == "priority") serve.scheduler.order = lesson08::Order::kPriority;
  serve.choose_on_device = server.limits.greedy;
  serve.pad_decodes_to = model.device() == kv::Device::kCuda ? 8 : 1;
  server.page = KV_SERVE_PAGE;
  server.pages = KV_WEB_FOLDER;

  if (!options.store.empty()) open_store(options);

  serve::ApiServer running(model, server);
  const kv::Console console;
  console.print("{} on {}, lesson {:02}: {} of {}, {} for a request\n",
                kv::printable(server.model_name), kv::describe(model.device()),
                server.lesson.number, kv::count_of(running.num_blocks(), "block"),
                kv::count_of(server.lesson.block_size, "token"),
                kv::count_of(running.max_model_len(), "token"));
  console.print("http://{}  (chat template: {}; Ctrl-C ends it)\n",
                kv::host_and_port(server.http.host, running.port()), running.chat_template());
  console.flush();
  running.run(true);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.server.lesson.serve.scheduler.max_tokens_per_pass = 512;
  kv::CommandLine command(
      "An HTTP server with OpenAI's API. The same request gets the same answer, to the bit, "
      "whatever else the server is doing.",
      "./course serve");
  add_http_options(command, options);
  kv::add_model_options(command, options.generate);
  command
      .value("--seed N", options.server.seed,
             "of requests that give none; without it each of them gets one of its own, which its "
             "answer tells")
      .between(0, INT64_MAX);
  add_lesson_options(command, options);
  add_api_options(command, options);
  return kv::run_main(command, argc, argv, [&] { run(options); });
}
