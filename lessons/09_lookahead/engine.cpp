#include "engine.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "reject_guesses.h"

namespace lesson09 {
namespace {

/// Guesses after the rows of the sequence that was added last. Each wants logits: they choose the
/// token after it.
void add_guesses(kv::PassRows& rows, size_t request, std::span<const int32_t> guesses) {
  for (const int32_t token : guesses) {
    rows.token_ids.push_back(token);
    rows.positions.push_back(rows.seq_len.back()++);
    rows.logit_rows.push_back(rows.first_row.back()++);
    rows.requests.push_back(request);
  }
}

/// For each row of logits the guess that ran in it. A request's first one is that of its last known
/// token: -1.
std::vector<int32_t> guesses_of(const kv::PassRows& rows) {
  std::vector<int32_t> guesses(rows.requests.size(), -1);
  for (size_t i = 1; i < guesses.size(); ++i) {
    if (rows.requests[i] != rows.requests[i - 1]) continue;
    guesses[i] = rows.token_ids[static_cast<size_t>(rows.logit_rows[i])];
  }
  return guesses;
}

/// What this engine's scheduler is.
const LookaheadScheduler& looking_ahead(const Scheduler& scheduler) {
  return static_cast<const LookaheadScheduler&>(scheduler);
}

}  // namespace

void LookaheadAttention::begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) {
  ServingAttention::begin_pass(rows, arrays);
  guesses_ = nullptr;
  const std::vector<int32_t> guesses = guesses_of(rows);
  if (std::ranges::any_of(guesses, [](int32_t guess) { return guess >= 0; })) {
    arrays.add(guesses, guesses_);
  }
  const bool no_prompt = std::ssize(rows.logit_rows) == rows.num_rows();
  if (!no_prompt || rows.max_rows_per_seq() == 1) return;  // that one is lesson 04's business
  arrays.launches_depend_on(static_cast<uint64_t>(rows.max_rows_per_seq()));
  arrays.allow_replay();
}

LookaheadEngine::LookaheadEngine(kv::Model& model, const PagedOptions& options,
                                 const ServeOptions& serve, const LookaheadOptions& lookahead,
                                 std::unique_ptr<Drafter> drafter)
    : ServingEngine(model, options, serve),
      lookahead_(lookahead),
      drafter_(drafter ? std::move(drafter) : std::make_unique<NgramDrafter>()) {
  check(lookahead);
}

std::unique_ptr<KvCacheManager> LookaheadEngine::make_manager(
    BlockPool& pool, const lesson06::CacheManagerOptions& options) {
  return std::make_unique<LookaheadManager>(pool, options);
}

const LookaheadManager* LookaheadEngine::manager() const {
  return static_cast<const LookaheadManager*>(ServingEngine::manager());
}

std::unique_ptr<Scheduler> LookaheadEngine::make_scheduler(KvCacheManager& manager) {
  return std::make_unique<LookaheadScheduler>(static_cast<LookaheadManager&>(manager), *drafter_,
                                              scheduler_options(), lookahead_);
}

std::unique_ptr<lesson08::ServingAttention> LookaheadEngine::make_attention(
    PagedKvCache& cache) const {
  return std::make_unique<LookaheadAttention>(model().config(), cache);
}

void LookaheadEngine::add_rows(const Scheduler& scheduler, const Chunk& chunk,
                               kv::PassRows& rows) const {
  ServingEngine::add_rows(scheduler, chunk, rows);
  add_guesses(rows, static_cast<size_t>(chunk.id), looking_ahead(scheduler).guesses(chunk.id));
}

/// What was chosen after a wrong guess does not get to the host.
void LookaheadEngine::on_chosen(const kv::PassRows& rows, int32_t* device_chosen) {
  const auto* guesses = static_cast<const LookaheadAttention&>(attention()).guesses();
  if (guesses == nullptr) return;
  reject_guesses({.guesses = guesses,
                  .num_rows = static_cast<int>(rows.requests.size()),
                  .chosen = device_chosen},
                 model().stream());
}

void LookaheadEngine::add_counters(const Scheduler& scheduler, kv::EngineCounters& counters) const {
  counters.by_name["guesses_proposed"] = looking_ahead(scheduler).num_proposed();
  counters.by_name["guesses_accepted"] = looking_ahead(scheduler).num_accepted();
}

ServeResult LookaheadEngine::serve(std::span<const kv::Request> requests,
                                   std::span<const Arrival> arrivals,
                                   const kv::TokenCallback& on_token, const PassCallback& on_pass) {
  if (!on_pass) return ServingEngine::serve(requests, arrivals, on_token);
  return ServingEngine::serve(requests, arrivals, on_token,
                              [&](const Scheduler& scheduler, const SchedulerOutput& output) {
                                return on_pass(looking_ahead(scheduler), output);
                              });
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options) {
  return std::make_unique<LookaheadEngine>(model, options);
}

}  // namespace lesson09
