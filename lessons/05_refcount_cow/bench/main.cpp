// Cost of another continuation of a prompt, up to its first token: a fork and its end, a private
// copy of the prompt's blocks, or the prompt computed again. Also the copy of one block that a fork
// may cause later.
//
//   lesson05_bench [--model DIR] [--device NAME] [--longest N] [--json FILE]

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "common/table.h"
#include "copy_blocks.h"
#include "engine.h"
#include "programs/bench.h"
#include "programs/report.h"

namespace {

constexpr int kBlockSize = 16;
constexpr int kRepeats = 15;

/// Seconds of a fork of a sequence of num_tokens tokens, and its end. One is too short to time, so
/// kForks are timed together.
double fork_and_free_seconds(int num_tokens) {
  constexpr int kForks = 200;
  lesson05::BlockManager manager(lesson05::blocks_for(num_tokens, kBlockSize), kBlockSize);
  const lesson05::Growth growth{.seq = manager.add_sequence(), .num_tokens = num_tokens};
  if (!manager.append({&growth, 1})) throw std::logic_error("the pool is large enough");
  const double all = kv::median_seconds([&] {
    for (int i = 0; i < kForks; ++i) manager.free_sequence(manager.fork(growth.seq));
  });
  return all / kForks;
}

/// Seconds to copy `num_blocks` blocks from the first half of a cache to its second half.
double copy_seconds(const kv::Model& model, int num_blocks) {
  lesson03::PagedKvCache cache(model.config(), model.stream(), 2 * num_blocks, kBlockSize);
  const lesson05::BlockRegions regions = lesson05::regions_of(cache, model.stream());
  std::vector<lesson05::BlockCopy> copies;
  for (int i = 0; i < num_blocks; ++i) copies.push_back({i, num_blocks + i});
  return kv::median_seconds([&] {
    lesson05::copy_blocks({.regions = &regions, .copies = copies}, model.stream());
    model.stream().synchronize();
  });
}

double prefill_seconds(kv::Model& model, int num_tokens) {
  const auto engine = lesson05::make_engine(model, {.block_size = kBlockSize});
  const kv::Request request = kv::request_of_length(num_tokens, 1);
  std::vector<double> times;
  for (int i = 0; i < kRepeats; ++i) {
    times.push_back(engine->generate({&request, 1}).passes.at(0).seconds);
  }
  return kv::median(times);
}

void run(const kv::BenchOptions& options) {
  const kv::Console console(options.model.json_file);
  kv::Model model = kv::load_model(options.model);
  const std::string device = kv::describe(model.device());
  console.print("One more continuation of a prompt, blocks of {}, on {}\n\n", kBlockSize, device);

  nlohmann::json points = nlohmann::json::array();
  kv::Table table(
      {"prompt", "blocks", "fork + free", "one block copied", "private copy", "computed again"});
  const double one_block = copy_seconds(model, 1);
  const auto us = [](double seconds) { return fmt::format("{:.2f} us", 1e6 * seconds); };
  const auto ms = [](double seconds) { return fmt::format("{:.2f} ms", 1e3 * seconds); };
  for (int length = 64; length <= options.longest && !kv::interrupted(); length *= 2) {
    const int blocks = lesson05::blocks_for(length, kBlockSize);
    const double fork = fork_and_free_seconds(length);
    const double copy = copy_seconds(model, blocks);
    const double again = prefill_seconds(model, length);
    table.add({kv::with_commas(length), kv::with_commas(blocks), us(fork), us(one_block), us(copy),
               ms(again)});
    points.push_back({{"length", length},
                      {"fork_and_free_seconds", fork},
                      {"one_block_copy_seconds", one_block},
                      {"private_copy_seconds", copy},
                      {"prefill_seconds", again}});
  }
  console.write(table.to_string());
  kv::write_json(options.model.json_file,
                 {{"lesson", "05"}, {"device", device}, {"points", points}});
}

}  // namespace

int main(int argc, char** argv) {
  kv::BenchOptions options;
  kv::CommandLine command("Lesson 05: time of a fork, of copies, and of computing a prompt again.");
  kv::add_bench_options(command, options);
  return kv::run_main(command, argc, argv, [&] { run(options); });
}
