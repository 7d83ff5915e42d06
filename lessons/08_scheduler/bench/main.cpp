// Cost of the bookkeeping: nanoseconds of the pool, the index and the scheduler, and the number of
// their allocations. With --serve also a server's busy time (serve.h).
//
//   lesson08_bench [--model DIR] [--device NAME] [--seed N] [--serve] [--write-requests DIR]
//                  [--json FILE]

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "engine.h"
#include "lessons/06_prefix_hashing/cli/hashers.h"
#include "programs/allocations.h"
#include "serve.h"

namespace {

using lesson07::BlockPool;
using lesson08::Chunk;
using lesson08::KvCacheManager;
using lesson08::Scheduler;

constexpr int kBlockSize = 16;
constexpr int kNumBlocks = 65'536;
constexpr int kRun = 256;  // blocks of a request of 4,096 tokens

constexpr int kRounds = 15;  // the median of their times is reported

double seconds_of(const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Nanoseconds for each of the `count` operations of one call.
double nanoseconds(int64_t count, const std::function<void()>& call) {
  return 1e9 * kv::median_seconds(call, kRounds) / static_cast<double>(count);
}

std::vector<int32_t> random_tokens(int count, std::mt19937_64& rng) {
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(rng() % 151'936);
  return tokens;
}

/// Nanoseconds a block: all blocks of the pool are taken in tables of kRun, and given back.
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
      std::optional<lesson06::PrefixId> prefix;
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

/// Nanoseconds a block to look up prompts that are cached in full, in a full pool: with the hashes
/// known, and with the hashing.
std::pair<double, double> look_up(uint64_t seed) {
  std::mt19937_64 rng(seed);
  BlockPool pool(kNumBlocks, kBlockSize);
  KvCacheManager manager(pool);
  struct Known {
    std::vector<int32_t> tokens;
    lesson06::BlockHashes hashes;
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
      lesson06::BlockHashes hashes;
      found += manager.get_computed_blocks(k.tokens, hashes).num_tokens;
    }
  });
  if (found == 0) throw std::logic_error("nothing was found");
  return {lookup, with_hash};
}

/// Nanoseconds a block to take tables of kRun blocks back from the middle of the queue.
double revive(int num_blocks, uint64_t seed) {
  std::mt19937_64 rng(seed);
  BlockPool pool(num_blocks, kBlockSize);
  const int run = std::min(kRun, num_blocks / 8);
  std::vector<std::vector<int32_t>> tables;
  for (int i = 0; i < std::max(1, num_blocks / run); ++i)
    pool.get_new_blocks(tables.emplace_back(run));
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
  KvCacheManager manager(pool);
  Scheduler scheduler(manager, {.max_tokens_per_pass = 1 << 20, .max_running = kRequests});
  for (int64_t id = 0; id < kRequests; ++id) {
    scheduler.submit(id, random_tokens(1 + static_cast<int>(rng() % 1024), rng), 2 * kPasses);
  }
  const auto pass = [&] {
    const std::vector<Chunk>& chunks = scheduler.schedule().chunks;
    scheduler.update(chunks);
    for (const Chunk& chunk : chunks) scheduler.add_token(chunk.id, static_cast<int32_t>(chunk.id));
  };
  for (int i = 0; i < 64; ++i) pass();  // prefills, and containers that still grow
  std::vector<double> seconds(kPasses);
  const int64_t before = kv::num_allocations();
  for (double& each : seconds) each = seconds_of(pass);
  const auto allocations = static_cast<double>(kv::num_allocations() - before);
  return {.nanoseconds = 1e9 * kv::median(seconds) / kRequests,
          .allocations = allocations / kPasses};
}

void measure_books(kv::Lab& lab) {
  const uint64_t seed = lab.options.sampling.seed;
  lab.console.print("Bookkeeping, {} blocks of {} tokens\n\n", kv::with_commas(kNumBlocks),
                    kBlockSize);
  kv::Records books;
  const auto add = [&](const std::string& what, double ns, const std::string& of) {
    books.add({{"what", what, "what"},
               {"nanoseconds", kv::decimal(ns, 1), "nanoseconds"},
               {"of", of, "of"}});
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
  lab.report_records("books", books);
  lab.console.print("\nallocations of such a pass of 256 requests: {:.2f}\n", d.allocations);
  lab.report["allocations_per_pass"] = d.allocations;
}

}  // namespace

int main(int argc, char** argv) {
  kv::BenchOptions options;
  bool serve = false;
  std::filesystem::path requests;
  kv::CommandLine command("Lesson 08: what the bookkeeping costs, and a server's busy time.");
  kv::add_bench_options(command, options);
  command.flag("--serve", serve, "also serve many requests with the model");
  command.value("--write-requests DIR", requests,
                "with --serve: writes its requests, so that ./course load can send the same ones");
  return kv::run_bench("08", command, options.model, argc, argv, [&](kv::Lab& lab) {
    measure_books(lab);
    if (serve && !kv::interrupted()) bench::measure_serving(lab, requests);
  });
}
