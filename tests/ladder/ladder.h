#pragma once

// The ladder: the same requests through every lesson's engine. Equal digests of all logits are the
// course's one promise, so a rung with other bits than the first is an error.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "common/model/engine.h"

namespace ladder {

using MakeEngine = std::unique_ptr<kv::Engine> (*)(kv::Model&, const kv::EngineOptions&);

struct Lesson {
  std::string number;  // "02"
  std::string topic;   // "flat_cache"
  MakeEngine make_engine;
};

/// One way to make every lesson's engine, whatever else its options say.
template <class Options>
std::unique_ptr<kv::Engine> make(std::unique_ptr<kv::Engine> (*make_engine)(kv::Model&,
                                                                            const Options&),
                                 kv::Model& model, const kv::EngineOptions& options) {
  if constexpr (std::is_same_v<Options, kv::EngineOptions>) {
    return make_engine(model, options);
  } else {
    return make_engine(model, {.engine = options});
  }
}

/// Every lesson of the course, in order. The list is written by CMake from the kv_lesson() calls.
const std::vector<Lesson>& lessons();

/// One lesson's run.
struct Rung {
  std::string number;
  std::string topic;
  kv::GenerateResult result;
  int64_t tokens = 0;   // generated, over all requests
  uint64_t digest = 0;  // XXH64 of all logits
};

/// What a program may want to know while the ladder is climbed; each may be empty.
struct Watch {
  std::function<void(const Lesson&)> on_lesson;  // before each lesson
  kv::TokenCallback on_token;                    // each token of each lesson; false cancels
};

/// Runs the requests through each lesson. If one is cancelled, returns the rungs finished before.
std::vector<Rung> climb(kv::Model& model, std::span<const kv::Request> requests,
                        std::span<const Lesson> lessons, const kv::EngineOptions& options,
                        const Watch& watch = {});

/// Nothing if all rungs have the same digest and tokens; else one line that names the first that
/// differs.
std::optional<std::string> first_mismatch(std::span<const Rung> rungs);

}  // namespace ladder
