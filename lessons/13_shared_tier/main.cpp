// The program of lesson 13: the same texts are asked for on several servers, one after the other,
// which have a store in common and nothing else. It shows what each of them computed and what it
// loaded, and that the bits are those of a server alone.

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/memory_store.h"
#include "cli/redis_server.h"
#include "common/table.h"
#include "common/url.h"
#include "engine.h"
#include "programs/generate.h"
#include "programs/report.h"

namespace {

using lesson13::SharedMetrics;
using lesson13::SharedTierEngine;

struct Options {
  kv::GenerateOptions generate;
  int servers = 3;
  int block_size = 16;
  int num_blocks = 0;
  std::string store = "redis";
  std::string policy = "always";
  lesson13::SharedTierOptions tier;
};

/// The store, and the Redis server of this program if it is one.
struct Store {
  std::unique_ptr<lesson13::RedisServer> server;
  std::unique_ptr<lesson13::BlockStore> store;
  std::string name;
};

Store open_store(const std::string& wanted) {
  Store store;
  if (wanted == "memory") {
    store.store = std::make_unique<lesson13::MemoryStore>();
    store.name = "memory of this process";
  } else if (wanted == "redis") {
    store.server = std::make_unique<lesson13::RedisServer>();
    store.store = make_redis_store(store.server->address());
    store.name = "a Redis server of this program's own";
  } else {
    store.store = make_redis_store(lesson13::parse_redis_address(wanted));
    store.name = kv::without_password(wanted);
  }
  return store;
}

struct Served {
  SharedMetrics blocks;
  lesson13::Rates rates;
  int64_t computed = 0;  // rows
  double first_token = 0;
  uint64_t digest = 0;
};

/// Serves the texts on a new server. The store has the server's blocks then.
Served serve(SharedTierEngine& engine, const std::vector<kv::Request>& requests) {
  const auto result =
      engine.serve(requests, {}, {}, [](const auto&, const auto&) { return !kv::interrupted(); });
  engine.settle();
  Served served;
  for (size_t i = 0; i < requests.size(); ++i) {
    served.first_token += result.times[i].first_token / static_cast<double>(requests.size());
  }
  served.blocks = engine.server()->tier().metrics();
  served.rates = engine.server()->rates();
  served.computed = result.generated.counters.kv_rows_computed;
  served.digest = kv::combined_digest(result.generated.completions);
  return served;
}

nlohmann::json json_of(const Served& served) {
  const SharedMetrics& blocks = served.blocks;
  return {{"queried_blocks", blocks.num_queried},
          {"found_blocks", blocks.num_found},
          {"fetched_blocks", blocks.num_fetched},
          {"damaged_blocks", blocks.num_damaged},
          {"put_blocks", blocks.num_put},
          {"not_put_blocks", blocks.num_not_put},
          {"checked_blocks", blocks.num_checked},
          {"poisoned_blocks", blocks.num_poisoned},
          {"unreachable", blocks.num_unreachable},
          {"computed_tokens", served.computed},
          {"seconds_to_first_token", served.first_token},
          {"digest", kv::hex64(served.digest)}};
}

/// Prints the bandwidth at which loading and computing take the same time. `first` has computed,
/// `later` has loaded.
void print_crossing(const kv::Console& console, double seconds_per_token, double seconds_per_block,
                    int block_size, int64_t bytes) {
  if (seconds_per_token == 0 || seconds_per_block == 0) return;
  const double compute = seconds_per_token * block_size;
  console.print(
      "\na block of {} takes {:.0f} us to compute, {:.0f} us from the store\n"
      "loading is quicker from {:.0f} MB/s on; this store gives {:.0f} MB/s\n",
      kv::human_bytes(bytes), 1e6 * compute, 1e6 * seconds_per_block,
      1e-6 * static_cast<double>(bytes) / compute,
      1e-6 * static_cast<double>(bytes) / seconds_per_block);
}

void print_troubles(const kv::Console& console, const SharedMetrics& blocks) {
  const auto tell = [&](int64_t count, const char* what) {
    if (count > 0) console.print("{}: {}\n", what, kv::count_of(count, "block"));
  };
  tell(blocks.num_damaged, "damaged in the store");
  tell(blocks.num_checked, "computed again, to be compared");
  tell(blocks.num_poisoned, "poisoned in the store, and replaced");
  tell(blocks.num_not_put, "not put");
  if (blocks.num_unreachable > 0)
    console.print("the store did not answer, or wants another password\n");
}

void run(Options& options) {
  const kv::GenerateOptions& generate = options.generate;
  const kv::Console console(generate.json_file);
  kv::Model model = kv::load_model(generate);
  const auto tokenizer = kv::Tokenizer::load(generate.model_dir);
  const auto requests = kv::make_requests(generate, tokenizer, model.config());
  if (options.policy == "never") options.tier.policy = lesson13::LoadPolicy::kNever;
  if (options.policy == "always") options.tier.policy = lesson13::LoadPolicy::kAlways;
  const lesson13::PagedOptions paged{.block_size = options.block_size,
                                     .num_blocks = options.num_blocks};
  const Store store = open_store(options.store);
  console.print(
      "Lesson 13, one cache for many servers, on {}\n\n{} in blocks of {}; the store: {}\n\n",
      kv::describe(model.device()), kv::count_of(std::ssize(requests), "text"), options.block_size,
      store.name);
  const uint64_t wanted =
      kv::combined_digest(lesson08::ServingEngine(model, paged).generate(requests).completions);
  kv::Table table(
      {"server", "asked for", "found", "loaded", "rows computed", "put", "first token"});
  nlohmann::json servers = nlohmann::json::array();
  bool same = true;
  double seconds_per_token = 0, seconds_per_block = 0;
  for (int number = 1; number <= options.servers && !kv::interrupted(); ++number) {
    SharedTierEngine engine(model, paged, *store.store, {}, options.tier);
    const Served served = serve(engine, requests);
    if (kv::interrupted()) break;
    same = same && served.digest == wanted;
    const SharedMetrics& blocks = served.blocks;
    table.add({std::to_string(number), kv::with_commas(blocks.num_queried),
               kv::with_commas(blocks.num_found), kv::with_commas(blocks.num_fetched),
               kv::with_commas(served.computed), kv::with_commas(blocks.num_put),
               fmt::format("{:.1f} ms", 1e3 * served.first_token)});
    servers.push_back(json_of(served));
    if (number == 1) seconds_per_token = served.rates.seconds_per_token;
    seconds_per_block = served.rates.seconds_per_block;
    print_troubles(console, blocks);
  }
  console.write(table.to_string());
  print_crossing(console, seconds_per_token, seconds_per_block, options.block_size,
                 lesson11::bytes_per_block(model, paged));
  if (!same) throw std::logic_error("the bits differ: a block came back changed");
  if (!servers.empty()) {
    console.print("\nthe bits of a server alone   yes  {}\n", kv::hex64(wanted));
  }
  kv::write_json(generate.json_file, {{"lesson", "13"},
                                      {"device", kv::name_of(model.device())},
                                      {"servers", servers},
                                      {"same_bits", same},
                                      {"interrupted", kv::interrupted()}});
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.generate.max_tokens = 32;
  const std::vector<std::string> sentences = kv::six_texts();
  for (size_t i = 0; i < sentences.size(); ++i) {  // three sentences each: a few full blocks
    const auto next = [&](size_t n) { return sentences[(i + n) % sentences.size()]; };
    options.generate.prompts.push_back(next(0) + " " + next(1) + " " + next(2));
  }
  kv::CommandLine command("Lesson 13: what one server has computed, others load from a store.");
  kv::add_generate_options(command, options.generate);
  command.value("--servers N", options.servers, "servers that serve the texts, in turn")
      .between(1, 1000);
  kv::add_pool_options(command, options.block_size, options.num_blocks,
                       "blocks on the device; 0: as many as all texts need");
  command
      .value("--host-blocks N", options.tier.host.host_blocks,
             "blocks in the host's memory; 0: four times those of the device")
      .between(0, 1 << 28);
  command.value("--store STORE", options.store,
                "redis: a Redis server of the program's own; memory: no server, but this program's "
                "memory; redis://host:port or unix:/path: a server of yours");
  command
      .value("--policy NAME", options.policy,
             "load what the store has: always, never, or if it is quicker than computing it")
      .one_of({"always", "never", "quicker"});
  command.value("--secret TEXT", options.tier.shared.secret,
                "a secret that all servers know; a value made without it is refused");
  command
      .value("--check-every N", options.tier.shared.check_every,
             "compute every Nth text that the store has all the same, and compare; 0: none")
      .between(0, 1 << 20);
  return kv::run_main(command, argc, argv, [&] { run(options); });
}
