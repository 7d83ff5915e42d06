// The program of lesson 08: a server's busy minute. Requests come in bursts, share prefixes, and
// want more memory than there is.

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/cli.h"
#include "common/cli_bench.h"
#include "common/error.h"
#include "engine.h"
#include "lessons/02_flat_cache/engine.h"
#include "lessons/03_paged_blocks/engine.h"
#include "timeline.h"
#include "workload.h"

namespace {

struct Options {
  kv::GenerateOptions generate;
  lesson08::WorkloadOptions workload;
  lesson08::SchedulerOptions scheduler{.max_tokens_per_pass = 256, .max_running = 32};
  std::string requests_file;
  std::string timeline_file;
  std::string order = "first-come";
  int block_size = 16;
  int num_blocks = 40;
  double memory_utilization = 0;
  bool no_caching = false;
  bool no_check = false;
};

/// The p-th percentile, 0 to 100, of values that are not empty.
double percentile(std::vector<double> values, double p) {
  std::ranges::sort(values);
  const auto at = static_cast<size_t>(p / 100 * static_cast<double>(values.size() - 1) + 0.5);
  return values[std::min(at, values.size() - 1)];
}

std::string times_text(const std::vector<double>& seconds) {
  if (seconds.empty()) return "-";
  return fmt::format("{:.1f} ms (p50)  {:.1f} ms (p99)", 1e3 * percentile(seconds, 50),
                     1e3 * percentile(seconds, 99));
}

nlohmann::json print_result(const kv::Console& console, int num_blocks,
                            const lesson08::Workload& workload,
                            const lesson08::ServeResult& result) {
  int64_t prompt_tokens = 0, cached = 0, waited_most = 0;
  std::vector<double> first, per_token;
  for (size_t i = 0; i < workload.requests.size(); ++i) {
    const auto& t = result.times[i];
    prompt_tokens += static_cast<int64_t>(workload.requests[i].prompt.size());
    cached += t.num_cached_tokens;
    waited_most = std::max<int64_t>(waited_most, t.num_preemptions);
    const auto made = static_cast<double>(result.generated.completions[i].tokens.size());
    if (t.first_token > 0) first.push_back(t.first_token - t.arrived);
    if (made > 1) per_token.push_back((t.ended - t.first_token) / (made - 1));
  }
  const kv::EngineCounters& c = result.generated.counters;
  const int64_t made = kv::num_generated_tokens(result.generated);
  const double rate = c.seconds > 0 ? static_cast<double>(made) / c.seconds : 0;
  console.print("tokens generated          {} in {:.2f} s: {:.0f} tokens/s\n",
                kv::with_commas(made), c.seconds, rate);
  console.print(
      "forward passes            {}, {:.1f} rows each\n", kv::with_commas(c.passes),
      c.passes > 0 ? static_cast<double>(c.kv_rows_computed) / static_cast<double>(c.passes) : 0.0);
  console.print("time to the first token   {}\n", times_text(first));
  console.print("time per token after it   {}\n", times_text(per_token));
  console.print("prompt tokens found       {} of {}, {}\n", kv::with_commas(cached),
                kv::with_commas(prompt_tokens),
                kv::percent(static_cast<double>(cached), static_cast<double>(prompt_tokens)));
  console.print("preemptions               {}, at most {} of one request\n",
                kv::with_commas(result.num_preemptions), waited_most);
  console.print("blocks in use             {} of {} at most\n", kv::with_commas(c.blocks_in_use),
                kv::with_commas(num_blocks));
  console.print("KV waste                  {:.1f} %, the mean over all passes\n",
                100 * result.waste);
  return {{"tokens", made},
          {"seconds", c.seconds},
          {"tokens_per_second", rate},
          {"passes", c.passes},
          {"preemptions", result.num_preemptions},
          {"prompt_tokens", prompt_tokens},
          {"cached_tokens", cached},
          {"waste", result.waste}};
}

void write_timeline(const std::string& file, const lesson08::Timeline& timeline) {
  std::ofstream out(file);
  out << timeline.to_svg();
  out.close();
  if (!out) kv::user_error("{}: the timeline could not be written in full", file);
}

void run(Options& options) {
  kv::GenerateOptions& generate = options.generate;
  const kv::Console console(generate.json_file);
  if (options.order != "first-come" && options.order != "priority") {
    kv::user_error("--order {}: wanted first-come or priority", options.order);
  }
  if (options.order == "priority") options.scheduler.order = lesson08::Order::kPriority;
  kv::Model model = kv::load_model(generate);
  const auto tokenizer = kv::Tokenizer::load(generate.model_dir);
  options.workload.seed = generate.sampling.seed;
  lesson08::Workload workload =
      options.requests_file.empty()
          ? lesson08::make_workload(options.workload, model.config().vocab_size)
          : lesson08::load_workload(options.requests_file, tokenizer, generate.max_tokens);
  for (size_t i = 0; i < workload.requests.size(); ++i) {
    workload.requests[i].sampling = generate.sampling;
  }

  if (options.memory_utilization != 0) options.num_blocks = 0;
  lesson08::ServingEngine engine(
      model, {.block_size = options.block_size, .num_blocks = options.num_blocks},
      {.scheduler = options.scheduler,
       .caching = !options.no_caching,
       .memory_utilization = options.memory_utilization});
  console.print("Lesson 08, the scheduler, on {}\n\n", kv::describe(model.device()));
  console.print("{} requests that could want {} blocks of {}, a pool of {}, {} tokens a pass\n\n",
                workload.requests.size(),
                lesson03::blocks_needed(workload.requests, options.block_size), options.block_size,
                options.num_blocks > 0            ? std::to_string(options.num_blocks)
                : options.memory_utilization != 0 ? "what memory allows"
                                                  : "as many",
                options.scheduler.max_tokens_per_pass);
  lesson08::Timeline timeline(workload.requests.size());
  const auto result =
      engine.serve(workload.requests, workload.arrivals, {}, [&](const lesson08::PassView& view) {
        timeline.pass(view);
        return !kv::interrupted();
      });
  nlohmann::json document =
      print_result(console, engine.manager()->pool().num_blocks(), workload, result);
  if (!options.timeline_file.empty()) write_timeline(options.timeline_file, timeline);
  if (kv::interrupted()) {
    console.print("interrupted: {} blocks are in use\n", engine.manager()->pool().num_used());
    return;
  }
  if (!options.no_check) {
    const auto plain = lesson02::make_engine(model, {})->generate(workload.requests);
    const uint64_t wanted = kv::combined_digest(plain.completions);
    const uint64_t found = kv::combined_digest(result.generated.completions);
    console.print("the bits of lesson 02     {}  {}\n", wanted == found ? "yes" : "NO",
                  kv::hex64(found));
    document["same_bits"] = wanted == found;
  }
  document["lesson"] = "08";
  document["device"] = kv::name_of(model.device());
  kv::write_json(generate.json_file, document);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Lesson 08: serves a workload that wants more memory than there is.\n"};
  kv::add_model_options(app, options.generate);
  const auto number = [&](const char* name, int& value, const char* help, int low, int high) {
    app.add_option(name, value, help)
        ->type_name("N")
        ->check(kv::between(low, high))
        ->capture_default_str();
  };
  app.add_option("--seed", options.generate.sampling.seed, "of the workload and of sampling")
      ->type_name("N")
      ->capture_default_str();
  number("--num-requests", options.workload.num_requests, "requests of the made-up workload", 1,
         100'000);
  number("--bursts", options.workload.num_bursts, "bursts they come in", 1, 10'000);
  number("--max-tokens", options.workload.max_tokens, "longest answer", 1, 100'000);
  app.add_option("--requests", options.requests_file,
                 "JSON lines instead: {\"prompt\": .., \"max_tokens\": .., \"pass\": ..}")
      ->type_name("FILE");
  number("--block-size", options.block_size, "tokens per KV block, a power of two", 1, 256);
  number("--num-blocks", options.num_blocks, "blocks in the pool; 0: as many as all need", 0,
         1 << 24);
  app.add_option("--memory-utilization", options.memory_utilization,
                 "instead of --num-blocks: the share of the free memory that the pool takes")
      ->type_name("X");
  number("--max-tokens-per-pass", options.scheduler.max_tokens_per_pass, "rows of one pass", 1,
         1 << 20);
  number("--max-running", options.scheduler.max_running, "requests that hold blocks", 1, 1 << 20);
  number("--max-chunk", options.scheduler.max_chunk,
         "tokens of one request in a pass; 0: as the budget allows", 0, 1 << 20);
  app.add_option("--order", options.order, "first-come or priority")->capture_default_str();
  app.add_flag("--no-caching", options.no_caching, "find no prefixes");
  app.add_flag("--no-check", options.no_check, "do not compare with lesson 02's engine");
  app.add_option("--timeline", options.timeline_file, "draw what happened as an SVG")
      ->type_name("FILE");
  kv::add_json_option(app, options.generate);
  return kv::run_main(app, argc, argv, [&] { run(options); });
}
