// The program of lesson 08: a server's busy minute. Requests come in bursts, share prefixes, and
// want more memory than there is. Then the same workload in other ways: more memory, less, no
// caching, chunks, priorities. The bits are the same in all of them.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/pool_sizes.h"
#include "cli/progress.h"
#include "cli/timeline.h"
#include "cli/workload.h"
#include "engine.h"
#include "lessons/02_flat_cache/engine.h"
#include "lessons/03_paged_blocks/engine.h"
#include "programs/lab.h"

namespace {

using kv::ServeResult;
using lesson08::ServeOptions;

struct Options {
  kv::GenerateOptions generate;
  lesson08::WorkloadOptions workload;
  ServeOptions serve{.scheduler = {.max_tokens_per_pass = 256, .max_running = 32}};
  std::string requests_file;
  std::string timeline_file;
  std::string order = "first-come";
  lesson03::PagedOptions paged{.num_blocks = 40};
  double memory_utilization = 0;
  bool no_caching = false;
  bool no_admission_gate = false;
  bool no_chunked_prefill = false;
  bool no_check = false;
  bool compare = false;
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

/// The numbers of a run that are printed.
struct Summary {
  int64_t made = 0, prompt_tokens = 0, cached = 0, max_preempted = 0;
  double rate = 0;                       // tokens per second
  std::vector<double> first, per_token;  // seconds, one entry for each request that got that far
};

Summary summary_of(const lesson08::Workload& workload, const ServeResult& result) {
  Summary s;
  for (size_t i = 0; i < workload.requests.size(); ++i) {
    const auto& t = result.times[i];
    s.prompt_tokens += static_cast<int64_t>(workload.requests[i].prompt.size());
    s.cached += t.num_cached_tokens;
    s.max_preempted = std::max<int64_t>(s.max_preempted, t.num_preemptions);
    const auto tokens = static_cast<double>(result.generated.completions[i].tokens.size());
    if (t.first_token > 0) s.first.push_back(t.first_token - t.arrived);
    if (tokens > 1 && t.ended > 0) s.per_token.push_back((t.ended - t.first_token) / (tokens - 1));
  }
  s.made = kv::num_generated_tokens(result.generated);
  const double seconds = result.generated.counters.seconds;
  s.rate = seconds > 0 ? static_cast<double>(s.made) / seconds : 0;
  return s;
}

void print_result(kv::Lab& lab, int num_blocks, const Summary& s, const ServeResult& result) {
  const kv::Console& console = lab.console;
  const kv::EngineCounters& c = result.generated.counters;
  console.print("tokens generated          {} in {:.2f} s: {:.0f} tokens/s\n",
                kv::with_commas(s.made), c.seconds, s.rate);
  console.print(
      "forward passes            {}, {:.1f} rows each\n", kv::with_commas(c.passes),
      c.passes > 0 ? static_cast<double>(c.kv_rows_computed) / static_cast<double>(c.passes) : 0.0);
  console.print("time to the first token   {}\n", times_text(s.first));
  console.print("time per token after it   {}\n", times_text(s.per_token));
  console.print("prompt tokens found       {} of {}, {}\n", kv::with_commas(s.cached),
                kv::with_commas(s.prompt_tokens), kv::share(s.cached, s.prompt_tokens).text);
  console.print("preemptions               {}, at most {} of one request\n",
                kv::with_commas(result.num_preemptions), s.max_preempted);
  console.print("blocks in use             {} of {} at most\n",
                kv::with_commas(c.named("blocks_in_use")), kv::with_commas(num_blocks));
  console.print("KV waste                  {:.1f} %, the mean over all passes\n",
                100 * result.waste);
  lab.report.update({{"tokens", s.made},
                     {"seconds", c.seconds},
                     {"tokens_per_second", s.rate},
                     {"passes", c.passes},
                     {"preemptions", result.num_preemptions},
                     {"prompt_tokens", s.prompt_tokens},
                     {"cached_tokens", s.cached},
                     {"waste", result.waste}});
}

/// Settings of a run that serves the workload. num_blocks 0 means a pool for all requests.
struct RunSettings {
  std::string name;
  int num_blocks;
  ServeOptions serve;
};

void run_in_chunks(ServeOptions& options) {
  options.scheduler.max_chunk = 16;
  options.scheduler.chunked_prefill = true;  // --no-chunked-prefill is for the run above
}

std::vector<RunSettings> other_runs(const Options& options, int longest) {
  const int num_blocks = options.paged.num_blocks;
  const auto run = [&](const std::string& name, int blocks, const auto& change) {
    ServeOptions serve{.scheduler = options.serve.scheduler};
    serve.scheduler.chunked_prefill = true;  // two of the runs have chunks
    change(serve);
    return RunSettings{name, blocks, serve};
  };
  return {run("room for all", 0, [](ServeOptions&) {}),
          run("room for the longest request", longest, [](ServeOptions&) {}),
          run("no prefix caching", num_blocks, [](ServeOptions& o) { o.caching = false; }),
          run("chunks of 16 tokens", num_blocks, run_in_chunks),
          run("the same, no admission gate", num_blocks,
              [](ServeOptions& o) {
                run_in_chunks(o);
                o.scheduler.full_sequence_must_fit = false;
              }),
          run("by priority", num_blocks,
              [](ServeOptions& o) { o.scheduler.order = lesson08::Order::kPriority; })};
}

/// Serves the workload once more, in other ways.
void compare(kv::Lab& lab, const Options& options, const lesson08::Workload& workload,
             const ServeResult& above, int num_blocks, uint64_t wanted) {
  lab.console.print("\nThe same workload in other ways\n\n");
  kv::Records rows;
  bool all_same = true;
  const auto add = [&](const std::string& name, int blocks, const ServeResult& result) {
    const Summary s = summary_of(workload, result);
    const bool same = kv::combined_digest(result.generated.completions) == wanted;
    const auto first_token = [&](double p) {
      return s.first.empty() ? kv::Shown("-") : kv::ms(percentile(s.first, p), 1);
    };
    rows.add({{"", name, "way"},
              {"blocks", kv::counted(blocks)},
              {"passes", kv::counted(result.generated.counters.passes)},
              {"tokens/s", kv::decimal(s.rate, 0), "tokens_per_second"},
              {"first token, p50", first_token(50)},
              {"p99", first_token(99)},
              {"found", kv::share(s.cached, s.prompt_tokens)},
              {"preempted", kv::counted(result.num_preemptions)},
              {"same bits", same, "same_bits"}});
    all_same = all_same && same;
  };
  add("as above", num_blocks, above);
  const int longest = lesson08::max_blocks_of_one(workload.requests, options.paged.block_size);
  for (const RunSettings& run : other_runs(options, longest)) {
    lesson08::ServingEngine engine(
        lab.model(), {.block_size = options.paged.block_size, .num_blocks = run.num_blocks},
        run.serve);
    lesson08::ServeProgress progress(kv::stderr_is_terminal());
    const auto result = engine.serve(workload.requests, workload.arrivals, {},
                                     [&](const auto& scheduler, const auto&) {
                                       progress.pass(scheduler);
                                       return !kv::interrupted();
                                     });
    if (kv::interrupted()) break;
    add(run.name, engine.manager()->pool().num_blocks(), result);
  }
  lab.report_records("other_ways", rows);
  if (!all_same) throw std::logic_error("the bits differ: memory management has changed the math");
}

void print_head(kv::Lab& lab, const Options& options, const lesson08::Workload& workload) {
  const auto& [block_size, num_blocks, engine] = options.paged;
  lab.title("Lesson 08, the scheduler");
  lab.console.print("{} that could want {} of {}, a pool of {}, {} a pass\n\n",
                    kv::count_of(std::ssize(workload.requests), "request"),
                    kv::count_of(lesson03::blocks_needed(workload.requests, block_size), "block"),
                    block_size, num_blocks > 0 ? std::to_string(num_blocks) : "as many",
                    kv::count_of(options.serve.scheduler.max_tokens_per_pass, "token"));
}

/// Compares the bits with lesson 02's, then the workload served in other ways.
void check(kv::Lab& lab, const Options& options, const lesson08::Workload& workload,
           const ServeResult& result, int num_blocks) {
  const auto plain = lesson02::make_engine(lab.model(), {})->generate(workload.requests);
  const uint64_t wanted = kv::combined_digest(plain.completions);
  const uint64_t found = kv::combined_digest(result.generated.completions);
  lab.console.print("the bits of lesson 02     {}  {}\n", wanted == found ? "yes" : "NO",
                    kv::hex64(found));
  lab.require_same_bits(wanted == found, "the bits differ from lesson 02's");
  const double seconds = result.generated.counters.seconds;
  if (options.compare || seconds < 15) {
    compare(lab, options, workload, result, num_blocks, wanted);
  } else {
    lab.console.print("\nThe same workload in other ways takes about {:.0f} s: --compare\n",
                      6 * seconds);
  }
}

void run(kv::Lab& lab, Options& options) {
  kv::Model& model = lab.model();
  ServeOptions& serve = options.serve;
  if (options.order == "priority") serve.scheduler.order = lesson08::Order::kPriority;
  serve.scheduler.full_sequence_must_fit = !options.no_admission_gate;
  serve.scheduler.chunked_prefill = !options.no_chunked_prefill;
  serve.caching = !options.no_caching;
  serve.pad_decodes_to = model.device() == kv::Device::kCuda ? 8 : 1;
  if (options.memory_utilization != 0) {
    const auto element = static_cast<int64_t>(size_of(kv::activation_dtype(model.device())));
    options.paged.num_blocks = lesson08::blocks_for_memory(
        kv::memory_of(model.device()).free, options.memory_utilization,
        model.config().kv_bytes_per_token(element) * options.paged.block_size);
  }
  const lesson08::Workload workload =
      lesson08::workload_of(options.requests_file, options.workload, options.generate, model);
  lesson08::ServingEngine engine(model, options.paged, serve);
  print_head(lab, options, workload);
  lesson08::Timeline timeline(workload.requests.size());
  std::optional<lesson08::ServeProgress> progress(std::in_place, kv::stderr_is_terminal());
  const auto result = engine.serve(workload.requests, workload.arrivals, {},
                                   [&](const auto& scheduler, const auto& output) {
                                     timeline.pass(scheduler, output.chunks);
                                     progress->pass(scheduler);
                                     return !kv::interrupted();
                                   });
  const std::string course = progress->to_string(kv::output_columns());
  progress.reset();  // takes its live line away
  lab.console.write(course + "\n");
  const int num_blocks = engine.manager()->pool().num_blocks();
  print_result(lab, num_blocks, summary_of(workload, result), result);
  if (!options.timeline_file.empty()) kv::write_text(options.timeline_file, timeline.to_svg());
  if (kv::interrupted()) {
    lab.console.print("interrupted: {} in use\n",
                      kv::count_of(engine.manager()->pool().num_used(), "block"));
  } else if (!options.no_check) {
    check(lab, options, workload, result, num_blocks);
  }
  lab.report["interrupted"] = kv::interrupted();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  kv::CommandLine command("Lesson 08: serves a workload that wants more memory than there is.");
  kv::add_model_options(command, options.generate);
  kv::add_seed_option(command, options.generate, "of the workload and of sampling");
  lesson08::WorkloadOptions& workload = options.workload;
  command.value("--num-requests N", workload.num_requests, "requests of the made-up workload")
      .between(1, 100'000);
  command.value("--bursts N", workload.num_bursts, "bursts they come in").between(1, 10'000);
  command.value("--max-tokens N", workload.max_tokens, "longest answer").between(1, 100'000);
  command
      .value("--requests FILE", options.requests_file,
             "JSON lines instead: {\"prompt\": .., \"max_tokens\": .., \"pass\": ..}")
      .excludes("--num-requests")
      .excludes("--bursts");
  kv::add_pool_options(command, options.paged.block_size, options.paged.num_blocks,
                       "blocks in the pool; 0: as many as all need");
  command.value("--memory-utilization X", options.memory_utilization,
                "instead of --num-blocks: the share of the free memory that the pool takes");
  lesson08::SchedulerOptions& scheduler = options.serve.scheduler;
  command.value("--max-tokens-per-pass N", scheduler.max_tokens_per_pass, "rows of one pass")
      .between(1, 1 << 20);
  command.value("--max-running N", scheduler.max_running, "requests that hold blocks")
      .between(1, 1 << 20);
  command
      .value("--max-chunk N", scheduler.max_chunk,
             "tokens of one request in a pass; 0: as the budget allows")
      .between(0, 1 << 20);
  command.flag("--no-admission-gate", options.no_admission_gate,
               "a waiting request starts if its first chunk fits, not only if all its tokens do");
  command.flag("--no-chunked-prefill", options.no_chunked_prefill,
               "a prompt runs in one pass, or waits");
  command.value("--order NAME", options.order, "first-come or priority")
      .one_of({"first-come", "priority"});
  command.flag("--no-caching", options.no_caching, "find no prefixes");
  command.flag("--no-check", options.no_check,
               "do not compare with lesson 02's engine, and with other ways to serve");
  command.flag("--compare", options.compare, "compare with other ways, however long it takes")
      .excludes("--no-check");
  command.value("--timeline FILE", options.timeline_file, "draw what happened as an SVG");
  kv::add_json_option(command, options.generate);
  return kv::run_lesson("08", command, options.generate, argc, argv,
                        [&](kv::Lab& lab) { run(lab, options); });
}
