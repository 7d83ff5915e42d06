#pragma once

// The pieces of a server's step: the rows of a pass, their tables, the tokens that they give, and
// which request gets which.

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/device.h"
#include "lessons/03_paged_blocks/block_table.h"
#include "qwen3/generation.h"
#include "qwen3/model.h"
#include "scheduler.h"

namespace lesson08 {

/// A token that a request got.
struct NewToken {
  int64_t id = 0;
  int32_t token = 0;
  uint64_t logits_xxh64 = 0;  // digest of all logits that the request's tokens were drawn from
};
struct Ended {
  int64_t id = 0;
  kv::FinishReason reason = kv::FinishReason::kLength;
};

/// What one step did. A step without rows ran no pass: the server is idle, or all running requests
/// were preempted.
struct StepOutput {
  std::vector<NewToken> tokens = {};  // in the order of the pass
  std::vector<Ended> ended = {};      // requests whose last token is among `tokens`; the server has
                                      // forgotten them
  std::vector<int64_t> preempted = {};
  int num_rows = 0;  // rows that ran, without padding
};

/// Called when a pass is composed, before it runs. It must change nothing.
template <class Scheduler>
using PassObserver = std::function<void(const Scheduler&, const SchedulerOutput&)>;

/// Adds the rows of a chunk. One that ends before the last known token wants no logits.
void add_rows(const ScheduledRequest& request, const Chunk& chunk, kv::PassRows& rows);

/// Pads a pass of decodes to a multiple of `multiple` rows. Any other pass stays as it is.
void pad_decodes(kv::PassRows& rows, int multiple);

/// The block tables of a pass of num_seqs sequences: those of the chunks, and `padding` for the
/// sequences after them.
template <class Manager>
lesson03::BlockTables tables_of(const Manager& manager, std::span<const Chunk> chunks, int num_seqs,
                                const lesson03::BlockTable& padding) {
  lesson03::BlockTables tables;
  for (const Chunk& chunk : chunks) tables.push_back(&manager.table(chunk.id));
  tables.resize(static_cast<size_t>(num_seqs), &padding);
  return tables;
}

/// Runs a pass and chooses a token from each row of its logits: the host from the request's draws,
/// or the device the largest logit.
class TokenChooser {
 public:
  /// Borrows the model.
  TokenChooser(kv::Model& model, bool on_device) : model_(&model), on_device_(on_device) {}
  bool on_device() const { return on_device_; }
  /// Throws UserError for a request that the device cannot choose tokens for.
  void check(int64_t id, const kv::Request& request) const;

  /// A pass: launch(), then fetch().
  void run(const kv::PassRows& rows, kv::Attention& attention) {
    launch(rows, attention);
    fetch();
  }
  void launch(const kv::PassRows& rows, kv::Attention& attention);
  void fetch();

  /// The token chosen from a row of logits. `stream` is that of the row's request. Throws
  /// std::logic_error if the device has struck the token out (-1).
  int32_t choose(const kv::PassRows& rows, size_t logit_row, kv::TokenStream& stream) const;

  // With on_device:
  int32_t* device_chosen() { return device_chosen_.as<int32_t>(); }  // [logit rows], until fetch()
  std::span<const int32_t> chosen() const { return chosen_; }        // [logit rows], after it
  /// What the host did while the device had nothing to do, from the last fetch() to the end of the
  /// last launch().
  double host_seconds() const { return host_seconds_.count(); }

 private:
  using Clock = std::chrono::steady_clock;
  kv::Model* model_;
  bool on_device_;
  std::span<const float> logits_;   // [logit rows, vocab_size]
  kv::DeviceBuffer device_chosen_;  // int32 [logit rows]
  std::vector<int32_t> chosen_;     // [logit rows]
  Clock::time_point device_done_ = Clock::now();
  std::chrono::duration<double> host_seconds_{0};
};

/// What a server knows of its requests besides the scheduler.
using TokenStreams = std::unordered_map<int64_t, kv::TokenStream>;

/// Submits a request to the scheduler and opens its stream. Both happen, or nothing.
template <class Scheduler>
void submit_to(Scheduler& scheduler, TokenStreams& streams, int64_t id, const kv::Request& request,
               RequestOptions options) {
  TokenStreams opened;
  opened.emplace(id, kv::TokenStream(request));
  streams.reserve(streams.size() + 1);
  scheduler.submit(id, request.prompt, request.max_tokens, std::move(options));
  streams.merge(opened);  // allocates nothing
}

/// Gives each request of the pass its next tokens, one from each of its rows of logits as long as
/// it wants one. A request that ends leaves the scheduler and the streams.
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
    output.tokens.push_back({id, token, found->second.logits_xxh64()});
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
