// The program of lesson 14: a server's busy minute in one memory, with K and V in the activation
// dtype and in FP8, and the proof: the bits of FP8 pages are those of rows rounded through e4m3.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine.h"
#include "lessons/08_scheduler/cli/progress.h"
#include "lessons/08_scheduler/cli/workload.h"
#include "programs/lab.h"

namespace {

struct Options {
  kv::GenerateOptions generate;
  lesson08::WorkloadOptions workload;
  lesson03::PagedOptions paged{.num_blocks = 40};  // in bf16
};

struct Run {
  std::string name;
  int num_blocks = 0;
  kv::ServeResult result;
  uint64_t digest() const { return kv::combined_digest(result.generated.completions); }
};

/// Answers that are equal, and the tokens before the first one that differs, as a share.
struct Likeness {
  int same = 0;
  double prefix = 0;
};
Likeness compare(const kv::ServeResult& a, const kv::ServeResult& b) {
  Likeness likeness;
  int64_t before = 0, all = 0;
  for (size_t i = 0; i < a.generated.completions.size(); ++i) {
    const auto& mine = a.generated.completions[i].tokens;
    const auto& theirs = b.generated.completions[i].tokens;
    likeness.same += mine == theirs;
    size_t at = 0;
    while (at < std::min(mine.size(), theirs.size()) && mine[at] == theirs[at]) ++at;
    before += static_cast<int64_t>(at);
    all += std::ssize(mine);
  }
  likeness.prefix = all > 0 ? static_cast<double>(before) / static_cast<double>(all) : 1;
  return likeness;
}

template <class Engine>
Run serve(const std::string& name, kv::Model& model, const lesson03::PagedOptions& options,
          const lesson08::Workload& workload) {
  Engine engine(model, options, {.scheduler = {.max_tokens_per_pass = 256, .max_running = 64}});
  lesson08::ServeProgress progress(kv::stderr_is_terminal());
  Run run{.name = name,
          .result = engine.serve(workload.requests, workload.arrivals, {},
                                 [&](const auto& scheduler, const auto&) {
                                   progress.pass(scheduler);
                                   return !kv::interrupted();
                                 })};
  run.num_blocks = engine.manager()->pool().num_blocks();
  return run;
}

void run(kv::Lab& lab, const Options& options) {
  kv::Model& model = lab.model();
  const lesson03::PagedOptions& paged = options.paged;
  const lesson08::Workload workload =
      lesson08::make_workload(options.workload, model.config().vocab_size);
  const auto token_bytes = [&](kv::KvFormat format) {
    return lesson14::block_bytes(model.config(), paged.block_size, format) / paged.block_size;
  };
  const int64_t token = token_bytes(kv::KvFormat::kActivations);
  const int64_t fp8_token = token_bytes(kv::KvFormat::kFp8);
  lab.title("Lesson 14, half the bytes");
  lab.console.print("{} in {}: a token takes {} in bf16, {} in FP8 with its scales\n\n",
                    kv::count_of(std::ssize(workload.requests), "request"),
                    kv::human_bytes(token * paged.block_size * paged.num_blocks),
                    kv::human_bytes(token), kv::human_bytes(fp8_token));

  model.set_kv_format(kv::KvFormat::kActivations);
  const bool on_gpu = model.device() == kv::Device::kCuda;
  std::vector<Run> runs;
  runs.push_back(serve<lesson08::ServingEngine>(on_gpu ? "bf16" : "fp32, blocks of bf16", model,
                                                paged, workload));
  model.set_kv_format(kv::KvFormat::kFp8);
  runs.push_back(serve<lesson14::Fp8Engine>("FP8 pages", model, paged, workload));
  runs.push_back(serve<lesson08::ServingEngine>("rounded rows, lesson 08", model, paged, workload));
  if (kv::interrupted()) return;

  kv::Records rows;
  for (const Run& one : runs) {
    const kv::EngineCounters& c = one.result.generated.counters;
    const double rate = static_cast<double>(kv::num_generated_tokens(one.result.generated)) /
                        std::max(c.seconds, 1e-9);
    rows.add({{"K and V", one.name, "name"},
              {"tokens fit", kv::counted(one.num_blocks * paged.block_size), "tokens_fit"},
              {"at once", kv::counted(c.max_sequences), "at_once"},
              {"passes", kv::counted(c.passes), "passes"},
              {"preempted", kv::counted(one.result.num_preemptions), "preemptions"},
              {"waste", kv::percent_of_one(one.result.waste), "waste"},
              {"logits xxh64", kv::digest(one.digest()), "logits_xxh64"}});
    rows.note("tokens_per_second", rate);
  }
  lab.report_records("runs", rows);
  const Likeness likeness = compare(runs[1].result, runs[0].result);
  lab.require_same_bits(runs[1].digest() == runs[2].digest(),
                        "FP8 pages give other bits than rounded rows");
  lab.console.print(
      "\nFP8 pages and rounded rows have the same bits. Against {}, {} of {} answers\n"
      "are the same; {:.1f} % of the tokens come before an answer's first difference.\n",
      on_gpu ? "bf16" : "fp32", likeness.same, workload.requests.size(), 100 * likeness.prefix);
  lab.report.update({{"bytes_per_token", token},
                     {"fp8_bytes_per_token", fp8_token},
                     {"same_answers", likeness.same},
                     {"same_tokens", likeness.prefix}});
}

}  // namespace

int main(int argc, char** argv) {
  kv::CommandLine command(
      "A server's busy minute in one memory, with K and V in the activation dtype and in FP8.\n"
      "FP8 pages must give the bits of rows that were rounded through e4m3.",
      "./course run 14");
  Options options;
  kv::add_model_options(command, options.generate);
  kv::add_seed_option(command, options.generate, "the same seed makes up the same requests");
  command.value("--num-requests N", options.workload.num_requests, "requests of the workload")
      .between(1, 10000);
  command.value("--max-tokens N", options.workload.max_tokens, "longest answer").between(1, 4096);
  command.value("--num-blocks N", options.paged.num_blocks, "blocks of the memory, in bf16")
      .between(1, 1 << 24);
  command.value("--block-size N", options.paged.block_size, "tokens per KV block, a power of two")
      .between(1, 256);
  kv::add_json_option(command, options.generate);
  return kv::run_lesson("14", command, options.generate, argc, argv, [&](kv::Lab& lab) {
    options.workload.sampling.seed = options.generate.sampling.seed;
    run(lab, options);
  });
}
