#include "instruments/route/policy.h"

#include <algorithm>

namespace route {
namespace {

double of(int64_t number) { return static_cast<double>(number); }

/// The least and the most that the servers have of something.
std::pair<int64_t, int64_t> range_of(std::span<const ServerView> servers,
                                     int64_t ServerView::*number) {
  std::pair<int64_t, int64_t> range{servers.front().*number, servers.front().*number};
  for (const ServerView& one : servers) {
    range.first = std::min(range.first, one.*number);
    range.second = std::max(range.second, one.*number);
  }
  return range;
}

/// sgl-router, src/policies/cache_aware.rs. If the fleet is unbalanced, the shortest queue; else
/// the server whose tree of sent prompts has the longest match, if the match is long enough; else
/// the smallest tree. The router looks at its own trees and at no events. (Its trees are of
/// characters; here they are of blocks.)
std::vector<double> sglang(const Prompt& prompt, std::span<const ServerView> servers) {
  constexpr double kCacheThreshold = 0.3, kBalanceRel = 1.5;
  constexpr int64_t kBalanceAbs = 64;
  const auto [least, most] = range_of(servers, &ServerView::running);
  const bool unbalanced = most - least > kBalanceAbs && of(most) > kBalanceRel * of(least);
  const int64_t match = range_of(servers, &ServerView::sent_blocks).second;
  const bool matches = of(match) > kCacheThreshold * of(prompt.blocks);
  std::vector<double> costs;
  for (const ServerView& one : servers) {
    costs.push_back(of(unbalanced ? one.running : matches ? -one.sent_blocks : one.tree_blocks));
  }
  return costs;
}

/// Dynamo, lib/kv-router/src/scheduling/selector.rs, with its default weights (1 for prefill and
/// overlap, 0 for the number of requests): blocks that wait for prefill, the request's own
/// included, without those that are cached, and blocks that are held.
double dynamo(const Prompt& prompt, const ServerView& server) {
  const double blocks = of(server.waiting_tokens + prompt.tokens) / prompt.block_size;
  return std::max(0.0, blocks - of(server.cached_blocks)) + of(server.held_blocks);
}

/// llm-d's scorers, each from 0 to 1, with the weights of its sample configuration: precise-prefix
/// 2, kv-cache-utilization 1, queue 1. The highest sum wins, so the cost is its negative.
std::vector<double> llm_d(const Prompt& prompt, std::span<const ServerView> servers) {
  const auto [least, most] = range_of(servers, &ServerView::waiting);
  std::vector<double> costs;
  for (const ServerView& one : servers) {
    const double prefix = of(one.cached_blocks) / of(std::max<int64_t>(1, prompt.blocks));
    const double room = 1 - std::min(1.0, of(one.held_blocks) / of(one.pool_blocks));
    const double queue = most == least ? 1.0 : of(most - one.waiting) / of(most - least);
    costs.push_back(-(2 * prefix + room + queue));
  }
  return costs;
}

/// The time until the server has computed the tokens that wait there, and the missing ones of this
/// prompt. It loads blocks of the store if that is quicker than computing them.
double seconds(const Prompt& prompt, const ServerView& server) {
  const int64_t found = server.cached_blocks + server.store_blocks;
  const int64_t missing = std::max<int64_t>(0, prompt.tokens - found * prompt.block_size);
  const double per_block = std::min(server.store_seconds, prompt.block_size / server.rate);
  return of(server.waiting_tokens + missing) / server.rate + of(server.store_blocks) * per_block;
}

}  // namespace

const char* name_of(Policy policy) { return kPolicyNames[static_cast<size_t>(policy)]; }

std::optional<Policy> policy_of(const std::string& name) {
  const auto* const found = std::ranges::find(kPolicyNames, name);
  if (found == std::end(kPolicyNames)) return std::nullopt;
  return static_cast<Policy>(found - std::begin(kPolicyNames));
}

std::vector<double> costs(Policy policy, const Prompt& prompt,
                          std::span<const ServerView> servers) {
  if (policy == Policy::kSglang) return sglang(prompt, servers);
  if (policy == Policy::kLlmD) return llm_d(prompt, servers);
  std::vector<double> costs;
  for (const ServerView& one : servers) {
    costs.push_back(policy == Policy::kLeast     ? of(one.running)
                    : policy == Policy::kOverlap ? -of(one.cached_blocks)
                    : policy == Policy::kDynamo  ? dynamo(prompt, one)
                    : policy == Policy::kSeconds ? seconds(prompt, one)
                                                 : 0.0);
  }
  return costs;
}

size_t Chooser::choose(const Prompt& prompt, std::span<const ServerView> servers) {
  if (policy_ == Policy::kRoundRobin) return next_++ % servers.size();
  const std::vector<double> all = costs(policy_, prompt, servers);
  const double least = *std::min_element(all.begin(), all.end());
  std::vector<size_t> best;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] == least) best.push_back(i);
  }
  return best[random_() % best.size()];
}

}  // namespace route
