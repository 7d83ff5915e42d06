#include "engine.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "reject_guesses.h"

namespace lesson09 {
namespace {

/// For each row of logits the guess that ran in it; -1 for a request's first row, that of its last
/// known token.
std::vector<int32_t> guesses_of(const kv::PassRows& rows) {
  std::vector<int32_t> guesses(rows.requests.size(), -1);
  for (size_t i = 1; i < guesses.size(); ++i) {
    if (rows.requests[i] != rows.requests[i - 1]) continue;
    guesses[i] = rows.token_ids[rows.logit_rows[i]];
  }
  return guesses;
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
  if (!no_prompt || rows.max_rows_per_seq() == 1) return;  // a pass of lesson 04 or 08
  arrays.launches_depend_on(static_cast<uint64_t>(rows.max_rows_per_seq()));
  arrays.allow_replay();
}

Server::Server(kv::Model& model, Drafter& drafter, const PagedOptions& options,
               const ServeOptions& serve, const LookaheadOptions& lookahead)
    : ServerBase(model, options, serve),
      pool_(options.num_blocks, options.block_size, free_order(serve)),
      cache_(model.config(), model.stream(), pool_.index().num_ids(), options.block_size),
      attention_(model.config(), cache_),
      manager_(pool_, {.hasher = serve.hasher, .caching = serve.caching}) {
  scheduler_.emplace(manager_, pool_, drafter, serve.scheduler, lookahead);
  pool_.set_event_sink(serve.on_cache_event);
}

StepOutput Server::step(const PassObserver<Scheduler>& on_pass) {
  if (std::exchange(reset_wanted_, false)) scheduler_->reset_prefix_cache(true);
  const SchedulerOutput& output = scheduler_->schedule();  // with slots for guesses
  if (output.chunks.empty()) return {.preempted = output.preempted};
  if (on_pass) on_pass(*scheduler_, output);
  kv::PassRows rows;
  for (const Chunk& chunk : output.chunks) {
    lesson08::add_rows(scheduler_->request(chunk.id), chunk, rows);
    rows.extend_last(chunk.id, scheduler_->guesses(chunk.id));
  }
  lesson08::pad_decodes(rows, options_.pad_decodes_to);
  attention_.set_tables(lesson08::tables_of(manager_, output.chunks, rows.num_seqs(), padding_));
  chooser_.launch(rows, attention_);
  judge(rows);
  chooser_.fetch();
  scheduler_->update(output.chunks);
  return lesson08::deliver(rows, output, chooser_, *scheduler_, streams_);
}

/// If the device chooses the tokens, it also discards those that were chosen after a wrong
/// guess.
void Server::judge(const kv::PassRows& rows) {
  if (!chooser_.on_device() || attention_.guesses() == nullptr) return;
  reject_guesses({.guesses = attention_.guesses(),
                  .num_rows = static_cast<int>(rows.requests.size()),
                  .chosen = chooser_.device_chosen()},
                 model_.stream());
}

LookaheadEngine::LookaheadEngine(kv::Model& model, const PagedOptions& options,
                                 const ServeOptions& serve, const LookaheadOptions& lookahead,
                                 std::unique_ptr<Drafter> drafter)
    : ServerEngine(
          model, [=](auto requests) { return lesson08::pool_size(requests, options); },
          [=, &model, sized = options,
           guesser = std::shared_ptr<Drafter>(drafter ? std::move(drafter)
                                                      : std::make_unique<NgramDrafter>())](
              int num_blocks) mutable {
            sized.num_blocks = num_blocks;
            return std::make_unique<Server>(model, *guesser, sized, serve, lookahead);
          },
          lesson08::on_new_pool(serve.on_cache_event)) {
  lesson08::checked(options, serve);
  lesson09::check(lookahead);
}

kv::GenerateResult LookaheadEngine::generate(std::span<const kv::Request> requests,
                                             const kv::TokenCallback& on_token) {
  return serve(requests, {}, on_token).generated;
}

ServeResult LookaheadEngine::serve(std::span<const kv::Request> requests,
                                   std::span<const Arrival> arrivals,
                                   const kv::TokenCallback& on_token,
                                   const PassCallback<Scheduler>& on_pass) {
  if (requests.empty()) return {};
  Server& server = server_for(requests);
  const Scheduler& scheduler = server.scheduler();
  const int64_t proposed = scheduler.num_proposed(), accepted = scheduler.num_accepted();
  ServeResult result = kv::serve(server, requests, arrivals, on_token, on_pass);
  auto& counters = result.generated.counters.by_name;
  counters["guesses_proposed"] = scheduler.num_proposed() - proposed;
  counters["guesses_accepted"] = scheduler.num_accepted() - accepted;
  return result;
}

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options) {
  return std::make_unique<LookaheadEngine>(model, options);
}

}  // namespace lesson09
