// What the bookkeeping costs: nanoseconds of the pool, the index and the scheduler, and how many
// allocations they make. With --serve also a server's busy time: tokens per second, the share of
// the time that reading takes at least, and the host's part of each pass.
//
//   lesson08_bench [--model DIR] [--device NAME] [--seed N] [--serve] [--json FILE]

#include <algorithm>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "common/base/table.h"
#include "common/program/allocations.h"
#include "common/program/bench.h"
#include "common/program/measure_gpu.h"
#include "common/program/report.h"
#include "engine.h"
#include "lessons/06_prefix_hashing/program/hashers.h"

namespace {

using lesson07::BlockPool;
using lesson08::Chunk;
using lesson08::KvCacheManager;
using lesson08::Scheduler;

constexpr int kBlockSize = 16;
constexpr int kNumBlocks = 65'536;
constexpr int kRun = 256;  // blocks of a request of 4,096 tokens

constexpr int kRounds = 15;  // of which the median counts

double seconds_of(const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Of each of `count` things that one call does.
double nanoseconds(int64_t count, const std::function<void()>& call) {
  return 1e9 * kv::median_seconds(call, kRounds) / static_cast<double>(count);
}

std::vector<int32_t> random_tokens(int count, std::mt19937_64& rng) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& token : tokens) token = static_cast<int32_t>(rng() % 151'936);
  return tokens;
}

/// All blocks of the pool are taken in tables of kRun, and given back.
double take_and_give_back(bool cached, uint64_t seed) {
  std::mt19937_64 rng(seed);
  BlockPool pool(kNumBlocks, kBlockSize);
  std::vector<std::vector<int32_t>> tables(kNumBlocks / kRun, std::vector<int32_t>(kRun));
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    double seconds = seconds_of([&] {
      for (auto& table : tables) pool.get_new_blocks(std::span(table));
    });
    for (const auto& table : tables) {
      std::optional<uint64_t> hash;
      std::optional<lesson07::PrefixId> prefix;
      for (const int32_t id : table) {
        if (!cached) break;
        const auto tokens = random_tokens(kBlockSize, rng);
        hash = lesson06::xxh64_block(hash, tokens);
        prefix = pool.cache_full_block(
            id, {.hash = *hash, .parent = prefix, .tokens = tokens, .extra_keys = {}});
      }
    }
    seconds += seconds_of([&] {
      for (const auto& table : tables) pool.free_blocks(table);
    });
    rounds.push_back(seconds);
  }
  return 1e9 * kv::median(rounds) / kNumBlocks;
}

double hash_a_block(uint64_t seed) {
  std::mt19937_64 rng(seed);
  const auto tokens = random_tokens(kRun * kBlockSize, rng);
  uint64_t sum = 0;
  const double ns = nanoseconds(64 * kRun, [&] {
    for (int i = 0; i < 64; ++i) {
      std::optional<uint64_t> parent;
      for (size_t at = 0; at < tokens.size(); at += kBlockSize) {
        parent = lesson06::xxh64_block(parent, std::span(tokens).subspan(at, kBlockSize));
      }
      sum += *parent;
    }
  });
  return sum == 0 ? 0 : ns;
}

/// Prompts that are cached in full, in a pool that is full of such prompts. Also with the hash.
std::pair<double, double> look_up(uint64_t seed) {
  std::mt19937_64 rng(seed);
  BlockPool pool(kNumBlocks, kBlockSize);
  KvCacheManager manager(pool);
  struct Known {
    std::vector<int32_t> tokens;
    lesson07::BlockHashes hashes;
  };
  std::vector<Known> known;
  for (int64_t id = 0; id < kNumBlocks / kRun; ++id) {
    Known& k = known.emplace_back();
    k.tokens = random_tokens(kRun * kBlockSize, rng);
    manager.allocate_slots(id, kRun * kBlockSize);
    manager.cache_blocks(id, k.tokens, k.hashes, kRun * kBlockSize);
  }
  const int64_t blocks = static_cast<int64_t>(known.size()) * kRun;
  int64_t found = 0;
  const double lookup = nanoseconds(blocks, [&] {
    for (Known& k : known) found += manager.get_computed_blocks(k.tokens, k.hashes).num_tokens;
  });
  const double with_hash = nanoseconds(blocks, [&] {
    for (const Known& k : known) {
      lesson07::BlockHashes hashes;
      found += manager.get_computed_blocks(k.tokens, hashes).num_tokens;
    }
  });
  if (found == 0) throw std::logic_error("nothing was found");
  return {lookup, with_hash};
}

/// Tables of kRun blocks come back from the middle of the queue, and are freed again.
double revive(int num_blocks, uint64_t seed) {
  std::mt19937_64 rng(seed);
  BlockPool pool(num_blocks, kBlockSize);
  const int run = std::min(kRun, num_blocks / 8);
  std::vector<std::vector<int32_t>> tables;
  for (int i = 0; i < std::max(1, num_blocks / run); ++i)
    pool.get_new_blocks(tables.emplace_back(static_cast<size_t>(run)));
  std::ranges::shuffle(tables, rng);
  for (const auto& table : tables) pool.free_blocks(table);
  std::ranges::shuffle(tables, rng);
  tables.resize(std::min<size_t>(tables.size(), 64));
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    double seconds = 0;
    for (const auto& table : tables) {
      seconds += seconds_of([&] { pool.touch(table); });
      pool.free_blocks(table);
    }
    rounds.push_back(seconds);
  }
  return 1e9 * kv::median(rounds) / static_cast<double>(tables.size()) / run;
}

