// A router in front of several servers, or a simulation of one on a trace.
//
//   route --server http://127.0.0.1:8001 --server http://127.0.0.1:8002
//   route --simulate conversation_trace.jsonl --servers 8 --pool-blocks 3000

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "common/console.h"
#include "common/error.h"
#include "common/table.h"
#include "common/url.h"
#include "instruments/replay/trace/trace_options.h"
#include "instruments/route/plot.h"
#include "instruments/route/router.h"
#include "instruments/route/simulate.h"
#include "programs/generate.h"
#include "programs/report.h"
#include "programs/run_main.h"

namespace {

using namespace route;

struct Options {
  RouterOptions router;
  std::string policy;
  std::filesystem::path trace;
  Fleet fleet;
  int pool_blocks = 3000;
  replay::TraceOptions reading;
  std::string json_file, plot_file;
};

std::vector<Policy> policies_of(const Options& options) {
  std::vector<Policy> policies;
  for (const char* name : kPolicyNames) {
    if (options.policy.empty() || options.policy == name) policies.push_back(*policy_of(name));
  }
  return policies;
}

void run_simulation(const Options& options) {
  kv::refuse_same_file("--json", options.json_file, options.trace.string());
  kv::refuse_same_file("--plot", options.plot_file, options.trace.string());
  kv::refuse_same_file("--plot", options.plot_file, options.json_file);
  const Trace trace = read_trace(options.trace, options.reading.speed, options.reading.block_size,
                                 replay::time_unit_of(options.reading.time_unit));
  Fleet fleet = options.fleet;
  fleet.pool_blocks = options.pool_blocks;
  const kv::Console console(options.json_file);
  const std::string title = fmt::format("{}: {} to {}, each with {} of {} tokens", trace.name,
                                        kv::count_of(std::ssize(trace.requests), "request"),
                                        kv::count_of(fleet.num_servers, "server"),
                                        kv::count_of(fleet.pool_blocks, "block"), trace.block_size);
  std::vector<PolicyResult> results;
  kv::ProgressLine progress("playing the trace", "policies");
  const std::vector<Policy> policies = policies_of(options);
  for (const Policy policy : policies) {
    results.push_back(simulate(trace, fleet, policy, options.router.seed));
    progress.show(std::ssize(results), std::ssize(policies));
    if (kv::interrupted()) return;
  }
  console.print("{}\nshare of the full blocks found, and seconds to the first token:\n\n{}", title,
                table_of(results));
  nlohmann::json rows = nlohmann::json::array();
  for (const PolicyResult& one : results) rows.push_back(json_of(one));
  kv::write_json(options.json_file, {{"trace", options.trace.string()},
                                     {"requests", trace.requests.size()},
                                     {"block_size", trace.block_size},
                                     {"servers", fleet.num_servers},
                                     {"pool_blocks", fleet.pool_blocks},
                                     {"prefill_rate", fleet.prefill_rate},
                                     {"decode_rate", fleet.decode_rate},
                                     {"policies", rows}});
  if (!options.plot_file.empty()) kv::write_text(options.plot_file, plot(title, results));
}

void run_router(Options& options) {
  RouterOptions& router = options.router;
  if (router.servers.empty()) {
    kv::user_error("wanted --server http://HOST:PORT for each server, or --simulate TRACE");
  }
  if (!options.policy.empty()) router.policy = *policy_of(options.policy);
  if (router.model_dir.empty()) router.model_dir = kv::default_model_dir();
  Router running(router);
  const kv::Console console;
  console.print("http://{}  ({} in front of {}; Ctrl-C ends it)\n",
                kv::host_and_port(router.http.host, running.port()), name_of(router.policy),
                kv::count_of(std::ssize(router.servers), "server"));
  console.flush();
  running.run(true);
}

void add_router_options(kv::CommandLine& command, Options& options) {
  RouterOptions& router = options.router;
  command.list("--server URL", router.servers,
               "a ./course serve, as http://127.0.0.1:8001; repeat it for each one");
  command.list("--prefill URL", router.prefill,
               "a ./course serve --role prefill: it computes prompts, and the others load them");
  command
      .value("--store-seconds-per-block X", router.store_seconds_per_block,
             "seconds in which the servers' common store delivers a block; 0: they share none")
      .real_between(0, 1e6);
  command
      .value("--host ADDRESS", router.http.host,
             "where to listen; 0.0.0.0, or :: with IPv6: for other machines, too")
      .not_empty();
  command.value("--port N", router.http.port, "0: any free one").between(0, 65535);
  command.value(
      "--model DIR", router.model_dir,
      "the servers' model, for its tokenizer; without it $KV_MODEL or the one that ships");
  command.value("--chat-template NAME", router.chat_template, "as the servers have it")
      .one_of({"auto", "chatml", "qwen3", "none"});
  command
      .value("--api-key KEY", router.api_key,
             "the servers' key, to follow their caches; clients send their own")
      .not_empty();
  command.value("--timeout SECONDS", router.timeout, "ends an answer on which nothing comes")
      .over(0, 1e6);
  command
      .value("--drain-seconds X", router.drain_seconds,
             "after Ctrl-C or SIGTERM: how long answers may still take; a second one ends at once")
      .real_between(0, 86'400);
}

void add_simulation_options(kv::CommandLine& command, Options& options) {
  command.value("--simulate TRACE", options.trace,
                "plays a trace in Mooncake's format on simulated servers, under all policies");
  command.value("--servers N", options.fleet.num_servers, "simulated servers")
      .between(1, 10'000)
      .needs("--simulate");
  command.value("--pool-blocks N", options.pool_blocks, "blocks in the pool of each of them")
      .between(1, 1 << 28)
      .needs("--simulate");
  command
      .value("--prefill-rate N", options.fleet.prefill_rate,
             "tokens of prompts that one of them computes in a second")
      .over(0, 1e12)
      .needs("--simulate");
  command.value("--decode-rate N", options.fleet.decode_rate, "tokens of one answer in a second")
      .over(0, 1e12)
      .needs("--simulate");
  options.reading.add_to(command, "--simulate");
  command.json_file(options.json_file, "the numbers").needs("--simulate");
  command.value("--plot FILE", options.plot_file, "draw the times as an SVG")
      .output_file()
      .needs("--simulate");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  kv::CommandLine command(
      "One address for several ./course serve: each request goes to the server where its first "
      "token will come first. With --simulate it plays a trace instead, and prints what each "
      "policy would find in the caches.",
      "./course route");
  command
      .value("--policy NAME", options.policy,
             "how a server is chosen; by default seconds, and in a simulation all of " +
                 fmt::format("{}", fmt::join(kPolicyNames, ", ")))
      .one_of({std::begin(kPolicyNames), std::end(kPolicyNames)});
  command.value("--seed N", options.router.seed, "breaks ties, and chooses at random")
      .between(0, std::numeric_limits<int64_t>::max());
  add_router_options(command, options);
  add_simulation_options(command, options);
  return kv::run_main(command, argc, argv, [&] {
    if (!options.trace.empty()) return run_simulation(options);
    run_router(options);
  });
}
