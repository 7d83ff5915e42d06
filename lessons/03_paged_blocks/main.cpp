// The program of lesson 03: generates text with paged blocks, and shows what paging wastes.

#include <fmt/format.h>

#include <set>
#include <stdexcept>
#include <string>

#include "engine.h"
#include "programs/lab.h"
#include "qwen3/known_models.h"

namespace {

struct Options {
  kv::GenerateOptions generate;
  lesson03::PagedOptions paged;
  bool waste = false;
  bool translate = false;
};

/// The four sequences that waste 45.1 % of lesson 02's slabs.
constexpr int kLengths[] = {1024, 512, 200, 512};
constexpr int kSlabTokens = 1024;

/// The same four sequences in slabs, and in blocks of every size.
void print_waste(const kv::Console& console) {
  const kv::ModelConfig& config = kv::known_model("Qwen3-0.6B").config;
  const int64_t token_bytes = config.kv_bytes_per_token(2);
  int64_t used = 0;
  for (const int length : kLengths) used += length;
  console.print("Four sequences of 1,024, 512, 200 and 512 tokens, Qwen3-0.6B, 16 bit: {} used\n\n",
                kv::human_bytes(used * token_bytes));
  kv::Table table({"memory", "blocks", "KV reserved", "wasted", "wasted", "block tables"});
  const auto add = [&](const std::string& name, int64_t blocks, int64_t slots,
                       int64_t table_bytes) {
    table.add({name, blocks > 0 ? kv::with_commas(blocks) : "-",
               kv::human_bytes(slots * token_bytes), kv::human_bytes((slots - used) * token_bytes),
               kv::percent(static_cast<double>(slots - used), static_cast<double>(slots)),
               table_bytes > 0 ? kv::human_bytes(table_bytes) : "-"});
  };
  add("slabs of 1,024", 0, int64_t{kSlabTokens} * static_cast<int64_t>(std::size(kLengths)), 0);
  for (int block_size = 256; block_size >= 1; block_size /= 2) {
    lesson03::BlockManager manager(4096, block_size);
    for (const int length : kLengths) {
      if (!manager.extend(manager.add_sequence(), length)) {
        throw std::logic_error("the pool is large enough");
      }
    }
    const int64_t blocks = manager.pool().num_used();
    add(fmt::format("blocks of {}", block_size), blocks, blocks * block_size,
        blocks * static_cast<int64_t>(sizeof(int32_t)));
  }
  console.write(table.to_string());
}

/// Shows where the tokens are in the pool after two sequences have grown alternately.
void print_translation(const kv::Console& console, int block_size) {
  lesson03::BlockManager manager(64, block_size);
  const int a = manager.add_sequence();
  const int b = manager.add_sequence();
  for (int turn = 0; turn < 3; ++turn) {
    if (!manager.extend(a, block_size) || !manager.extend(b, block_size / 2 + 1)) {
      throw std::logic_error("the pool is large enough");
    }
  }
  const lesson03::BlockTable& table = manager.table(b);
  std::string ids;
  for (const int32_t id : table.block_ids()) ids += fmt::format(" {}", id);
  console.print("Sequence B has {} in blocks of {}; its table is [{} ]\n\n",
                kv::count_of(table.num_tokens(), "token"), block_size, ids);
  kv::Table rows({"token", "block = t / size", "offset = t % size", "block id", "slot"});
  for (const int token : std::set{0, 1, block_size - 1, block_size, table.num_tokens() - 1}) {
    if (token >= table.num_tokens()) continue;
    const int64_t block_id = table.slot(token) / block_size;
    rows.add({std::to_string(token),
              fmt::format("{} / {} = {}", token, block_size, token / block_size),
              fmt::format("{} % {} = {}", token, block_size, token % block_size),
              std::to_string(block_id),
              fmt::format("{} x {} + {} = {}", block_id, block_size, token % block_size,
                          table.slot(token))});
  }
  console.write(rows.to_string());
}

void print_cost(const kv::Console& console, lesson03::PagedEngine& engine,
                std::span<const kv::Request> requests, const kv::GenerateResult& result) {
  console.print("The prompts once, then one token of each sequence\n{}\n",
                kv::passes_chart(result.passes, 16));
  const kv::EngineCounters& counters = result.counters;
  console.write(kv::counters_text(counters, kv::num_generated_tokens(result)));
  if (!engine.cache()) return;
  lesson03::PagedKvCache& cache = *engine.cache();
  const int64_t tails = counters.kv_bytes_reserved - counters.kv_bytes_used;
  console.print("blocks of {:<15} {} at most, {} each\n", kv::count_of(cache.block_size(), "token"),
                kv::with_commas(counters.named("blocks_in_use")),
                kv::human_bytes(cache.bytes_per_block()));
  console.print("wasted in tails           {}, at most {} for each of {}\n", kv::human_bytes(tails),
                kv::count_of(cache.block_size() - 1, "slot"),
                kv::count_of(std::ssize(requests), "sequence"));
  const int64_t written = counters.kv_rows_computed * cache.bytes_per_token();
  console.print("gathered                  {}: {:.0f} times what was written\n",
                kv::human_bytes(counters.kv_bytes_copied),
                written > 0
                    ? static_cast<double>(counters.kv_bytes_copied) / static_cast<double>(written)
                    : 0.0);
}

void run(kv::Lab& lab, const Options& options) {
  if (options.waste) print_waste(lab.console);
  if (options.translate) print_translation(lab.console, options.paged.block_size);
  if (options.waste || options.translate) return;

  const auto requests = lab.requests();
  lab.title("Lesson 03, paged blocks");
  kv::warm_up(*lesson03::make_engine(lab.model(), options.paged), requests);
  lesson03::PagedEngine engine(lab.model(), options.paged);
  const kv::GenerateResult result = lab.generate(engine, requests);
  lab.report["block_size"] = options.paged.block_size;
  print_cost(lab.console, engine, requests, result);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.generate.prompts = {"Once upon a time"};
  kv::CommandLine command(
      "Lesson 03: generates text with a paged KV cache, and shows what paging wastes.");
  kv::add_generate_options(command, options.generate);
  kv::add_pool_options(command, options.paged.block_size, options.paged.num_blocks);
  command
      .flag("--waste", options.waste,
            "print what slabs and blocks of every size waste, and nothing else")
      .excludes("--json");
  command
      .flag("--translate", options.translate,
            "print how a token's number becomes a slot, and nothing else")
      .excludes("--json");
  return kv::run_lesson("03", command, options.generate, argc, argv,
                        [&](kv::Lab& lab) { run(lab, options); });
}
