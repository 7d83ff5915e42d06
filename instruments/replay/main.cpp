// A trace of a real server, played on pools of several sizes under several policies.
//
//   replay conversation_trace.jsonl --pool-blocks 1000,10000 --plot hit_rate.svg
//   replay --generate 10000 --seed 3 > trace.jsonl

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <set>

#include "common/error.h"
#include "common/parallel.h"
#include "common/table.h"
#include "common/utf8.h"
#include "instruments/replay/caches.h"
#include "instruments/replay/plot.h"
#include "programs/options.h"
#include "programs/report.h"
#include "programs/run_main.h"

namespace {

using namespace replay;

std::string all_victims() { return fmt::format("{}", fmt::join(kVictimNames, ",")); }

struct Options {
  std::filesystem::path trace;
  std::string pool_blocks = "64,256,1024,4096,16384,65536";
  std::string policies = all_victims();
  std::optional<int> block_size, generate;
  uint64_t seed = 0;
  std::string json_file, plot_file;
};

/// One pool size under one policy.
struct Run {
  Victim victim = Victim::kLru;
  std::unique_ptr<Cache> cache;
  double seconds = 0;
};

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::vector<int> pools_of(const std::string& list) {
  constexpr int kMax = 1 << 28;
  std::set<int> pools;
  for (const std::string& part : parts_of(list)) {
    int blocks = 0;
    const char* const end = part.data() + part.size();
    const auto [stop, error] = std::from_chars(part.data(), end, blocks);
    if (error != std::errc() || stop != end || blocks < 1 || blocks > kMax) {
      kv::user_error(
          "--pool-blocks {}: '{}' is no number of blocks, wanted 1 to {}, as in 1000,2000", list,
          part, kMax);
    }
    pools.insert(blocks);
  }
  return {pools.begin(), pools.end()};
}

std::vector<Victim> victims_of(const std::string& list) {
  std::vector<Victim> victims;
  for (const std::string& part : parts_of(list)) {
    const auto* const found = std::find(std::begin(kVictimNames), std::end(kVictimNames), part);
    if (found == std::end(kVictimNames)) {
      kv::user_error("--policy {}: '{}' is unknown, wanted some of {}", list, part, all_victims());
    }
    const auto victim = static_cast<Victim>(found - std::begin(kVictimNames));
    if (std::find(victims.begin(), victims.end(), victim) == victims.end())
      victims.push_back(victim);
  }
  return victims;
}

const char* name_of(Victim victim) { return kVictimNames[static_cast<size_t>(victim)]; }

void play(const Batch& batch, Run& run) {
  const auto begin = std::chrono::steady_clock::now();
  for (size_t i = 0; i < batch.ends.size(); ++i) run.cache->run(batch.request(i));
  run.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Reads the trace once, or twice if a policy has to know what comes.
class Replay {
 public:
  explicit Replay(const Options& options)
      : options_(options),
        pools_(pools_of(options.pool_blocks)),
        victims_(victims_of(options.policies)) {}

  bool run() {
    if (looks_ahead() && !look_ahead()) return false;
    for (const int blocks : pools_) {
      for (const Victim victim : victims_) {
        runs_.push_back({.victim = victim, .cache = made(victim, blocks)});
      }
    }
    kv::ProgressLine progress("playing the trace");
    TraceReader reader(options_.trace, options_.block_size.value_or(0));
    Batch batch;
    while (reader.next(batch)) {
      kv::parallel_for(std::ssize(runs_), 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) play(batch, runs_[static_cast<size_t>(i)]);
      });
      progress.show(reader.bytes_read(), reader.bytes());
      if (kv::interrupted()) return false;
    }
    requests_ = reader.num_requests();
    tokens_ = reader.num_tokens();
    block_size_ = reader.block_size();
    return true;
  }

  void print(const kv::Console& console) const;
  nlohmann::json json() const;
  std::string svg() const;

 private:
  bool looks_ahead() const {
    return std::find(victims_.begin(), victims_.end(), Victim::kOptimal) != victims_.end();
  }

  std::unique_ptr<Cache> made(Victim victim, int blocks) const {
    try {
      return make_cache(victim, blocks, options_.seed, &next_);
    } catch (const std::bad_alloc&) {
      kv::user_error(
          "--pool-blocks {}: no memory for the bookkeeping of these blocks; wanted a "
          "smaller pool, or fewer policies at once",
          blocks);
    }
  }

  bool look_ahead() {
    TraceReader reader(options_.trace, options_.block_size.value_or(0));
    std::error_code error;
    if (!std::filesystem::is_regular_file(options_.trace, error)) {
      kv::user_error(
          "{}: not a regular file, and the policy optimal reads it twice; wanted a file, "
          "or --policy without optimal",
          options_.trace.string());
    }
    kv::ProgressLine progress("looking ahead");
    next_.make(reader, [&](const TraceReader& trace) {
      progress.show(trace.bytes_read(), trace.bytes());
      return !kv::interrupted();
    });
    return !kv::interrupted();
  }

  /// Pools in rows, policies in columns.
  const Run& at(size_t pool, size_t victim) const { return runs_[pool * victims_.size() + victim]; }
  int64_t num_blocks() const { return runs_.front().cache->counts().asked; }

  Options options_;
  std::vector<int> pools_;
  std::vector<Victim> victims_;
  NextUses next_;
  std::vector<Run> runs_;
  int64_t requests_ = 0, tokens_ = 0;
  int block_size_ = 0;
};

