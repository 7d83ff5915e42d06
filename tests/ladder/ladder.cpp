#include "ladder.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "common/table.h"

namespace ladder {

namespace {

using Clock = std::chrono::steady_clock;

/// How many requests, from the first on, run together. Throws UserError if the first one alone
/// needs more than the memory.
size_t num_of_turn(const kv::Engine& engine, std::span<const kv::Request> requests, int kv_slots,
                   const std::string& lesson) {
  size_t n = requests.size();
  while (n > 0 && kv_slots > 0 && engine.slots_to_start(requests.first(n)) > kv_slots) --n;
  if (n == 0) {
    kv::user_error(
        "lesson {} needs {} token slots for one request, wanted at most the {} of --kv-tokens; "
        "raise it, generate fewer tokens, or lower --max-seq-len",
        lesson, kv::with_commas(engine.slots_to_start(requests.first(1))),
        kv::with_commas(kv_slots));
  }
  return n;
}

/// Throws UserError, before any lesson works, if a lesson cannot hold each request alone.
void check_memory(kv::Model& model, std::span<const kv::Request> requests,
                  std::span<const Lesson> lessons, const Options& options) {
  if (options.kv_slots == 0) return;
  for (const Lesson& lesson : lessons) {
    const auto engine = lesson.make_engine(model, options);
    for (size_t i = 0; i < requests.size(); ++i) {
      num_of_turn(*engine, requests.subspan(i, 1), options.kv_slots, lesson.number);
    }
  }
}

void add_turn(kv::GenerateResult turn, Rung& rung) {
  std::ranges::move(turn.completions, std::back_inserter(rung.completions));
  kv::EngineCounters& all = rung.counters;
  const kv::EngineCounters& its = turn.counters;
  all.passes += its.passes;
  all.max_sequences = std::max(all.max_sequences, its.max_sequences);
  all.kv_rows_computed += its.kv_rows_computed;
  kv::note_kv_bytes(all, its.kv_bytes_reserved, its.kv_bytes_used);
  all.kv_bytes_copied += its.kv_bytes_copied;
  all.seconds += its.seconds;
}

/// Requests that come at once, in turns.
void serve(kv::Engine& engine, std::span<const kv::Request> requests, const Options& options,
           const kv::TokenCallback& on_token, Rung& rung) {
  const Clock::time_point arrival = Clock::now();
  std::vector<bool> has_token(requests.size());
  for (size_t begin = 0, n = 0; begin < requests.size(); begin += n) {
    n = num_of_turn(engine, requests.subspan(begin), options.kv_slots, rung.number);
    const size_t before = rung.completions.size();
    const auto note = [&](size_t i, int32_t token) {
      if (!has_token[begin + i]) {
        rung.first_token += std::chrono::duration<double>(Clock::now() - arrival).count();
      }
      has_token[begin + i] = true;
      return !on_token || on_token(before + i, token);
    };
    add_turn(engine.generate(requests.subspan(begin, n), note), rung);
  }
}

}  // namespace

std::optional<Rung> run_lesson(const Lesson& lesson, kv::Engine& engine, const Workload& workload,
                               const Options& options, const kv::TokenCallback& on_token) {
  const std::span<const kv::Request> requests(workload.requests);
  Rung rung;
  rung.number = lesson.number;
  rung.topic = lesson.topic;
  const size_t num_first = requests.size() - workload.num_late;
  serve(engine, requests.first(num_first), options, on_token, rung);
  serve(engine, requests.subspan(num_first), options, on_token, rung);
  for (const kv::Completion& c : rung.completions) {
    if (c.finish == kv::FinishReason::kCancelled) return std::nullopt;
    rung.tokens += std::ssize(c.tokens);
  }
  rung.first_token /= static_cast<double>(std::max<size_t>(requests.size(), 1));
  rung.digest = kv::combined_digest(rung.completions);
  return rung;
}

std::vector<Rung> climb(kv::Model& model, const Workload& workload, std::span<const Lesson> lessons,
                        const Options& options, const Watch& watch) {
  check_memory(model, workload.requests, lessons, options);
  std::vector<Rung> rungs;
  for (const Lesson& lesson : lessons) {
    if (watch.on_lesson) watch.on_lesson(lesson);
    const auto engine = lesson.make_engine(model, options);
    auto rung = run_lesson(lesson, *engine, workload, options, watch.on_token);
    if (!rung) break;
    rungs.push_back(std::move(*rung));
  }
  return rungs;
}

std::optional<std::string> first_mismatch(std::span<const Rung> rungs) {
  for (size_t i = 1; i < rungs.size(); ++i) {
    if (rungs[i].digest != rungs[0].digest) {
      return fmt::format(
          "lesson {} gives other bits than lesson {}: logits {:016x} against {:016x}",
          rungs[i].number, rungs[0].number, rungs[i].digest, rungs[0].digest);
    }
    for (size_t r = 0; r < rungs[0].completions.size(); ++r) {
      if (rungs[i].completions[r].tokens != rungs[0].completions[r].tokens) {
        return fmt::format("lesson {} gives other tokens than lesson {} for request {}",
                           rungs[i].number, rungs[0].number, r);
      }
    }
  }
  return std::nullopt;
}

}  // namespace ladder
