// The speed of a store, by size of a block and values in a trip; what loading costs against
// computing; and a prefill whose blocks go to the host layer by layer, or whole at its end.
//
//   lesson13_bench [--device NAME] [--model DIR] [--longest TOKENS] [--json FILE]

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <vector>

#include "cli/memory_store.h"
#include "cli/redis_server.h"
#include "engine.h"
#include "lessons/12_file_tier/checksum_blocks.h"
#include "programs/lab.h"

namespace {

using namespace lesson13;

constexpr int kBlockSize = 16, kRepeats = 5;

/// Blocks that are put, and blocks that are fetched and checked, in trips of `depth` values.
struct Speed {
  double put = 0, get = 0;  // GB/s
};
Speed measure(BlockStore& store, size_t bytes, size_t depth) {
  const size_t count = std::max(depth, (size_t{64} << 20) / bytes);
  const ValueFormat format{.fingerprint = 1, .bytes_per_block = bytes};
  std::vector<std::byte> content(bytes, std::byte{0x5A});
  const uint64_t checksum = lesson12::checksum_of(content);
  const std::vector<int32_t> tokens(kBlockSize);
  std::vector<BlockName> names;
  for (size_t i = 0; i < count; ++i) {
    names.push_back(name_of(names.empty() ? root_name(bytes) : names.back(), tokens));
  }
  const double put = kv::median_seconds(
      [&] {
        for (const BlockName& name : names) {
          store.put(name, format.encode(name, tokens, checksum, content));
        }
      },
      kRepeats);
  size_t whole = 0;
  const double get = kv::median_seconds(
      [&] {
        whole = 0;
        for (size_t at = 0; at < count; at += depth) {
          const auto some = std::span(names).subspan(at, std::min(depth, count - at));
          store.get(some, [&](size_t i, std::string_view value) {
            whole += format.decode(value, some[i], tokens, content).has_value();
          });
        }
      },
      kRepeats);
  if (whole != count)
    throw std::runtime_error(fmt::format("the store has {} of {} blocks of {} bytes, {} in a trip",
                                         whole, count, bytes, depth));
  const double all = 1e-9 * static_cast<double>(bytes * count);
  return {all / put, all / get};
}

void measure_stores(kv::Lab& lab) {
  lab.title("Blocks in a store");
  kv::Records rows;
  const auto add = [&](const char* name, BlockStore& store) {
    for (const size_t kib : {64, 448, 1792}) {
      // One value in a trip, and what a server asks for at once.
      for (const size_t depth : {size_t{1}, std::max((size_t{4} << 10) / kib, size_t{2})}) {
        const Speed speed = measure(store, kib << 10, depth);
        rows.add({{"store", name, "store"},
                  {"block", kv::memory(static_cast<int64_t>(kib << 10)), "bytes"},
                  {"in a trip", depth, "depth"},
                  {"put GB/s", kv::decimal(speed.put, 2), "put_gb_per_second"},
                  {"get GB/s", kv::decimal(speed.get, 2), "get_gb_per_second"}});
      }
    }
  };
  MemoryStore memory;
  add("memory", memory);
  if (RedisServer::is_installed()) {
    constexpr int kPort = 26379;
    const RedisServer server(kPort, {"--bind", "127.0.0.1"});
    add("Redis, a socket", *make_redis_store(server.address()));
    add("Redis, loopback", *make_redis_store({.host = "127.0.0.1", .port = kPort, .password = ""}));
  }
  lab.report_records("stores", rows);
}

/// Seconds from the start of a prefill until its blocks are in the host.
double prefill_seconds(kv::Model& model, int num_tokens, bool by_layer) {
  const int num_blocks = num_tokens / kBlockSize;
  PagedKvCache cache(model.config(), model.stream(), num_blocks + 1, kBlockSize);
  const lesson13::BlockRegions regions = lesson05::regions_of(cache, model.stream());
  const HostBlocks memory(cache.bytes_per_block(), model.device(), 2 * num_blocks + 2);
  MemoryStore store(0);  // keeps nothing
  const std::vector<int32_t> tokens = kv::request_of_length(num_tokens, 1).prompt;
  lesson08::ServingAttention serving(model.config(), cache);
  kv::TokenChooser chooser(model, true);
  std::vector<double> seconds;
  for (int i = 0; i <= kRepeats; ++i) {
    SharedTier tier(regions, memory, store, 1, model.stream(), {}, {}, kv::RunJobs::kAtOnce);
    GatheringAttention gathering(model.config(), cache, tier);
    HostTierManager& manager = tier.manager();
    tier.add(1, tokens, {}, false);
    manager.allocate_slots(1, num_tokens);
    kv::PassRows rows;
    rows.add(1, tokens, 0);
    gathering.set_tables({&manager.table(1)});
    serving.set_tables({&manager.table(1)});
    const auto begin = std::chrono::steady_clock::now();
    tier.begin_pass();
    tier.add_chunk(1, tokens, 0, num_tokens);
    by_layer ? chooser.run(rows, gathering) : chooser.run(rows, serving);
    lesson06::BlockHashes hashes;
    manager.cache_blocks(1, tokens, hashes, num_tokens);
    tier.end_pass();
    tier.wait_for_copies();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    if (i > 0) seconds.push_back(time.count());  // the first one warms up
    manager.free(1);
  }  // what the store gets is put here
  return kv::median(seconds);
}

void measure_prefill(kv::Lab& lab, int longest) {
  kv::Model& model = lab.model();
  lab.console.print("\nA prefill, and its blocks in the host\n\n");
  const auto ms = [](double seconds) { return kv::scaled(seconds, 1e3, 2); };
  kv::Records rows;
  for (int tokens = std::min(longest, 256); tokens <= longest; tokens *= 2) {
    lesson08::ServeOptions serve{.scheduler = {.max_tokens_per_pass = tokens}};
    serve.choose_on_device = true;
    lesson08::ServingEngine engine(model, {.block_size = kBlockSize}, serve);
    const std::vector<kv::Request> requests{kv::request_of_length(tokens, 1)};
    const double alone = kv::median_seconds(
        [&] {
          engine.reset_prefix_cache();
          engine.generate(requests);
        },
        kRepeats);
    const double by_layer = prefill_seconds(model, tokens, true);
    const double whole = prefill_seconds(model, tokens, false);
    rows.add({{"tokens", kv::counted(tokens), "tokens"},
              {"prefill ms", ms(alone), "seconds"},
              {"and blocks by layer", ms(by_layer), "by_layer_seconds"},
              {"and whole blocks", ms(whole), "whole_seconds"}});
  }
  lab.report_records("prefill", rows);
}

void run(kv::Lab& lab, const kv::BenchOptions& options) {
  measure_stores(lab);
  measure_prefill(lab, options.longest);
}

}  // namespace

int main(int argc, char** argv) {
  return kv::bench_main("13", "Lesson 13: a store's speed, and a prefill that sends its blocks.",
                        argc, argv, run);
}
