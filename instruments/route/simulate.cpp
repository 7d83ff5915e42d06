#include "instruments/route/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "common/error.h"
#include "common/table.h"
#include "common/utf8.h"
#include "instruments/replay/trace/trace_file.h"
#include "instruments/route/lru_blocks.h"

namespace route {
namespace {

class SimulatedServer {
 public:
  explicit SimulatedServer(const Fleet& fleet)
      : fleet_(fleet), pool_(fleet.pool_blocks), sent_(kMaxSentBlocks) {}

  ServerView view(const TraceRequest& request) {
    const double now = request.seconds;
    std::erase_if(flights_, [&](const Flight& one) { return one.end <= now; });
    ServerView view{.cached_blocks = pool_.num_found(request.blocks),
                    .sent_blocks = sent_.num_found(request.blocks),
                    .tree_blocks = sent_.num_blocks(),
                    .pool_blocks = fleet_.pool_blocks,
                    .running = std::ssize(flights_),
                    .rate = fleet_.prefill_rate};
    view.waiting_tokens = std::llround(std::max(0.0, busy_until_ - now) * fleet_.prefill_rate);
    for (const Flight& one : flights_) {
      view.waiting += one.first_token > now;
      view.held_blocks += one.blocks;
    }
    return view;
  }

  /// Returns the time of the first token.
  double send(const TraceRequest& request, int64_t computed_tokens) {
    busy_until_ = std::max(busy_until_, request.seconds) +
                  static_cast<double>(computed_tokens) / fleet_.prefill_rate;
    const double answer = static_cast<double>(request.output_tokens) / fleet_.decode_rate;
    flights_.push_back({busy_until_, busy_until_ + answer, std::ssize(request.blocks)});
    pool_.use(request.blocks);
    sent_.use(request.blocks);
    return busy_until_;
  }

 private:
  /// SGLang's trees are cut now and then; here the oldest blocks leave them.
  static constexpr int64_t kMaxSentBlocks = 1 << 20;
  struct Flight {
    double first_token = 0, end = 0;
    int64_t blocks = 0;
  };

  Fleet fleet_;
  LruBlocks pool_, sent_;
  double busy_until_ = 0;
  std::vector<Flight> flights_;
};

}  // namespace

Trace read_trace(const std::filesystem::path& file, double speed, int block_size,
                 replay::TimeUnit unit) {
  replay::TraceReader reader(file, block_size, unit);
  replay::Batch batch;
  Trace trace{.name = kv::printable(file.filename().string()), .block_size = 0, .requests = {}};
  while (reader.next(batch)) {
    for (size_t i = 0; i < batch.ends.size(); ++i) {
      const replay::Batch::Size& size = batch.sizes[i];
      const double seconds = size.timestamp / 1000 / speed;
      const double before = trace.requests.empty() ? 0 : trace.requests.back().seconds;
      if (!(seconds >= before)) {
        kv::user_error(
            "{}, request {}: \"timestamp\" is missing, or less than the one before; wanted the "
            "milliseconds since the start",
            file.string(), trace.requests.size() + 1);
      }
      const auto blocks = batch.request(i);
      trace.requests.push_back({.seconds = seconds,
                                .input_tokens = size.input_tokens,
                                .output_tokens = size.output_tokens,
                                .blocks = {blocks.begin(), blocks.end()}});
    }
  }
  trace.block_size = reader.block_size();
  return trace;
}

double PolicyResult::hit_rate() const {
  return blocks_asked == 0 ? 0
                           : static_cast<double>(blocks_found) / static_cast<double>(blocks_asked);
}

double PolicyResult::first_token_at(double share) const {
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(first_token.size())));
  return first_token[std::clamp<size_t>(rank, 1, first_token.size()) - 1];
}

double PolicyResult::busiest() const {
  const auto sum = std::accumulate(computed.begin(), computed.end(), int64_t{0});
  return static_cast<double>(*std::max_element(computed.begin(), computed.end()) *
                             std::ssize(computed)) /
         static_cast<double>(std::max<int64_t>(1, sum));
}

PolicyResult simulate(const Trace& trace, const Fleet& fleet, Policy policy, uint64_t seed) {
  std::vector<SimulatedServer> servers;
  for (int i = 0; i < fleet.num_servers; ++i) servers.emplace_back(fleet);
  Chooser chooser(policy, seed);
  PolicyResult result{.policy = policy,
                      .first_token = {},
                      .requests = std::vector<int64_t>(servers.size()),
                      .computed = std::vector<int64_t>(servers.size())};
  std::vector<ServerView> views(servers.size());
  for (const TraceRequest& request : trace.requests) {
    const Prompt prompt{.tokens = request.input_tokens,
                        .blocks = std::ssize(request.blocks),
                        .block_size = trace.block_size};
    for (size_t i = 0; i < servers.size(); ++i) views[i] = servers[i].view(request);
    const size_t index = chooser.choose(prompt, views);
    const int64_t found = views[index].cached_blocks;
    // The last token always runs: it gives the logits.
    const int64_t computed = std::max<int64_t>(1, prompt.tokens - found * prompt.block_size);
    const double first = servers[index].send(request, computed);
    result.blocks_asked += prompt.blocks;
    result.blocks_found += found;
    result.first_token.push_back(first - request.seconds);
    ++result.requests[index];
    result.computed[index] += computed;
  }
  std::ranges::sort(result.first_token);
  return result;
}

std::string table_of(const std::vector<PolicyResult>& results) {
  kv::Table table({"policy", "hit rate", "p50", "p90", "p99", "busiest/mean"});
  for (const PolicyResult& one : results) {
    table.add(
        {name_of(one.policy),
         kv::percent(static_cast<double>(one.blocks_found), static_cast<double>(one.blocks_asked)),
         fmt::format("{:.2f}", one.first_token_at(.5)),
         fmt::format("{:.2f}", one.first_token_at(.9)),
         fmt::format("{:.2f}", one.first_token_at(.99)), fmt::format("{:.2f}", one.busiest())});
  }
  return table.to_string();
}

nlohmann::json json_of(const PolicyResult& result) {
  return {{"policy", name_of(result.policy)},
          {"hit_rate", result.hit_rate()},
          {"blocks_asked", result.blocks_asked},
          {"blocks_found", result.blocks_found},
          {"first_token_seconds",
           {{"p50", result.first_token_at(.5)},
            {"p90", result.first_token_at(.9)},
            {"p99", result.first_token_at(.99)}}},
          {"busiest_over_mean", result.busiest()},
          {"requests", result.requests},
          {"tokens_computed", result.computed}};
}

}  // namespace route
