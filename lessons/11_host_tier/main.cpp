// The program of lesson 11: the same texts are asked for in several rounds, of a device that has
// room for two of them. It shows where each round's prompts came from, and that the bits are those
// of a server that computes everything again. With --file the next start finds them, too.

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/base/table.h"
#include "common/program/generate.h"
#include "common/program/report.h"
#include "engine.h"

namespace {

using lesson11::LoadPolicy;
using lesson11::TieredEngine;

struct Options {
  kv::GenerateOptions generate;
  int rounds = 3;
  int block_size = 16;
  int num_blocks = 0;
  lesson11::HostTierOptions tiers;
  std::string policy = "quicker";
};

/// Where the tokens of one round came from.
struct Round {
  int64_t device = 0;    // found there
  int64_t loaded = 0;    // from the host's memory, those from the file included
  int64_t file = 0;      // that rose from the file to the host
  int64_t computed = 0;  // generated tokens included
  double seconds = 0;    // to the first token, the mean
  uint64_t digest = 0;
};

Round serve_round(lesson08::ServingEngine& engine, const std::vector<kv::Request>& requests) {
  const auto result =
      engine.serve(requests, {}, {}, [](const auto&, const auto&) { return !kv::interrupted(); });
  Round round;
  for (size_t i = 0; i < requests.size(); ++i) {
    round.seconds += result.times[i].first_token / static_cast<double>(requests.size());
  }
  round.loaded = result.generated.counters.named("loaded_tokens");
  round.device = result.generated.counters.named("found_tokens");
  round.computed = result.generated.counters.kv_rows_computed;
  round.digest = kv::combined_digest(result.generated.completions);
  return round;
}

int64_t risen_from_file(const TieredEngine& engine) {
  const lesson11::TieredManager* const manager = engine.manager();
  if (manager == nullptr || manager->num_tiers() < 2) return 0;
  return manager->tier_metrics(1).num_risen * manager->block_size();
}

nlohmann::json json_of(const Round& round) {
  return {{"device_tokens", round.device},
          {"loaded_tokens", round.loaded},
          {"file_tokens", round.file},
          {"computed_tokens", round.computed},
          {"seconds_to_first_token", round.seconds},
          {"digest", kv::hex64(round.digest)}};
}

void print_tiers(const kv::Console& console, const TieredEngine& engine) {
  const lesson11::TieredManager& manager = *engine.manager();
  kv::Table table({"pool", "blocks", "cached", "sunk into it", "risen from it", "damaged"});
  table.add({"device", kv::with_commas(manager.pool().num_blocks()),
             kv::with_commas(manager.pool().index().size()), "", "", ""});
  for (int tier = 0; tier < manager.num_tiers(); ++tier) {
    const lesson11::TierMetrics& metrics = manager.tier_metrics(tier);
    table.add({tier == 0 ? "host" : "file", kv::with_commas(manager.tier_pool(tier).num_blocks()),
               kv::with_commas(manager.tier_pool(tier).num_cached()),
               kv::with_commas(metrics.num_sunk), kv::with_commas(metrics.num_risen),
               kv::with_commas(metrics.num_damaged)});
  }
  console.print("\n{}", table.to_string());
}

void print_rates(const kv::Console& console, const TieredEngine& engine) {
  const lesson11::Rates& rates = engine.rates();
  if (rates.seconds_per_token == 0 || rates.seconds_per_block.empty()) return;
  const double compute = rates.seconds_per_token * engine.manager()->block_size();
  console.print("\na block takes {:.0f} us to compute, {:.1f} us from the host", 1e6 * compute,
                1e6 * rates.seconds_per_block[0]);
  if (rates.seconds_per_block.size() > 1 && rates.seconds_per_block[1] > 0) {
    console.print(", and {:.1f} us more from the file", 1e6 * rates.seconds_per_block[1]);
  }
  console.print("\n");
}

void run(Options& options) {
  const kv::GenerateOptions& generate = options.generate;
  const kv::Console console(generate.json_file);
  kv::Model model = kv::load_model(generate);
  const auto tokenizer = kv::Tokenizer::load(generate.model_dir);
  const auto requests = kv::make_requests(generate, tokenizer, model.config());
  if (options.policy == "always") options.tiers.policy = LoadPolicy::kAlways;
  if (options.policy == "never") options.tiers.policy = LoadPolicy::kNever;
  if (options.num_blocks == 0) {
    options.num_blocks = 2 * lesson08::most_blocks_of_one(requests, options.block_size);
  }
  const lesson11::PagedOptions paged{.block_size = options.block_size,
                                     .num_blocks = options.num_blocks};
  console.print("Lesson 11, tiers, on {}\n\n{} in blocks of {}: {} on the device\n\n",
                kv::describe(model.device()), kv::count_of(std::ssize(requests), "text"),
                options.block_size, kv::count_of(options.num_blocks, "block"));

  TieredEngine engine(model, paged, {}, options.tiers);
  lesson08::ServingEngine plain(model, paged);
  kv::Table table({"round", "on the device", "from the host", "from the file", "rows computed",
                   "without tiers", "first token", "without"});
  nlohmann::json rounds = nlohmann::json::array();
  bool same = true;
  for (int number = 1; number <= options.rounds && !kv::interrupted(); ++number) {
    const int64_t before = risen_from_file(engine);
    Round round = serve_round(engine, requests);
    round.file = risen_from_file(engine) - before;
    if (kv::interrupted()) break;
    const Round without = serve_round(plain, requests);
    if (kv::interrupted()) break;
    same = same && round.digest == without.digest;
    const auto ms = [](double seconds) { return fmt::format("{:.1f} ms", 1e3 * seconds); };
    table.add({std::to_string(number), kv::with_commas(round.device),
               kv::with_commas(round.loaded - round.file), kv::with_commas(round.file),
               kv::with_commas(round.computed), kv::with_commas(without.computed),
               ms(round.seconds), ms(without.seconds)});
    rounds.push_back(json_of(round));
    rounds.back()["computed_tokens_without"] = without.computed;
  }
  console.write(table.to_string());
  if (engine.manager() != nullptr) {
    print_tiers(console, engine);
    print_rates(console, engine);
  }
  if (!same) throw std::logic_error("the bits differ: a block came back changed");
  if (!kv::interrupted()) {
    console.print("\nthe bits of a server without tiers   yes  {}\n",
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
  options.generate.prompts = {
      "Once upon a time there was a little fox who lived in a dark forest with her mother.",
      "One day, a boy named Tom found a big red box under the old tree in the garden.",
      "Lily and Ben went to the park with their dog. They wanted to play with the ball.",
      "The sun was warm, and the cat was asleep on the soft mat next to the window.",
      "A small bird wanted to fly over the mountain, but the wind was cold and strong.",
      "Mia had a boat made of paper. She put it on the water and watched it go away."};
  kv::CommandLine command(
      "Lesson 11: what is evicted sinks to the host, and to a file, and rises.");
  kv::add_generate_options(command, options.generate);
  command.value("--rounds N", options.rounds, "how often the same texts are asked for")
      .between(1, 1000);
  command.value("--block-size N", options.block_size, "tokens per KV block, a power of two")
      .between(1, 256);
  command
      .value("--num-blocks N", options.num_blocks,
             "blocks on the device; 0: twice those of the longest text")
      .between(0, 1 << 24);
  command
      .value("--host-blocks N", options.tiers.host_blocks,
             "blocks in the host's memory; 0: four times those of the device")
      .between(0, 1 << 28);
  command.value("--file FILE", options.tiers.file,
                "a file for blocks below the host's; what it holds is found by the next start");
  command
      .value("--file-blocks N", options.tiers.file_blocks,
             "blocks in the file; 0: four times those of the host")
      .between(0, 1 << 28);
  command
      .value("--policy NAME", options.policy,
             "load what is there: always, never, or if it is quicker than computing it")
      .one_of({"always", "never", "quicker"});
  command
      .value("--min-hits N", options.tiers.tiers.min_hits_to_sink,
             "a block sinks if so many requests have found it")
      .between(0, 1 << 20);
  return kv::run_main(command, argc, argv, [&] { run(options); });
}
