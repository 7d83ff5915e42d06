#pragma once

// Requests of a lesson's scheduler, by name: what they have, and what they did in each pass.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/table.h"
#include "viz/drawing/progress.h"
#include "viz/names.h"

namespace viz {

/// A request, also after its end. A page may derive from it.
struct ServedRequest : SequenceView {
  int64_t id = -1;  // the scheduler's; -1: it has not come
  int num_prompt = 0;
  int max_tokens = 0;
  int generated = 0;
  int num_computed = 0;  // tokens whose K and V are there
  int num_cached = 0;    // of these, tokens found when it last started
  int num_preemptions = 0;
  bool ended = false;
  std::string words = {};         // of a live run: what it has generated
  PassMarks marks = {};           // [passes]
  std::vector<int32_t> ids = {};  // its blocks

  bool is_there() const { return id >= 0 && !ended; }
};

/// " A C": a space before each name.
template <class Requests>
std::string names_of(const Requests& requests, const std::vector<int64_t>& ids) {
  std::string names;
  for (const int64_t id : ids) {
    names += " " + std::ranges::find(requests, id, &ServedRequest::id)->name;
  }
  return names;
}

/// Tooltip of a request.
inline std::string described(const ServedRequest& request) {
  return fmt::format("prompt of {}, up to {} to generate\n{} of {} have a slot\n{}",
                     kv::count_of(request.num_prompt, "token"), request.max_tokens,
                     request.num_computed, request.num_prompt + request.generated, request.words);
}

/// Tokens of a pass.
template <class Output>
int num_rows(const Output& pass) {
  int rows = 0;
  for (const auto& chunk : pass.chunks) rows += chunk.num_tokens;
  return rows;
}

/// "Pass 3 ran 12 tokens: 8 of A, 4 of B."
template <class Requests, class Output>
std::string told_of(int number, const Requests& requests, const Output& pass) {
  std::string parts;
  for (const auto& chunk : pass.chunks) {
    parts += fmt::format("{} {} of {}", parts.empty() ? ":" : ",", chunk.num_tokens,
                         std::ranges::find(requests, chunk.id, &ServedRequest::id)->name);
  }
  return fmt::format("Pass {} ran {}{}.", number, kv::count_of(num_rows(pass), "token"), parts);
}

/// Whether the request waits or runs. No scheduler: the live run has ended, and all requests have.
template <class Scheduler>
bool is_there(const Scheduler* of, int64_t id) {
  if (of == nullptr) return false;
  const std::vector<int64_t> waiting = of->waiting(), running = of->running();
  return std::ranges::count(waiting, id) + std::ranges::count(running, id) > 0;
}

/// The state of a present request in this pass. Empty if it runs but has nothing to compute.
template <class Scheduler, class Output>
std::optional<State> mark_of(const Scheduler& of, const Output& pass, int64_t id) {
  const auto& request = of.request(id);
  for (const auto& chunk : pass.chunks) {
    if (chunk.id != id) continue;
    const bool decodes = chunk.num_tokens == 1 && request.num_computed >= request.num_prompt;
    return decodes ? State::kDecode : State::kPrompt;
  }
  const std::vector<int64_t> waiting = of.waiting();
  if (std::ranges::count(waiting, id) == 0) return std::nullopt;
  return request.num_preemptions > 0 ? State::kPreempted : State::kFree;
}

/// Takes over how a request is now.
template <class Scheduler, class Manager>
void follow(ServedRequest& request, const Scheduler* of, const Manager& manager) {
  request.ids.clear();
  request.ended = request.id >= 0 && !is_there(of, request.id);
  if (!request.is_there()) return;
  const auto& known = of->request(request.id);
  request.num_computed = known.num_computed;
  request.num_cached = known.num_cached;
  request.num_preemptions = known.num_preemptions;
  if (!manager.holds(request.id)) return;
  const auto ids = manager.table(request.id).block_ids();
  request.ids.assign(ids.begin(), ids.end());
}

/// Each request that wants a token gets next(request). It ends with its last one, which is never
/// computed; what was computed is noted before the scheduler forgets it.
template <class Requests, class Scheduler, class Next>
void answer(Requests& requests, Scheduler& of, Next next) {
  for (auto& request : requests) {
    if (!request.is_there() || !of.wants_token(request.id)) continue;
    request.num_computed = of.request(request.id).num_computed;
    of.add_token(request.id, next(request));
    if (++request.generated == request.max_tokens) of.finish(request.id);
  }
}

/// Why a request never fits in the pool; empty if it does.
inline std::string too_large(int num_prompt, int max_tokens, int block_size, int num_blocks,
                             const char* what = "the pool") {
  const int needed = (num_prompt + max_tokens - 1 + block_size - 1) / block_size;
  if (needed <= num_blocks) return "";
  return fmt::format("it needs {}, {} has {}", kv::count_of(needed, "block"), what, num_blocks);
}

/// Takes over what a live run has generated for a request.
template <class LiveServer>
void follow_answer(ServedRequest& request, const LiveServer& live) {
  const std::vector<int32_t>& answer = live.answers().at(static_cast<size_t>(request.id));
  request.generated = static_cast<int>(answer.size());
  request.words.clear();
  for (const int32_t token : answer) request.words += live.text(token);
  if (request.ended) request.num_computed = request.num_prompt + request.generated - 1;
}

}  // namespace viz