struct Decode {
  double nanoseconds = 0;  // of a request in a pass
  double allocations = 0;  // of a pass
};

/// 256 requests decode: schedule(), update(), and a token for each.
Decode decode(uint64_t seed) {
  constexpr int kRequests = 256, kPasses = 512;
  std::mt19937_64 rng(seed);
  BlockPool pool(kNumBlocks, kBlockSize);
  KvCacheManager manager(pool,
                         {.max_blocks_per_request = 1024 / kBlockSize + 2 * kPasses / kBlockSize});
  Scheduler scheduler(manager, {.max_tokens_per_pass = 1 << 20, .max_running = kRequests});
  for (int64_t id = 0; id < kRequests; ++id) {
    scheduler.submit(id, random_tokens(1 + static_cast<int>(rng() % 1024), rng), 2 * kPasses);
  }
  const auto pass = [&] {
    const std::vector<Chunk>& chunks = scheduler.schedule().chunks;
    scheduler.update(chunks);
    for (const Chunk& chunk : chunks) scheduler.add_token(chunk.id, static_cast<int32_t>(chunk.id));
  };
  for (int i = 0; i < 64; ++i) pass();  // prompts, and whatever has to grow
  std::vector<double> seconds(kPasses);
  const int64_t before = kv::num_allocations();
  for (double& each : seconds) each = seconds_of(pass);
  const auto allocations = static_cast<double>(kv::num_allocations() - before);
  return {.nanoseconds = 1e9 * kv::median(seconds) / kRequests,
          .allocations = allocations / kPasses};
}

