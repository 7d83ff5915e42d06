// A load on a server with OpenAI's API: how long answers take, and whether equal requests get equal
// ones.
//
//   load --concurrency 64 --num-requests 1000 --alone-too
//   load --url http://HOST:8000 --trace conversation_trace.jsonl --shrink 16 --plot times.svg

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "common/console.h"
#include "common/error.h"
#include "common/table.h"
#include "common/utf8.h"
#include "instruments/load/account.h"
#include "instruments/load/plot.h"
#include "instruments/load/run.h"
#include "instruments/replay/trace/trace_options.h"
#include "programs/report.h"
#include "programs/run_main.h"

namespace {

using namespace load;

struct Options {
  std::string url = "http://127.0.0.1:8000", api_key, model;
  std::filesystem::path prompts, trace;
  WorkloadOptions workload;
  replay::TraceOptions reading;
  int concurrency = 16;
  double rate = 0, timeout = 300;
  int max_tokens = 0;
  double temperature = -1;
  bool alone_too = false;
  std::string json_file, plot_file;
};

std::string first_model(const std::string& list, const std::string& url) {
  const auto json = nlohmann::json::parse(list, nullptr, false);
  if (json.is_object() && json.contains("data") && json["data"].is_array()) {
    for (const auto& model : json["data"]) {
      if (model.is_object() && model.contains("id") && model["id"].is_string()) return model["id"];
    }
  }
  kv::user_error("{}/v1/models names no model; wanted one, or --model NAME", url);
}

std::vector<Ask> workload_of(const Options& options) {
  WorkloadOptions workload = options.workload;
  if (options.max_tokens > 0) workload.max_tokens = options.max_tokens;
  if (options.temperature >= 0) workload.temperature = options.temperature;
  workload.block_size = options.reading.block_size;
  workload.time_unit = replay::time_unit_of(options.reading.time_unit);
  workload.speed = options.reading.speed;
  if (!options.prompts.empty()) return file_workload(options.prompts, workload);
  if (!options.trace.empty()) return trace_workload(options.trace, workload);
  return chat_workload(workload);
}

Pace pace_of(const Options& options) {
  Pace pace{.concurrency = options.concurrency, .rate = {}, .seed = options.workload.seed};
  if (options.rate > 0) pace.rate = options.rate;
  if (options.rate > 0 || !options.trace.empty()) pace.concurrency = 0;
  return pace;
}

std::string described(const Options& options) {
  if (options.rate > 0) return fmt::format("{} a second", options.rate);
  if (!options.trace.empty()) return "at the trace's times";
  return fmt::format("{} at a time", options.concurrency);
}

std::string cached_part(const Account& account) {
  if (!account.tells_cached) {
    return " (how many were found, a server tells with --enable-prompt-tokens-details)";
  }
  return fmt::format(", {} of them found in the cache",
                     kv::percent(static_cast<double>(account.cached_tokens),
                                 static_cast<double>(account.prompt_tokens)));
}

/// "equal requests in company: 32 of 32 pairs got equal answers"; nothing if there is no pair.
void print_comparison(const kv::Console& console, const char* what, const Comparison& comparison) {
  if (comparison.compared == 0) return;
  console.print("{}: {} of {} got equal answers\n", what, kv::with_commas(comparison.equal),
                kv::count_of(comparison.compared, "pair"));
  if (!comparison.first_difference.empty()) console.print("! {}\n", comparison.first_difference);
}

nlohmann::json json_of(const Comparison& comparison) {
  return {{"compared", comparison.compared}, {"equal", comparison.equal}};
}

int run(const Options& options) {
  kv::refuse_same_file("--json", options.json_file, options.prompts.string());
  kv::refuse_same_file("--plot", options.plot_file, options.json_file);
  const std::vector<Ask> asks = workload_of(options);
  const Url url = kv::parse_http_server(options.url, "--url");
  Client client({.url = url, .api_key = options.api_key, .timeout = options.timeout});
  const std::string server = url.text, models = client.get("/v1/models"),
                    model = options.model.empty() ? first_model(models, server) : options.model;
  const kv::Console console(options.json_file);
  const RunResult result = load::run(client, asks, model, pace_of(options));
  const Account account(result.outcomes, result.seconds);
  const std::string title =
      fmt::format("{} to {} ({}), {}", kv::count_of(account.num_requests, "request"), server,
                  kv::one_line(model, 100), described(options));
  console.print("{}: {:.1f} seconds\n", title, result.seconds);
  if (kv::interrupted()) {
    console.print("! stopped: {} of {} had ended\n", account.num_requests, result.num_planned);
  }
  console.print("\n{}\n", account.table());
  console.print("{} tokens generated, {:.0f} a second; {} prompt tokens{}\n",
                kv::with_commas(account.generated_tokens),
                static_cast<double>(account.generated_tokens) / std::max(result.seconds, 1e-9),
                kv::with_commas(account.prompt_tokens), cached_part(account));
  console.write(account.errors());
  nlohmann::json document = account.json();
  document["url"] = server;
  document["model"] = model;
  const Comparison equal = compare_equal(result.outcomes, result.bodies);
  print_comparison(console, "equal requests in company", equal);
  document["equal_requests"] = json_of(equal);
  const std::string digest = fmt::format("{:016x}", digest_of(result.outcomes));
  console.print("digest of all answers: {}\n", digest);
  document["digest"] = digest;
  console.flush();
  if (options.alone_too) {
    const RunResult alone = run_alone(client, asks, result);
    const Comparison both = compare_runs(result.outcomes, alone.outcomes);
    print_comparison(console, "each request in company and alone", both);
    document["alone"] = json_of(both);
  }
  kv::write_json(options.json_file, document);
  if (!options.plot_file.empty()) kv::write_text(options.plot_file, plot(title, account));
  const int64_t num_failed = account.num_requests - account.num_whole;
  if (num_failed == 0 || kv::interrupted()) return kv::kExitOk;
  console.flush();
  fmt::print(stderr,
             "error: {} of {} had no whole answer; the lines above that begin with ! say why\n",
             kv::with_commas(num_failed), kv::count_of(account.num_requests, "request"));
  return kv::kExitInternal;
}

void add_options(kv::CommandLine& command, Options& options) {
  WorkloadOptions& workload = options.workload;
  command.value("--url URL", options.url, "the server").not_empty();
  command.value("--api-key KEY", options.api_key, "sent as Authorization: Bearer KEY").not_empty();
  command.value("--model NAME", options.model, "by default the first that the server lists");
  command.value(
      "--prompts FILE", options.prompts,
      "a prompt on each line, or a JSON object of the API's fields; taken again and again");
  command.value("--trace FILE", options.trace, "a trace in Mooncake's format, at its times")
      .excludes("--prompts");
  command.value("--num-requests N", workload.num_requests, "requests to send")
      .between(1, 10'000'000);
  command.value("--concurrency N", options.concurrency, "requests in flight at once")
      .between(1, 10'000);
  command.value("--rate R", options.rate, "requests a second instead, at random moments")
      .over(0, 1e6)
      .excludes("--concurrency");
  command
      .value("--max-tokens N", options.max_tokens,
             "most tokens of an answer; by default as the file or the trace says, or 32")
      .between(0, 1 << 24);
  command.value("--temperature T", options.temperature, "by default the server's")
      .real_between(-1, 100);
  command.flag("--logprobs", workload.logprobs, "compares the tokens' log probabilities, too");
  command
      .value("--seed N", workload.seed, "of the made-up conversations, the moments, the sampling")
      .between(0, std::numeric_limits<int64_t>::max());
  command.value("--turns N", workload.turns, "questions of a made-up conversation")
      .between(1, 64)
      .excludes("--prompts")
      .excludes("--trace");
  command
      .value("--copies N", workload.copies,
             "how often each is held, so that equal requests can be compared")
      .between(1, 1000)
      .excludes("--prompts")
      .excludes("--trace");
  command.value("--system-words N", workload.system_words, "words of a made-up system prompt")
      .between(6, 100'000)
      .excludes("--prompts")
      .excludes("--trace");
  options.reading.add_to(command, "--trace");
  command.value("--shrink N", workload.shrink, "tokens of the trace for each token that is sent")
      .between(1, 1 << 20)
      .needs("--trace");
  command.flag("--alone-too", options.alone_too,
               "afterwards sends each request again with nothing beside it, and compares");
  command.value("--timeout SECONDS", options.timeout, "ends a request on which nothing comes")
      .over(0, 1e6);
  command.json_file(options.json_file, "the numbers");
  command.value("--plot FILE", options.plot_file, "draw the times as an SVG").output_file();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  kv::CommandLine command(
      "Sends requests to a server with OpenAI's API and measures its answers: the time to the "
      "first token, between tokens and to the end, tokens a second, errors. Counts whether equal "
      "requests got equal answers. Without a file it makes up conversations that share system "
      "prompts and grow turn by turn. The exit code is 1 if a request has no whole answer.",
      "./course load");
  add_options(command, options);
  int code = kv::kExitOk;
  const int ended = kv::run_main(command, argc, argv, [&] { code = run(options); });
  return ended != kv::kExitOk ? ended : code;
}
