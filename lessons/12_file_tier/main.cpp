// The program of lesson 12: the same texts are asked for by several starts of a server. The first
// one computes them, the others find them in the file. It shows what each start did, and that the
// bits are those of a server that computes everything again.

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/table.h"
#include "common/temp_folder.h"
#include "engine.h"
#include "lessons/08_scheduler/cli/pool_sizes.h"
#include "programs/generate.h"
#include "programs/report.h"

namespace {

using lesson12::FileMetrics;
using lesson12::FileTierEngine;

struct Options {
  kv::GenerateOptions generate;
  int starts = 3;
  int block_size = 16;
  int num_blocks = 0;
  lesson12::FileTierOptions tier;
};

struct Start {
  FileMetrics file;
  int64_t found = 0;     // tokens
  int64_t computed = 0;  // rows
  double ready = 0;      // seconds from the first request to its pass: the file is read
  double first_token = 0;
  uint64_t digest = 0;
};

/// Runs a server that starts, serves the texts, and ends: its blocks are in the file then.
Start serve(FileTierEngine& engine, const std::vector<kv::Request>& requests) {
  const auto begin = std::chrono::steady_clock::now();
  Start start;
  const auto result = engine.serve(requests, {}, {}, [&](const auto&, const auto&) {
    const std::chrono::duration<double> now = std::chrono::steady_clock::now() - begin;
    if (start.ready == 0) start.ready = now.count();
    return !kv::interrupted();
  });
  for (size_t i = 0; i < requests.size(); ++i) {
    start.first_token += result.times[i].first_token / static_cast<double>(requests.size());
  }
  const kv::EngineCounters& counters = result.generated.counters;
  start.file = engine.server()->metrics();
  start.found = counters.named("cache_hit_tokens");
  start.computed = counters.kv_rows_computed;
  start.digest = kv::combined_digest(result.generated.completions);
  return start;
}

int64_t num_damaged(const FileMetrics& file) {
  return file.num_damaged_in_file + file.num_damaged_to_host + file.num_damaged_in_host +
         file.num_damaged_to_device;
}

nlohmann::json json_of(const Start& start) {
  return {{"restored_blocks", start.file.num_restored},
          {"damaged_blocks", num_damaged(start.file)},
          {"not_written_blocks", start.file.num_not_saved},
          {"found_tokens", start.found},
          {"computed_tokens", start.computed},
          {"seconds_to_first_token", start.first_token},
          {"digest", kv::hex64(start.digest)}};
}

void print_failures(const kv::Console& console, const FileMetrics& file) {
  if (file.num_not_saved > 0) {
    console.print("not written to the file: {}; free the disk, or give another --file\n",
                  kv::count_of(file.num_not_saved, "block"));
  }
  const auto tell = [&](int64_t count, const char* where) {
    if (count > 0) console.print("damaged {}: {}\n", where, kv::count_of(count, "block"));
  };
  tell(file.num_damaged_in_file, "in the file");
  tell(file.num_damaged_to_host, "on the way to the host");
  tell(file.num_damaged_in_host, "in the host's memory");
  tell(file.num_damaged_to_device, "on the way to the device");
}

void run(Options& options) {
  const kv::GenerateOptions& generate = options.generate;
  const kv::Console console(generate.json_file);
  kv::Model model = kv::load_model(generate);
  const auto tokenizer = kv::Tokenizer::load(generate.model_dir);
  const auto requests = kv::make_requests(generate, tokenizer, model.config());
  if (options.num_blocks == 0) {
    options.num_blocks = 2 * lesson08::max_blocks_of_one(requests, options.block_size);
  }
  std::optional<kv::TempFolder> folder;  // removed with its content at the end
  if (options.tier.file.empty()) options.tier.file = folder.emplace().path() / "kv.blocks";
  const lesson12::PagedOptions paged{.block_size = options.block_size,
                                     .num_blocks = options.num_blocks};
  console.print(
      "Lesson 12, a file that survives, on {}\n\n{} in blocks of {}: {} on the device\n\n",
      kv::describe(model.device()), kv::count_of(std::ssize(requests), "text"), options.block_size,
      kv::count_of(options.num_blocks, "block"));
  const uint64_t wanted =
      kv::combined_digest(lesson08::ServingEngine(model, paged).generate(requests).completions);
  kv::Table table(
      {"start", "restored", "found", "rows computed", "damaged", "file read", "first token"});
  nlohmann::json starts = nlohmann::json::array();
  bool same = true;
  for (int number = 1; number <= options.starts && !kv::interrupted(); ++number) {
    FileTierEngine engine(model, paged, {}, options.tier);
    const Start start = serve(engine, requests);
    if (kv::interrupted()) break;
    same = same && start.digest == wanted;
    const auto ms = [](double seconds) { return fmt::format("{:.1f} ms", 1e3 * seconds); };
    table.add({std::to_string(number), kv::with_commas(start.file.num_restored),
               kv::with_commas(start.found), kv::with_commas(start.computed),
               kv::with_commas(num_damaged(start.file)), ms(start.ready), ms(start.first_token)});
    starts.push_back(json_of(start));
    print_failures(console, start.file);
  }
  console.write(table.to_string());
  if (!same) throw std::logic_error("the bits differ: a block came back changed");
  if (!starts.empty()) {
    console.print("\nthe bits of a server without a file   yes  {}\n", kv::hex64(wanted));
  }
  kv::write_json(generate.json_file, {{"lesson", "12"},
                                      {"device", kv::name_of(model.device())},
                                      {"starts", starts},
                                      {"same_bits", same},
                                      {"interrupted", kv::interrupted()}});
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.generate.max_tokens = 32;
  options.generate.prompts = kv::six_texts();
  kv::CommandLine command("Lesson 12: a server that starts again finds its cache in a file.");
  kv::add_generate_options(command, options.generate);
  command.value("--starts N", options.starts, "how often the server starts").between(1, 1000);
  kv::add_pool_options(command, options.block_size, options.num_blocks,
                       "blocks on the device; 0: twice those of the longest text");
  command
      .value("--host-blocks N", options.tier.host.host_blocks,
             "blocks in the host's memory and in the file; 0: four times those of the device, and "
             "at least as many as the file has")
      .between(0, 1 << 28);
  command.value("--file FILE", options.tier.file,
                "the file; without it a temporary one, gone when the program ends");
  return kv::run_main(command, argc, argv, [&] { run(options); });
}
