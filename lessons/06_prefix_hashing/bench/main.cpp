// Cost of a hit, and its gain: finding the blocks of a prompt against computing them.
//
//   lesson06_bench [--model DIR] [--device NAME] [--longest N] [--json FILE]

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "common/table.h"
#include "engine.h"
#include "programs/bench.h"
#include "programs/report.h"

namespace {

constexpr int kBlockSize = 16;

/// Seconds to hash, look up, compare, take and give back all full blocks of a prompt of num_tokens
/// tokens. One call is too short to time, so kFinds are timed together.
double find_seconds(int num_tokens) {
  constexpr int kFinds = 100;
  std::mt19937 rng(1);
  std::vector<int32_t> tokens(num_tokens);
  for (int32_t& token : tokens) token = static_cast<int32_t>(rng() % 150'000);
  lesson06::BlockPool pool(lesson06::blocks_for(num_tokens, kBlockSize), kBlockSize);
  lesson06::KvCacheManager manager(pool);
  manager.allocate_slots(0, num_tokens);
  lesson06::BlockHashes hashes;
  manager.cache_blocks(0, tokens, hashes, num_tokens);
  manager.free(0);
  const double all = kv::median_seconds([&] {
    for (int i = 0; i < kFinds; ++i) {
      lesson06::BlockHashes new_hashes;  // every request makes its own
      const lesson06::ComputedBlocks computed = manager.get_computed_blocks(tokens, new_hashes);
      manager.allocate_slots(1, 0, computed);
      manager.free(1);
    }
  });
  return all / kFinds;
}

double prefill_seconds(kv::Model& model, int num_tokens) {
  const auto engine = lesson06::make_engine(model, {.block_size = kBlockSize});
  kv::Request request = kv::request_of_length(num_tokens, 1);
  int first_token = 0;  // another one each time: nothing is found
  return kv::median_seconds([&] {
    request.prompt[0] = first_token++;
    engine->generate({&request, 1});
  });
}

void run(const kv::BenchOptions& options) {
  const kv::Console console(options.model.json_file);
  kv::Model model = kv::load_model(options.model);
  const std::string device = kv::describe(model.device());
  console.print("A prompt found, and computed, blocks of {}, on {}\n\n", kBlockSize, device);

  nlohmann::json points = nlohmann::json::array();
  kv::Table table({"prompt", "blocks found", "found in", "a block", "computed in", "times"});
  for (int length = 64; length <= options.longest && !kv::interrupted(); length *= 2) {
    const int blocks = (length - 1) / kBlockSize;  // the last token has to run
    const double find = find_seconds(length);
    const double compute = prefill_seconds(model, length);
    table.add({kv::with_commas(length), kv::with_commas(blocks),
               fmt::format("{:.2f} us", 1e6 * find), fmt::format("{:.0f} ns", 1e9 * find / blocks),
               fmt::format("{:.2f} ms", 1e3 * compute),
               kv::with_commas(std::llround(compute / find))});
    points.push_back({{"length", length},
                      {"blocks", blocks},
                      {"find_seconds", find},
                      {"prefill_seconds", compute}});
  }
  console.write(table.to_string());

  kv::write_json(options.model.json_file,
                 {{"lesson", "06"}, {"device", device}, {"points", points}});
}

}  // namespace

int main(int argc, char** argv) {
  kv::BenchOptions options;
  kv::CommandLine command("Lesson 06: time of finding a prompt's blocks, and of computing them.");
  kv::add_bench_options(command, options);
  return kv::run_main(command, argc, argv, [&] { run(options); });
}
