#pragma once

// The pieces of a server: its options, and what a step is made of. That is the rows of a pass,
// their block tables, and the delivery of the new tokens to their requests.

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>

#include "lessons/03_paged_blocks/engine.h"
#include "qwen3/generation.h"
#include "qwen3/server.h"
#include "qwen3/token_chooser.h"
#include "scheduler.h"

namespace lesson08 {

using kv::StepOutput;
using kv::TokenChooser;
using lesson03::PagedOptions;

struct ServeOptions {
  SchedulerOptions scheduler{};
  lesson07::FreeOrder free_order = lesson07::FreeOrder::kAppend;
  lesson06::BlockHasher hasher = {};
  bool caching = true;
  lesson07::EventSink on_cache_event = {};  // also told when a larger, empty pool takes over
  /// Greedy requests only: the device finds the largest logit, and no logits come to the host.
  bool choose_on_device = false;
  /// A pass of decodes is padded to a multiple of this number of rows, so that a CUDA graph
  /// captured at that size can be replayed.
  int pad_decodes_to = 1;
};
/// Returns `serve` if both are valid, and throws UserError if not.
const ServeOptions& checked(const PagedOptions& options, const ServeOptions& serve);
/// The order to use: kAppend without caching, when no block is worth more than another one.
inline lesson07::FreeOrder free_order(const ServeOptions& serve) {
  return serve.caching ? serve.free_order : lesson07::FreeOrder::kAppend;
}
/// For ServerEngine, when a new pool takes the place of another: `sink`, if there is one, gets
/// kCleared.
inline auto on_new_pool(lesson07::EventSink sink) {
  return [sink = std::move(sink)] {
    if (sink) sink({.kind = lesson07::CacheEvent::Kind::kCleared});
  };
}

/// Called after a pass is composed and before it runs. Must change nothing.
template <class Scheduler>
using PassObserver = std::function<void(const Scheduler&, const SchedulerOutput&)>;

/// Adds the rows of a chunk. A chunk that ends before the last known token needs no logits.
void add_rows(const ScheduledRequest& request, const Chunk& chunk, kv::PassRows& rows);

/// Pads a pass of decodes to a multiple of `multiple` rows. Any other pass stays as it is.
void pad_decodes(kv::PassRows& rows, int multiple);

/// The token stream of each of a server's requests, by id.
using TokenStreams = std::unordered_map<int64_t, kv::TokenStream>;

/// Gives each request of the pass its next tokens, one for each of its rows of logits, until the
/// request ends. A request that ends leaves the scheduler and the streams.
template <class Scheduler>
StepOutput deliver(const kv::PassRows& rows, const SchedulerOutput& pass,
                   const TokenChooser& chooser, Scheduler& scheduler, TokenStreams& streams) {
  StepOutput output{.preempted = pass.preempted, .num_rows = rows.num_rows() - rows.num_padding};
  for (size_t row = 0; row < rows.requests.size(); ++row) {
    const auto id = static_cast<int64_t>(rows.requests[row]);
    const auto found = streams.find(id);
    if (found == streams.end() || !scheduler.wants_token(id)) continue;
    const int32_t token = chooser.choose(rows, row, found->second);
    const auto reason = found->second.add(token);
    output.tokens.push_back({id, token, found->second.logits_xxh64(), found->second.logprobs()});
    if (!reason) {
      scheduler.add_token(id, token);
      continue;
    }
    output.ended.push_back({id, *reason});
    scheduler.finish(id);
    streams.erase(found);
  }
  return output;
}

}  // namespace lesson08