nlohmann::json measure_books(const kv::Console& console, uint64_t seed) {
  console.print("Bookkeeping, {} blocks of {} tokens\n\n", kv::with_commas(kNumBlocks), kBlockSize);
  kv::Table table({"what", "nanoseconds", "of"});
  nlohmann::json books = nlohmann::json::array();
  const auto add = [&](const std::string& what, double ns, const std::string& of) {
    table.add({what, fmt::format("{:.1f}", ns), of});
    books.push_back({{"what", what}, {"nanoseconds", ns}, {"of", of}});
  };
  add("take and give back, nothing cached", take_and_give_back(false, seed), "block");
  add("take and give back, each evicts", take_and_give_back(true, seed), "block");
  add("hash (xxHash64)", hash_a_block(seed), "block");
  const auto [lookup, with_hash] = look_up(seed);
  add("find, all are there", lookup, "block");
  add("find, the hash included", with_hash, "block");
  for (const int blocks : {1'024, 16'384, 65'536, 1'048'576}) {
    if (kv::interrupted()) break;
    add(fmt::format("revive, {} blocks free", kv::with_commas(blocks)), revive(blocks, seed),
        "block");
  }
  const Decode d = decode(seed);
  add("decode: schedule, slots, update, token", d.nanoseconds, "request and pass");
  console.write(table.to_string());
  console.print("\nallocations of such a pass of 256 requests: {:.2f}\n", d.allocations);
  return {{"books", books}, {"allocations_per_pass", d.allocations}};
}

/// 256 requests at once, prompts and answers of 100 to 1,024 tokens that no other request has.
std::vector<kv::Request> busy_requests(int vocab_size, bool small, uint64_t seed) {
  std::mt19937_64 rng(seed);
  const int count = small ? 32 : 256;
  const int longest = small ? 128 : 1024;
  const int shortest = small ? 16 : 100;
  const auto length = [&] {
    return shortest + static_cast<int>(rng() % static_cast<uint64_t>(longest - shortest + 1));
  };
  std::vector<kv::Request> requests(static_cast<size_t>(count));
  for (kv::Request& request : requests) {
    request.prompt.resize(static_cast<size_t>(length()));
    for (int32_t& token : request.prompt) {
      token = static_cast<int32_t>(rng() % static_cast<uint64_t>(vocab_size));
    }
    request.max_tokens = length();
  }
  return requests;
}

struct Served {
  double tokens_per_second = 0;
  double decode_share = 0;  // of the time that reading takes at least, over passes of decodes
  double host_share = 0;    // of the time of these passes
  double decode_microseconds = 0, host_microseconds = 0;  // median
  int64_t decodes = 0, replays = 0;
};

lesson08::ServingEngine make_server(kv::Model& model, bool caching) {
  const bool cuda = model.device() == kv::Device::kCuda;
  return {model,
          {},
          {.scheduler = {.max_tokens_per_pass = cuda ? 8192 : 512, .max_running = 256},
           .caching = caching,
           .choose_on_device = true,
           .pad_decodes_to = cuda ? 8 : 1}};
}

/// With an empty cache. A server that has run before has captured its graphs.
Served serve_once(kv::Model& model, lesson08::ServingEngine& server,
                  const std::vector<kv::Request>& requests, double bandwidth) {
  const int64_t replays = model.graph_replays();
  server.reset_prefix_cache();
  std::vector<int64_t> bytes;  // that each pass reads at least
  std::vector<bool> is_decode;
  const int64_t token_bytes = model.config().kv_bytes_per_token(
      static_cast<int64_t>(size_of(kv::activation_dtype(model.device()))));
  const auto on_pass = [&](const Scheduler& scheduler, const lesson08::SchedulerOutput& output) {
    int64_t tokens = 0;
    bool decode = true;
    for (const Chunk& chunk : output.chunks) {
      tokens += scheduler.request(chunk.id).num_computed + chunk.num_tokens;
      decode = decode && chunk.num_tokens == 1;
    }
    bytes.push_back(model.weight_bytes() + tokens * token_bytes);
    is_decode.push_back(decode);
    return !kv::interrupted();
  };
  const auto result = server.serve(requests, {}, {}, on_pass);
  Served served;
  const auto& passes = result.generated.passes;
  double at_least = 0, seconds = 0, host = 0;
  std::vector<double> all, hosts;
  for (size_t i = 0; i < passes.size(); ++i) {
    if (!is_decode[i]) continue;
    ++served.decodes;
    if (bandwidth > 0) at_least += static_cast<double>(bytes[i]) / bandwidth;
    seconds += passes[i].seconds;
    host += result.host_seconds[i];
    all.push_back(passes[i].seconds);
    hosts.push_back(result.host_seconds[i]);
  }
  served.tokens_per_second = static_cast<double>(kv::num_generated_tokens(result.generated)) /
                             result.generated.counters.seconds;
  served.decode_share = at_least / seconds;
  served.host_share = host / seconds;
  served.decode_microseconds = 1e6 * kv::median(all);
  served.host_microseconds = 1e6 * kv::median(hosts);
  served.replays = model.graph_replays() - replays;
  return served;
}

nlohmann::json measure_serving(const kv::Console& console, const kv::BenchOptions& options) {
  kv::Model model = kv::load_model(options.model);
  const bool cuda = model.device() == kv::Device::kCuda;
  double bandwidth = 0;
#if KV_HAVE_CUDA
  if (cuda) bandwidth = kv::copy_bandwidth();
#endif
  const auto requests =
      busy_requests(model.config().vocab_size, !cuda, options.model.sampling.seed);
  console.print("\nServing {} requests at once on {}\n\n", requests.size(),
                kv::describe(model.device()));
  auto caching = make_server(model, true), plain = make_server(model, false);
  for (auto* server : {&caching, &plain}) serve_once(model, *server, requests, bandwidth);  // warm
  std::vector<double> with, without, ratios;
  Served served;
  for (int round = 0; round < 3 && !kv::interrupted(); ++round) {
    without.push_back(serve_once(model, plain, requests, bandwidth).tokens_per_second);
    served = serve_once(model, caching, requests, bandwidth);
    with.push_back(served.tokens_per_second);
    ratios.push_back(with.back() / without.back());
  }
  const double ratio = kv::median(ratios);
  console.print("tokens per second                 {:.0f}\n", kv::median(with));
  console.print(
      "without prefix caching            {:.0f}: caching without a hit changes {:+.1f} %\n",
      kv::median(without), 100 * (ratio - 1));
  console.print("passes of decodes alone           {}, median {:.0f} us; {} replayed as a graph\n",
                served.decodes, served.decode_microseconds, served.replays);
  console.print("the host's part of such a pass    median {:.0f} us; {:.1f} % of the time\n",
                served.host_microseconds, 100 * served.host_share);
  if (bandwidth > 0) {
    console.print(
        "share of the time that reading weights, K and V takes at {:.0f} GB/s: {:.1f} %\n",
        bandwidth / 1e9, 100 * served.decode_share);
  }
  return {{"tokens_per_second", kv::median(with)},
          {"without_caching", kv::median(without)},
          {"caching_ratio", ratio},
          {"decode_passes", served.decodes},
          {"graph_replays", served.replays},
          {"decode_microseconds", served.decode_microseconds},
          {"host_microseconds", served.host_microseconds},
          {"host_share", served.host_share},
          {"bandwidth", bandwidth},
          {"share_of_floor", served.decode_share},
          {"device", kv::describe(model.device())}};
}

void run(const kv::BenchOptions& options, bool serve) {
  const kv::Console console(options.model.json_file);
  nlohmann::json document = measure_books(console, options.model.sampling.seed);
  if (serve && !kv::interrupted()) document["serving"] = measure_serving(console, options);
  document["lesson"] = "08";
  kv::write_json(options.model.json_file, document);
}

}  // namespace

int main(int argc, char** argv) {
  kv::BenchOptions options;
  bool serve = false;
  kv::CommandLine command("Lesson 08: what the bookkeeping costs, and a server's busy time.");
  kv::add_bench_options(command, options);
  command.flag("--serve", serve, "also serve many requests with the model");
  return kv::run_main(command, argc, argv, [&] { run(options, serve); });
}
