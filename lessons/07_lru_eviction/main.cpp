// The program of lesson 07: two people talk to the model in turns over a pool that is a cache. With
// --trace, a day of a chat server on pools of different sizes.

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/trace.h"
#include "common/error.h"
#include "common/table.h"
#include "engine.h"
#include "lessons/02_flat_cache/engine.h"
#include "programs/generate.h"
#include "programs/report.h"

namespace {

struct Options {
  kv::GenerateOptions generate;
  int block_size = 16;
  int num_blocks = 16;
  int turns = 4;
  bool trace = false;
};

/// Hit rates of a trace by pool size, for lesson 06's pool and this one.
nlohmann::json print_trace(const kv::Console& console, const Options& options) {
  const lesson07::TraceOptions what{.seed = options.generate.sampling.seed};
  const auto trace = lesson07::make_trace(what);
  int64_t tokens = 0;
  for (const auto& request : trace) tokens += static_cast<int64_t>(request.prompt.size());
  console.print(
      "{} requests of a made-up day, {} prompt tokens: {} system prompts\n"
      "(Zipf), up to {} turns, {} conversations at a time; blocks of {}.\n"
      "Share of the prompt tokens found:\n\n",
      kv::with_commas(static_cast<int64_t>(trace.size())), kv::with_commas(tokens),
      what.num_system_prompts, what.max_turns, what.num_open, options.block_size);
  kv::Table table({"pool", "slots", "stack", "LRU", "LRU evicts", "never hit"});
  nlohmann::json rows = nlohmann::json::array();
  for (const int slots : lesson07::kPoolSlots) {
    if (kv::interrupted()) break;
    const int blocks = slots / options.block_size;
    lesson06::BlockPool stack(blocks, options.block_size);
    lesson07::BlockPool queue(blocks, options.block_size);
    const double newest_first = lesson07::play(trace, stack);
    const double oldest_first = lesson07::play(trace, queue);
    const lesson07::CacheMetrics& metrics = queue.metrics();
    table.add({kv::count_of(blocks, "block"), kv::with_commas(slots), kv::percent(newest_first, 1),
               kv::percent(oldest_first, 1), kv::with_commas(metrics.num_evicted),
               kv::percent(static_cast<double>(metrics.num_evicted_unused),
                           static_cast<double>(metrics.num_evicted))});
    rows.push_back({{"slots", slots}, {"stack", newest_first}, {"LRU", oldest_first}});
  }
  console.write(table.to_string());
  return rows;
}

/// Conversations in turns: each turn repeats all that was said and adds a sentence.
nlohmann::json talk(const kv::Console& console, kv::Model& model, const kv::Tokenizer& tokenizer,
                    const Options& options) {
  lesson07::CachingEngine engine(
      model, {.block_size = options.block_size, .num_blocks = options.num_blocks});
  const auto without = lesson02::make_engine(model, {});
  std::vector<std::string> texts = options.generate.prompts;
  console.print("{} in turns, a pool of {} of {}\n\n",
                texts.size() == 1 ? "One person" : fmt::format("{} people", texts.size()),
                kv::count_of(options.num_blocks, "block"), options.block_size);
  kv::Table table({"turn", "who", "prompt", "from the cache", "revived", "evicted", "cached blocks",
                   "same bits"});
  nlohmann::json rows = nlohmann::json::array();
  std::vector<std::vector<int32_t>> so_far(texts.size());
  int64_t tokens_asked = 0, tokens_found = 0;
  for (int turn = 0; turn < options.turns; ++turn) {
    for (size_t who = 0; who < texts.size() && !kv::interrupted(); ++who) {
      const std::vector<int32_t> more =
          tokenizer.encode(turn == 0 ? texts[who] : " One day, something happened.");
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
      table.add({std::to_string(turn + 1), std::to_string(who + 1),
                 std::to_string(request.prompt.size()), std::to_string(found),
                 std::to_string(pool.metrics().num_revived - before.num_revived),
                 std::to_string(pool.metrics().num_evicted - before.num_evicted),
                 std::to_string(pool.num_cached()), same ? "yes" : "NO"});
      rows.push_back(
          {{"turn", turn + 1}, {"who", who + 1}, {"cached_tokens", found}, {"same_bits", same}});
      const std::vector<int32_t>& answer = result.completions[0].tokens;
      so_far[who].insert(so_far[who].end(), answer.begin(), answer.end());
    }
  }
  console.write(table.to_string());
  if (tokens_asked == 0) return rows;  // interrupted before the first one
  console.print("\nhit rate                  {} of {} prompt tokens, {}\n",
                kv::with_commas(tokens_found), kv::with_commas(tokens_asked),
                kv::percent(static_cast<double>(tokens_found), static_cast<double>(tokens_asked)));
  return rows;
}

void run(Options& options) {
  kv::GenerateOptions& generate = options.generate;
  const kv::Console console(generate.json_file);
  nlohmann::json document;
  document["lesson"] = "07";
  document["block_size"] = options.block_size;
  if (options.trace) {
    document["trace"] = print_trace(console, options);
  } else {
    kv::Model model = kv::load_model(generate);
    const auto tokenizer = kv::Tokenizer::load(generate.model_dir);
    console.print("Lesson 07, LRU eviction, on {}\n\n", kv::describe(model.device()));
    document["device"] = kv::name_of(model.device());
    document["turns"] = talk(console, model, tokenizer, options);
  }
  kv::write_json(generate.json_file, document);
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
  command.value("--block-size N", options.block_size, "tokens per KV block, a power of two")
      .between(1, 256);
  command.value("--num-blocks N", options.num_blocks, "blocks in the pool of the conversations")
      .between(1, 1 << 24);
  command.value("--turns N", options.turns, "turns of each conversation").between(1, 64);
  command.flag("--trace", options.trace,
               "hit rate against pool size on a made-up day, and nothing else");
  return kv::run_main(command, argc, argv, [&] { run(options); });
}
