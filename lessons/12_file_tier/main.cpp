// The program of lesson 12: the same texts are asked for by several starts of a server. The first
// one computes them, the others find them in the file. It shows what each start did, and that the
// bits are those of a server that computes everything again.

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <vector>

#include "common/temp_folder.h"
#include "engine.h"
#include "lessons/08_scheduler/cli/pool_sizes.h"
#include "programs/lab.h"

namespace {

using lesson12::FileMetrics;
using lesson12::FileTierEngine;

struct Options {
  kv::GenerateOptions generate;
  int starts = 3;
  lesson12::PagedOptions paged;
  lesson12::FileTierOptions tier;
};

struct Start {
  kv::ServeResult result;
  double ready = 0;  // seconds from the first request to its pass: the file is read
};

/// Runs a server that starts, serves the texts, and ends: its blocks are in the file then.
Start serve(FileTierEngine& engine, const std::vector<kv::Request>& requests) {
  const auto begin = std::chrono::steady_clock::now();
  Start start;
  start.result = engine.serve(requests, {}, {}, [&](const auto&, const auto&) {
    const std::chrono::duration<double> now = std::chrono::steady_clock::now() - begin;
    if (start.ready == 0) start.ready = now.count();
    return !kv::interrupted();
  });
  return start;
}

int64_t num_damaged(const FileMetrics& file) {
  return file.num_damaged_in_file + file.num_damaged_to_host + file.num_damaged_in_host +
         file.num_damaged_to_device;
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

void run(kv::Lab& lab, Options& options) {
  const auto requests = lab.requests();
  auto& [block_size, num_blocks, _] = options.paged;
  if (num_blocks == 0) num_blocks = 2 * lesson08::max_blocks_of_one(requests, block_size);
  std::optional<kv::TempFolder> folder;  // removed with its content at the end
  if (options.tier.file.empty()) options.tier.file = folder.emplace().path() / "kv.blocks";
  lab.title("Lesson 12, a file that survives");
  lab.console.print("{} in blocks of {}: {} on the device\n\n",
                    kv::count_of(std::ssize(requests), "text"), block_size,
                    kv::count_of(num_blocks, "block"));
  const uint64_t wanted = kv::combined_digest(
      lesson08::ServingEngine(lab.model(), options.paged).generate(requests).completions);
  kv::Records starts;
  bool same = true;
  for (int number = 1; number <= options.starts && !kv::interrupted(); ++number) {
    FileTierEngine engine(lab.model(), options.paged, {}, options.tier);
    const Start start = serve(engine, requests);
    if (kv::interrupted()) break;
    const FileMetrics& file = engine.server()->metrics();
    const auto& [completions, counters, passes] = start.result.generated;
    const uint64_t digest = kv::combined_digest(completions);
    const double first_token = kv::mean_first_token(start.result);
    same = same && digest == wanted;
    starts.add({{"start", number},
                {"restored", kv::counted(file.num_restored), "restored_blocks"},
                {"found", kv::counted(counters.named("cache_hit_tokens")), "found_tokens"},
                {"rows computed", kv::counted(counters.kv_rows_computed), "computed_tokens"},
                {"damaged", kv::counted(num_damaged(file)), "damaged_blocks"},
                {"file read", kv::ms(start.ready, 1)},
                {"first token", kv::ms(first_token, 1), "seconds_to_first_token"}});
    starts.note("not_written_blocks", file.num_not_saved);
    starts.note("digest", kv::hex64(digest));
    print_failures(lab.console, file);
  }
  lab.report_records("starts", starts);
  lab.require_same_bits(same, "the bits differ: a block came back changed");
  lab.report["interrupted"] = kv::interrupted();
  if (starts.json().empty()) return;
  lab.console.print("\nthe bits of a server without a file   yes  {}\n", kv::hex64(wanted));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.generate.max_tokens = 32;
  options.generate.prompts = kv::six_texts();
  kv::CommandLine command("Lesson 12: a server that starts again finds its cache in a file.");
  kv::add_generate_options(command, options.generate);
  command.value("--starts N", options.starts, "how often the server starts").between(1, 1000);
  kv::add_pool_options(command, options.paged.block_size, options.paged.num_blocks,
                       "blocks on the device; 0: twice those of the longest text");
  command
      .value("--host-blocks N", options.tier.host.host_blocks,
             "blocks in the host's memory and in the file; 0: four times those of the device, and "
             "at least as many as the file has")
      .between(0, 1 << 28);
  command.value("--file FILE", options.tier.file,
                "the file; without it a temporary one, gone when the program ends");
  return kv::run_lesson("12", command, options.generate, argc, argv,
                        [&](kv::Lab& lab) { run(lab, options); });
}
