// The program of lesson 11: the same texts are asked for in several rounds, on a device that has
// room for two of them. It shows where each round's prompts came from, and that the bits are those
// of a server that computes everything again.

#include <fmt/format.h>

#include <string>
#include <vector>

#include "engine.h"
#include "lessons/08_scheduler/cli/pool_sizes.h"
#include "programs/lab.h"

namespace {

using lesson11::HostTierEngine;
using lesson11::LoadPolicy;

struct Options {
  kv::GenerateOptions generate;
  int rounds = 3;
  lesson11::PagedOptions paged;
  lesson11::HostTierOptions tier;
  std::string policy = "quicker";
};

kv::ServeResult serve_round(auto& engine, const std::vector<kv::Request>& requests) {
  return engine.serve(requests, {}, {},
                      [](const auto&, const auto&) { return !kv::interrupted(); });
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

void run(kv::Lab& lab, Options& options) {
  const auto requests = lab.requests();
  if (options.policy == "always") options.tier.policy = LoadPolicy::kAlways;
  if (options.policy == "never") options.tier.policy = LoadPolicy::kNever;
  auto& [block_size, num_blocks, _] = options.paged;
  if (num_blocks == 0) num_blocks = 2 * lesson08::max_blocks_of_one(requests, block_size);
  lab.title("Lesson 11, two pools");
  lab.console.print("{} in blocks of {}: {} on the device\n\n",
                    kv::count_of(std::ssize(requests), "text"), block_size,
                    kv::count_of(num_blocks, "block"));

  HostTierEngine engine(lab.model(), options.paged, {}, options.tier);
  lesson08::ServingEngine plain(lab.model(), options.paged);
  kv::Records rounds;
  bool same = true;
  uint64_t digest = 0;
  for (int number = 1; number <= options.rounds && !kv::interrupted(); ++number) {
    const lesson11::TierMetrics before = engine.manager()->metrics();
    const kv::ServeResult round = serve_round(engine, requests);
    const lesson11::TierMetrics after = engine.manager()->metrics();
    if (kv::interrupted()) break;
    const kv::ServeResult without = serve_round(plain, requests);
    if (kv::interrupted()) break;
    digest = kv::combined_digest(round.generated.completions);
    same = same && digest == kv::combined_digest(without.generated.completions);
    const int64_t on_device = after.num_hits_on_device - before.num_hits_on_device;
    const int64_t in_host = after.num_hits_in_host - before.num_hits_in_host;
    const int64_t computed = round.generated.counters.kv_rows_computed;
    const int64_t all_computed = without.generated.counters.kv_rows_computed;
    rounds.add({{"round", number},
                {"on the device", kv::counted(on_device * block_size), "device_tokens"},
                {"from the host", kv::counted(in_host * block_size), "host_tokens"},
                {"rows computed", kv::counted(computed), "computed_tokens"},
                {"without", kv::counted(all_computed), "computed_tokens_without"},
                {"first token", kv::ms(kv::mean_first_token(round), 1), "seconds_to_first_token"},
                {"without", kv::ms(kv::mean_first_token(without), 1)}});
    rounds.note("digest", kv::hex64(digest));
  }
  lab.report_records("rounds", rounds);
  print_pools(lab.console, engine);
  print_rates(lab.console, engine);
  lab.require_same_bits(same, "the bits differ: a block came back changed");
  lab.report["interrupted"] = kv::interrupted();
  if (kv::interrupted()) return;
  lab.console.print("\nthe bits of a server with one pool   yes  {}\n", kv::hex64(digest));
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
  kv::add_pool_options(command, options.paged.block_size, options.paged.num_blocks,
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
  return kv::run_lesson("11", command, options.generate, argc, argv,
                        [&](kv::Lab& lab) { run(lab, options); });
}
