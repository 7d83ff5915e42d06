#pragma once

// The ladder: the same requests through every lesson's engine, in the same memory. Equal digests of
// all logits are the course's one promise, so a rung with other bits than the first is an error.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "common/error.h"
#include "qwen3/engine.h"

namespace ladder {

/// The requests that come to a server.
struct Workload {
  std::vector<kv::Request> requests;
  size_t num_late = 0;  // requests at the end of the list that come when all others have ended
};

struct Options {
  int max_seq_len = 0;  // slots of a sequence, where they are reserved; 0 means the longest
  int kv_slots = 0;     // tokens that fit each lesson's memory; 0 means all requests at once
};

using MakeEngine = std::unique_ptr<kv::Engine> (*)(kv::Model&, const Options&);

struct Lesson {
  std::string number;  // "02"
  std::string topic;   // "flat_cache"
  MakeEngine make_engine;
};

/// The same memory in blocks, for the lessons from 03 on.
template <class PagedOptions>
PagedOptions paged_options(const Options& options) {
  PagedOptions paged{.engine = {.max_seq_len = options.max_seq_len}};
  paged.num_blocks = options.kv_slots / paged.block_size;  // 0 blocks are as many as needed
  if (paged.num_blocks == 0 && options.kv_slots > 0) {
    kv::user_error("--kv-tokens {}: wanted 0 (all fit), or at least one block of {} tokens",
                   options.kv_slots, paged.block_size);
  }
  return paged;
}

/// Makes any lesson's engine from the options that all lessons share.
template <class LessonOptions>
std::unique_ptr<kv::Engine> make(std::unique_ptr<kv::Engine> (*make_engine)(kv::Model&,
                                                                            const LessonOptions&),
                                 kv::Model& model, const Options& options) {
  if constexpr (std::is_same_v<LessonOptions, kv::EngineOptions>) {
    return make_engine(model, {.max_seq_len = options.max_seq_len});
  } else {
    return make_engine(model, paged_options<LessonOptions>(options));
  }
}

/// Every lesson of the course, in order. The list is written by CMake from the kv_lesson() calls.
const std::vector<Lesson>& lessons();

/// One lesson's run.
struct Rung {
  std::string number;
  std::string topic;
  std::vector<kv::Completion> completions;
  kv::EngineCounters counters;  // of all turns
  double first_token = 0;       // seconds from a request's arrival, the mean
  int64_t tokens = 0;           // generated, over all requests
  uint64_t digest = 0;          // XXH64 of all logits
};

/// Callbacks while the ladder is climbed; each may be empty.
struct Watch {
  std::function<void(const Lesson&)> on_lesson;  // before each lesson
  kv::TokenCallback on_token;                    // each token of each lesson; false cancels
};

/// Runs the workload on one engine. An engine that cannot hold all requests at their longest
/// serves them in turns: those that fit in options.kv_slots, in their order, and the next ones when
/// these have ended. Nothing if one is cancelled.
std::optional<Rung> run_lesson(const Lesson& lesson, kv::Engine& engine, const Workload& workload,
                               const Options& options, const kv::TokenCallback& on_token = {});

/// Runs the workload through each lesson. Throws UserError for a request that does not fit alone.
/// If one is cancelled, returns the rungs finished before.
std::vector<Rung> climb(kv::Model& model, const Workload& workload, std::span<const Lesson> lessons,
                        const Options& options = {}, const Watch& watch = {});

/// Nothing if all rungs have the same digest and tokens; else one line that names the first that
/// differs.
std::optional<std::string> first_mismatch(std::span<const Rung> rungs);

}  // namespace ladder
