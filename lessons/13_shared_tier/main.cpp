// The program of lesson 13: the same texts are asked for on several servers, one after the other,
// which have a store in common and nothing else. It shows what each of them computed and what it
// loaded, and that the bits are those of a server alone.

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/memory_store.h"
#include "cli/redis_server.h"
#include "common/url.h"
#include "engine.h"
#include "programs/lab.h"

namespace {

using lesson13::SharedMetrics;
using lesson13::SharedTierEngine;

struct Options {
  kv::GenerateOptions generate;
  int servers = 3;
  lesson13::PagedOptions paged;
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

/// Serves the texts on a new server. The store has the server's blocks then.
kv::ServeResult serve(SharedTierEngine& engine, const std::vector<kv::Request>& requests) {
  auto result =
      engine.serve(requests, {}, {}, [](const auto&, const auto&) { return !kv::interrupted(); });
  engine.settle();
  return result;
}

/// Of one server: its line of the table.
void add_record(kv::Records& servers, const SharedMetrics& blocks, const kv::ServeResult& result) {
  const int64_t computed = result.generated.counters.kv_rows_computed;
  const double first_token = kv::mean_first_token(result);
  servers.add({{"server", servers.json().size() + 1},
               {"asked for", kv::counted(blocks.num_queried), "queried_blocks"},
               {"found", kv::counted(blocks.num_found), "found_blocks"},
               {"loaded", kv::counted(blocks.num_fetched), "fetched_blocks"},
               {"rows computed", kv::counted(computed), "computed_tokens"},
               {"put", kv::counted(blocks.num_put), "put_blocks"},
               {"first token", kv::ms(first_token, 1), "seconds_to_first_token"}});
  servers.note("damaged_blocks", blocks.num_damaged);
  servers.note("not_put_blocks", blocks.num_not_put);
  servers.note("checked_blocks", blocks.num_checked);
  servers.note("poisoned_blocks", blocks.num_poisoned);
  servers.note("unreachable", blocks.num_unreachable);
  servers.note("digest", kv::hex64(kv::combined_digest(result.generated.completions)));
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

void run(kv::Lab& lab, Options& options) {
  const auto requests = lab.requests();
  if (options.policy == "never") options.tier.policy = lesson13::LoadPolicy::kNever;
  if (options.policy == "always") options.tier.policy = lesson13::LoadPolicy::kAlways;
  const Store store = open_store(options.store);
  lab.title("Lesson 13, one cache for many servers");
  lab.console.print("{} in blocks of {}; the store: {}\n\n",
                    kv::count_of(std::ssize(requests), "text"), options.paged.block_size,
                    store.name);
  const uint64_t wanted = kv::combined_digest(
      lesson08::ServingEngine(lab.model(), options.paged).generate(requests).completions);
  kv::Records servers;
  bool same = true;
  double seconds_per_token = 0, seconds_per_block = 0;
  for (int number = 1; number <= options.servers && !kv::interrupted(); ++number) {
    SharedTierEngine engine(lab.model(), options.paged, *store.store, {}, options.tier);
    const kv::ServeResult result = serve(engine, requests);
    if (kv::interrupted()) break;
    same = same && kv::combined_digest(result.generated.completions) == wanted;
    const SharedMetrics blocks = engine.server()->tier().metrics();
    add_record(servers, blocks, result);
    const lesson13::Rates rates = engine.server()->rates();
    if (number == 1) seconds_per_token = rates.seconds_per_token;
    seconds_per_block = rates.seconds_per_block;
    print_troubles(lab.console, blocks);
  }
  lab.report_records("servers", servers);
  print_crossing(lab.console, seconds_per_token, seconds_per_block, options.paged.block_size,
                 lesson11::bytes_per_block(lab.model(), options.paged));
  lab.require_same_bits(same, "the bits differ: a block came back changed");
  lab.report["interrupted"] = kv::interrupted();
  if (servers.json().empty()) return;
  lab.console.print("\nthe bits of a server alone   yes  {}\n", kv::hex64(wanted));
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
  kv::add_pool_options(command, options.paged.block_size, options.paged.num_blocks,
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
  return kv::run_lesson("13", command, options.generate, argc, argv,
                        [&](kv::Lab& lab) { run(lab, options); });
}