void Replay::print(const kv::Console& console) const {
  console.print("{}: {}, {} input tokens, {} of {}\n",
                kv::printable(options_.trace.filename().string()),
                kv::count_of(requests_, "request"), kv::with_commas(tokens_),
                kv::count_of(num_blocks(), "full block"), block_size_);
  if (looks_ahead()) {
    console.print("{} of these blocks were there before: no pool can find more\n",
                  kv::percent(static_cast<double>(next_.num_uses() - next_.num_different()),
                              static_cast<double>(next_.num_uses())));
  }
  std::vector<std::string> header{"pool", "tokens"};
  for (const Victim victim : victims_) header.emplace_back(name_of(victim));
  kv::Table table(header);
  for (size_t p = 0; p < pools_.size(); ++p) {
    std::vector<std::string> row{kv::count_of(pools_[p], "block"),
                                 kv::with_commas(int64_t{pools_[p]} * block_size_)};
    for (size_t v = 0; v < victims_.size(); ++v) {
      const Counts& counts = at(p, v).cache->counts();
      row.push_back(
          kv::percent(static_cast<double>(counts.found), static_cast<double>(counts.asked)));
    }
    table.add(row);
  }
  console.print("Share of the full blocks found:\n\n");
  console.write(table.to_string());
  for (size_t p = 0; p < pools_.size(); ++p) {
    if (const int64_t too_long = at(p, 0).cache->counts().too_long; too_long > 0) {
      console.print(
          "\n{} more full blocks than the smallest pool: there the first ones alone ran.\n",
          too_long == 1 ? "1 request has" : kv::with_commas(too_long) + " requests have");
      break;
    }
  }
}

nlohmann::json Replay::json() const {
  nlohmann::json rows = nlohmann::json::array();
  for (const Run& run : runs_) {
    const Counts& counts = run.cache->counts();
    rows.push_back({{"pool_blocks", run.cache->num_blocks()},
                    {"policy", name_of(run.victim)},
                    {"hit_rate", counts.hit_rate()},
                    {"blocks_found", counts.found},
                    {"blocks_evicted", counts.evicted},
                    {"requests_longer_than_the_pool", counts.too_long},
                    {"block_operations", counts.operations},
                    {"seconds", run.seconds}});
  }
  nlohmann::json document{{"trace", options_.trace.string()}, {"requests", requests_},
                          {"input_tokens", tokens_},          {"block_size", block_size_},
                          {"full_blocks", num_blocks()},      {"runs", rows}};
  if (looks_ahead()) document["different_blocks"] = next_.num_different();
  return document;
}

std::string Replay::svg() const {
  std::vector<Line> lines;
  for (size_t v = 0; v < victims_.size(); ++v) {
    Line line{.name = name_of(victims_[v]), .hit_rates = {}};
    for (size_t p = 0; p < pools_.size(); ++p) {
      line.hit_rates.push_back(at(p, v).cache->counts().hit_rate());
    }
    lines.push_back(std::move(line));
  }
  return plot(fmt::format("{}: {}, blocks of {}", options_.trace.filename().string(),
                          kv::count_of(requests_, "request"), block_size_),
              pools_, lines);
}

void run(const Options& options) {
  if (options.generate) {
    if (!options.trace.empty()) {
      kv::user_error(
          "--generate: found {}, wanted no trace, as it plays none; leave one of them out",
          options.trace.string());
    }
    generate_trace(kv::Console(), *options.generate, options.seed,
                   options.block_size.value_or(kMooncakeBlockSize));
    return;
  }
  if (options.trace.empty()) {
    kv::user_error(
        "replay: no trace is given; wanted the name of a file, or --generate N to make one");
  }
  kv::refuse_same_file("--json", options.json_file, options.trace.string());
  kv::refuse_same_file("--plot", options.plot_file, options.trace.string());
  kv::refuse_same_file("--plot", options.plot_file, options.json_file);
  Replay replay(options);
  if (!replay.run()) return;  // Ctrl-C: nothing is written
  replay.print(kv::Console(options.json_file));
  kv::write_json(options.json_file, replay.json());
  if (!options.plot_file.empty()) kv::write_text(options.plot_file, replay.svg());
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  kv::CommandLine command(
      "Hit rate against pool size on a trace in Mooncake's format, plain or packed with gzip: a "
      "JSON object on each line with timestamp, input_length, output_length, hash_ids and perhaps "
      "block_size. One request runs after the other; its hit is the longest run of its first full "
      "blocks that the pool has. Answers take no blocks, as the format gives them none. The trace "
      "is read in pieces, so it may be larger than memory. optimal is Belady's rule, which no "
      "policy beats: it reads the trace twice, and keeps 8 bytes for each full block in a file in "
      "TMPDIR, and up to 64 for each different one in memory.");
  command.value("trace FILE", options.trace, "the trace");
  command.value("--pool-blocks LIST", options.pool_blocks,
                "blocks in the pool, one number or several");
  command.value("--policy LIST", options.policies,
                "which block is evicted when room is needed: " + options.policies);
  command
      .value("--block-size N", options.block_size,
             "tokens of a block; by default what the lines say, or else 512")
      .between(1, 1 << 20);
  command.value("--seed N", options.seed, "of random victims, and of --generate")
      .between(0, std::numeric_limits<int64_t>::max());
  command
      .value("--generate N", options.generate,
             "prints a made-up trace of N requests in this format, and plays nothing")
      .between(1, 1 << 30)
      .excludes("--pool-blocks")
      .excludes("--policy");
  command.json_file(options.json_file, "the numbers").excludes("--generate");
  command.value("--plot FILE", options.plot_file, "draw the hit rates as an SVG")
      .output_file()
      .excludes("--generate");
  return kv::run_main(command, argc, argv, [&] { run(options); });
}
