// The program of lesson 11: the same texts are asked for in several rounds, on a device that has
// room for two of them. It shows where each round's prompts came from, and that the bits are those
// of a server that computes everything again.

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/table.h"
#include "engine.h"
#include "lessons/08_scheduler/cli/pool_sizes.h"
#include "programs/generate.h"
#include "programs/report.h"

namespace {

using lesson11::HostTierEngine;
using lesson11::LoadPolicy;

struct Options {
  kv::GenerateOptions generate;
  int rounds = 3;
  int block_size = 16;
  int num_blocks = 0;
  lesson11::HostTierOptions tier;
  std::string policy = "quicker";
};

/// The sources of one round's tokens.
struct Round {
  int64_t device = 0;    // found there
  int64_t host = 0;      // loaded
  int64_t computed = 0;  // generated tokens included
  double seconds = 0;    // to the first token, the mean
  uint64_t digest = 0;
};

Round serve_round(auto& engine, const std::vector<kv::Request>& requests) {
  const auto result =
      engine.serve(requests, {}, {}, [](const auto&, const auto&) { return !kv::interrupted(); });
  Round round;
  for (size_t i = 0; i < requests.size(); ++i) {
    round.seconds += result.times[i].first_token / static_cast<double>(requests.size());
  }
  round.computed = result.generated.counters.kv_rows_computed;
  round.digest = kv::combined_digest(result.generated.completions);
  return round;
}

nlohmann::json json_of(const Round& round) {
  return {{"device_tokens", round.device},
          {"host_tokens", round.host},
          {"computed_tokens", round.computed},
          {"seconds_to_first_token", round.seconds},
          {"digest", kv::hex64(round.digest)}};
}

void print_pools(const kv::Console& console, const HostTierEngine& engine) {
  const lesson11::HostTierManager& manager = *engine.manager();
  const lesson11::TierMetrics& metrics = manager.metrics();
  kv::Table table({"pool", "blocks", "cached", "offloaded to it", "loaded from it"});
  table.add({"device", kv::with_commas(manager.pool().num_blocks()),
             kv::with_commas(manager.pool().num_cached()), "", ""});
  table.add({"host", kv::with_commas(manager.host().num_blocks()),
             kv::with_commas(manager.host().num_cached()), kv::with_commas(metrics.num_offloaded),
             kv::with_commas(metrics.num_loaded)});
  console.print("\n{}", table.to_string());
}

void print_rates(const kv::Console& console, const HostTierEngine& engine) {
  const lesson11::Rates rates = engine.server()->rates();
  if (rates.seconds_per_token == 0 || rates.seconds_per_block == 0) return;
  console.print("\na block takes {:.0f} us to compute, {:.1f} us from the host\n",
                1e6 * rates.seconds_per_token * engine.manager()->block_size(),
                1e6 * rates.seconds_per_block);
}

void run(Options& options) {
  const kv::GenerateOptions& generate = options.generate;
  const kv::Console console(generate.json_file);
  kv::Model model = kv::load_model(generate);
  const auto tokenizer = kv::Tokenizer::load(generate.model_dir);
  const auto requests = kv::make_requests(generate, tokenizer, model.config());
  if (options.policy == "always") options.tier.policy = LoadPolicy::kAlways;
  if (options.policy == "never") options.tier.policy = LoadPolicy::kNever;
  if (options.num_blocks == 0) {
    options.num_blocks = 2 * lesson08::max_blocks_of_one(requests, options.block_size);
  }
  const lesson11::PagedOptions paged{.block_size = options.block_size,
                                     .num_blocks = options.num_blocks};
  console.print("Lesson 11, two pools, on {}\n\n{} in blocks of {}: {} on the device\n\n",
                kv::describe(model.device()), kv::count_of(std::ssize(requests), "text"),
                options.block_size, kv::count_of(options.num_blocks, "block"));

  HostTierEngine engine(model, paged, {}, options.tier);
  lesson08::ServingEngine plain(model, paged);
  kv::Table table({"round", "on the device", "from the host", "rows computed", "without",
                   "first token", "without"});
  nlohmann::json rounds = nlohmann::json::array();
  bool same = true;
  for (int number = 1; number <= options.rounds && !kv::interrupted(); ++number) {
    const lesson11::TierMetrics before = engine.manager()->metrics();
    Round round = serve_round(engine, requests);
    const lesson11::TierMetrics after = engine.manager()->metrics();
    round.device = (after.num_hits_on_device - before.num_hits_on_device) * options.block_size;
    round.host = (after.num_hits_in_host - before.num_hits_in_host) * options.block_size;
    if (kv::interrupted()) break;
    const Round without = serve_round(plain, requests);
    if (kv::interrupted()) break;
    same = same && round.digest == without.digest;
    const auto ms = [](double seconds) { return fmt::format("{:.1f} ms", 1e3 * seconds); };
    table.add({std::to_string(number), kv::with_commas(round.device), kv::with_commas(round.host),
               kv::with_commas(round.computed), kv::with_commas(without.computed),
               ms(round.seconds), ms(without.seconds)});
    rounds.push_back(json_of(round));
    rounds.back()["computed_tokens_without"] = without.computed;
  }
  console.write(table.to_string());
  print_pools(console, engine);
  print_rates(console, engine);
  if (!same) throw std::logic_error("the bits differ: a block came back changed");
  if (!kv::interrupted()) {
    console.print("\nthe bits of a server with one pool   yes  {}\n",
                  rounds.back()["digest"].get<std::string>());
  }
  kv::write_json(generate.json_file, {{"lesson", "11"},
                                      {"device", kv::name_of(model.device())},
                                      {"rounds", rounds},
                                      {"same_bits", same},
                                      {"interrupted", kv::interrupted()}});
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.generate.max_tokens = 32;
  options.generate.prompts = kv::six_texts();
  kv::CommandLine command(
      "Lesson 11: blocks are copied to the host before they are evicted, and loaded again.");
  kv::add_generate_options(command, options.generate);
  command.value("--rounds N", options.rounds, "how often the same texts are asked for")
      .between(1, 1000);
  kv::add_pool_options(command, options.block_size, options.num_blocks,
                       "blocks on the device; 0: twice those of the longest text");
  command
      .value("--host-blocks N", options.tier.host_blocks,
             "blocks in the host's memory; 0: four times those of the device, in a quarter of the "
             "free "
             "memory")
      .between(0, 1 << 28);
  command
      .value("--policy NAME", options.policy,
             "load what is there: always, never, or if it is quicker than computing it")
      .one_of({"always", "never", "quicker"});
  command
      .value("--min-hits N", options.tier.min_hits_to_offload,
             "a block is offloaded if at least N requests have found it")
      .between(0, 1 << 20);
  return kv::run_main(command, argc, argv, [&] { run(options); });
}
