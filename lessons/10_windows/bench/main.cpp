// Cost of groups: nanoseconds of the coordinator's bookkeeping against lesson 08's one table. Also
// microseconds of the slots of all groups against a launch for each group.
//
//   lesson10_bench [--device NAME] [--seed N] [--json FILE]

#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cli/held_blocks.h"
#include "group_slot_mapping.h"
#include "kv_cache_coordinator.h"
#include "programs/lab.h"

namespace {

using lesson10::BlockHashes;
using lesson10::BlockPool;
using lesson10::KvCacheCoordinator;
using lesson10::KvCacheGroup;

constexpr int kBlockSize = 16;
constexpr int kTokens = 32'768;
constexpr int kChunk = 512;

struct Books {
  double decode = 0;   // nanoseconds of a token: slots, what falls out, what becomes full
  double look_up = 0;  // nanoseconds of a block of a prompt that is found
  int64_t num_held = 0;
};

/// Times a prompt of kTokens, then tokens one by one, and then lookups of the prompt.
Books measure(const std::vector<KvCacheGroup>& groups, uint64_t seed) {
  constexpr int kDecodes = 4096;
  std::mt19937_64 rng(seed);
  std::vector<int32_t> tokens(kTokens + kDecodes);
  for (int32_t& token : tokens) token = static_cast<int32_t>(rng() % 151'936);
  BlockPool pool(static_cast<int>(groups.size()) * (kTokens + kDecodes) / kBlockSize, kBlockSize);
  KvCacheCoordinator manager(pool, groups, {}, kChunk);
  BlockHashes hashes;
  const auto compute = [&](int done, int more) {
    if (!manager.allocate_slots(0, more)) throw std::logic_error("the pool was made for this");
    if ((done + more) % kBlockSize < more) manager.cache_blocks(0, tokens, hashes, done + more);
  };
  for (int done = 0; done < kTokens; done += kChunk) compute(done, kChunk);
  Books books;
  books.num_held = pool.num_used();
  const auto prompt = std::span(tokens).first(kTokens);
  int64_t found = 0;
  books.look_up = 1e9 * kBlockSize / kTokens * kv::median_seconds([&] {
                    found += manager.get_computed_blocks(prompt, hashes).num_tokens;
                  });
  if (found == 0) throw std::logic_error("nothing was found");
  constexpr int kStep = kDecodes / 16;  // of the 15 rounds that are measured and the first one
  int done = kTokens;
  books.decode = 1e9 / kStep * kv::median_seconds([&] {
                   for (const int end = done + kStep; done < end; ++done) compute(done, 1);
                 });
  return books;
}

/// Microseconds of the slots of 64 decodes: all groups in one launch, and one launch for each.
std::pair<double, double> measure_slots(kv::Device device, int num_groups) {
  constexpr int kSeqs = 64, kWidth = 2048, kRepeats = 256;
  const kv::Stream stream(device);
  std::vector<int32_t> first_row, seq_len(kSeqs, kWidth * kBlockSize);
  for (int i = 0; i <= kSeqs; ++i) first_row.push_back(i);
  const auto rows = kv::to_device<int32_t>(first_row, stream);
  const auto lengths = kv::to_device<int32_t>(seq_len, stream);
  const auto tables = kv::to_device<int32_t>(
      std::vector<int32_t>(static_cast<size_t>(num_groups) * kSeqs * kWidth, 1), stream);
  const kv::DeviceBuffer slots(device, static_cast<size_t>(num_groups) * kSeqs * sizeof(int64_t));
  const auto microseconds = [&](const std::function<void()>& call) {
    return 1e6 / kRepeats * kv::median_seconds([&] {
             for (int i = 0; i < kRepeats; ++i) call();
             stream.synchronize();
           });
  };
  lesson10::GroupSlotMappingArgs args{.rows = {.first_row = rows.as<const int32_t>(),
                                               .seq_len = lengths.as<const int32_t>(),
                                               .num_seqs = kSeqs,
                                               .num_rows = kSeqs,
                                               .max_blocks_per_seq = kWidth,
                                               .block_size = kBlockSize,
                                               .slot_mapping = slots.as<int64_t>()},
                                      .num_groups = num_groups};
  for (int group = 0; group < num_groups; ++group) {
    args.block_tables[group] = tables.as<const int32_t>() + int64_t{group} * kSeqs * kWidth;
  }
  const double together = microseconds([&] { lesson10::group_slot_mapping(args, stream); });
  const double each = microseconds([&] {
    for (int group = 0; group < num_groups; ++group) {
      lesson08::compute_slot_mapping(lesson10::of_group(args, group), stream);
    }
  });
  return {together, each};
}

void run(kv::Lab& lab, const kv::BenchOptions& options) {
  const kv::KnownModel gemma = kv::known_model("Gemma 3 27B");
  const auto groups = lesson10::make_groups(lesson10::with_windows(gemma));
  lab.console.print("A sequence of {} tokens, blocks of {}\n\n", kv::with_commas(kTokens),
                    kBlockSize);
  kv::Records books;
  const auto add = [&](const std::string& name, const std::vector<KvCacheGroup>& all) {
    const Books b = measure(all, options.model.sampling.seed);
    books.add({{"groups", {name, all.size()}, "groups"},
               {"peak blocks", kv::counted(b.num_held), "blocks_held"},
               {"ns to decode a token", kv::decimal(b.decode, 0), "decode_nanoseconds"},
               {"ns to find a block", kv::decimal(b.look_up, 1), "look_up_nanoseconds"}});
  };
  add("1, as in lesson 08", {groups[0]});
  add("2, one forgets", {groups[0], groups[1]});
  add(fmt::format("{}, {}", groups.size(), gemma.name), groups);
  lab.report_records("books", books);
  const kv::Device device = lab.device();
  const auto [together, each] = measure_slots(device, static_cast<int>(groups.size()));
  lab.console.print(
      "\nslots of 64 decodes in {} groups, {}: {:.2f} us together, {:.2f} us one by one\n",
      groups.size(), kv::describe(device), together, each);
  lab.report["slots_microseconds_together"] = together;
  lab.report["slots_microseconds_one_by_one"] = each;
}

}  // namespace

int main(int argc, char** argv) {
  return kv::bench_main("10", "Lesson 10: what groups of layers cost.", argc, argv, run);
}
