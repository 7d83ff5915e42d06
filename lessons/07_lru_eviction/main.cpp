// The program of lesson 07: two people talk to the model in turns over a pool that is a cache. With
// --trace, a day of a chat server on pools of different sizes.

#include <fmt/format.h>

#include <string>
#include <vector>

#include "cli/trace.h"
#include "engine.h"
#include "lessons/02_flat_cache/engine.h"
#include "programs/lab.h"

namespace {

struct Options {
  kv::GenerateOptions generate;
  lesson03::PagedOptions paged{.num_blocks = 16};
  int turns = 4;
  bool trace = false;
};

/// Hit rates of a trace by pool size, for lesson 06's pool and this one.
void print_trace(kv::Lab& lab, const Options& options) {
  const int block_size = options.paged.block_size;
  const lesson07::TraceOptions what{.seed = options.generate.sampling.seed};
  const auto trace = lesson07::make_trace(what);
  int64_t tokens = 0;
  for (const auto& request : trace) tokens += static_cast<int64_t>(request.prompt.size());
  lab.console.print(
      "{} requests of a made-up day, {} prompt tokens: {} system prompts\n"
      "(Zipf), up to {} turns, {} conversations at a time; blocks of {}.\n"
      "Share of the prompt tokens found:\n\n",
      kv::with_commas(static_cast<int64_t>(trace.size())), kv::with_commas(tokens),
      what.num_system_prompts, what.max_turns, what.num_open, block_size);
  kv::Records rows;
  for (const int slots : lesson07::kPoolSlots) {
    if (kv::interrupted()) break;
    const int blocks = slots / block_size;
    lesson06::BlockPool stack(blocks, block_size);
    lesson07::BlockPool queue(blocks, block_size);
    const double newest_first = lesson07::play(trace, stack);
    const double oldest_first = lesson07::play(trace, queue);
    const lesson07::CacheMetrics& metrics = queue.metrics();
    rows.add({{"pool", kv::count_of(blocks, "block")},
              {"slots", kv::counted(slots), "slots"},
              {"stack", kv::percent_of_one(newest_first), "stack"},
              {"LRU", kv::percent_of_one(oldest_first), "LRU"},
              {"LRU evicts", kv::counted(metrics.num_evicted)},
              {"never hit", kv::share(metrics.num_evicted_unused, metrics.num_evicted)}});
  }
  lab.report_records("trace", rows);
}

/// Conversations in turns: each turn repeats all that was said and adds a sentence.
void talk(kv::Lab& lab, const Options& options) {
  lab.title("Lesson 07, LRU eviction");
  lesson07::CachingEngine engine(lab.model(), options.paged);
  const auto without = lesson02::make_engine(lab.model(), {});
  const std::vector<std::string>& texts = options.generate.prompts;
  lab.console.print("{} in turns, a pool of {} of {}\n\n",
                    texts.size() == 1 ? "One person" : fmt::format("{} people", texts.size()),
                    kv::count_of(options.paged.num_blocks, "block"), options.paged.block_size);
  kv::Records rows;
  std::vector<std::vector<int32_t>> so_far(texts.size());
  int64_t tokens_asked = 0, tokens_found = 0;
  for (int turn = 0; turn < options.turns; ++turn) {
    for (size_t who = 0; who < texts.size() && !kv::interrupted(); ++who) {
      const std::vector<int32_t> more =
          lab.tokenizer().encode(turn == 0 ? texts[who] : " One day, something happened.");
      so_far[who].insert(so_far[who].end(), more.begin(), more.end());
      const kv::Request request{.prompt = so_far[who],
                                .max_tokens = options.generate.max_tokens,
                                .sampling = options.generate.sampling,
                                .stop_token_ids = {}};
      const lesson07::CacheMetrics before =
          engine.pool() ? engine.pool()->metrics() : lesson07::CacheMetrics{};
      const auto result = engine.generate({&request, 1});
      const lesson07::BlockPool& pool = *engine.pool();
      const auto plain = without->generate({&request, 1});
      const bool same = plain.completions[0].logits_xxh64 == result.completions[0].logits_xxh64;
      const int found = engine.num_cached_tokens()[0];
      tokens_asked += static_cast<int64_t>(request.prompt.size());
      tokens_found += found;
      rows.add({{"turn", turn + 1, "turn"},
                {"who", who + 1, "who"},
                {"prompt", request.prompt.size()},
                {"from the cache", found, "cached_tokens"},
                {"revived", pool.metrics().num_revived - before.num_revived},
                {"evicted", pool.metrics().num_evicted - before.num_evicted},
                {"cached blocks", pool.num_cached()},
                {"same bits", same, "same_bits"}});
      const std::vector<int32_t>& answer = result.completions[0].tokens;
      so_far[who].insert(so_far[who].end(), answer.begin(), answer.end());
    }
  }
  lab.report_records("turns", rows);
  if (tokens_asked > 0) lab.print_hit_rate(tokens_found, tokens_asked);
}

void run(kv::Lab& lab, const Options& options) {
  lab.report["block_size"] = options.paged.block_size;
  options.trace ? print_trace(lab, options) : talk(lab, options);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.generate.prompts = {"Once upon a time there was a little dog named Max.",
                              "The old owl lived in a tall tree by the river."};
  options.generate.max_tokens = 40;
  kv::CommandLine command(
      "Lesson 07: conversations over a pool that is a cache, and a day of a chat server.");
  kv::add_generate_options(command, options.generate);
  command.value("--block-size N", options.paged.block_size, "tokens per KV block, a power of two")
      .between(1, 256);
  command
      .value("--num-blocks N", options.paged.num_blocks, "blocks in the pool of the conversations")
      .between(1, 1 << 24);
  command.value("--turns N", options.turns, "turns of each conversation").between(1, 64);
  command.flag("--trace", options.trace,
               "hit rate against pool size on a made-up day, and nothing else");
  return kv::run_lesson("07", command, options.generate, argc, argv,
                        [&](kv::Lab& lab) { run(lab, options); });
}
