#pragma once

// The ladder's second act, where memory is short. In each case lesson 08 serves the workload and
// then the lesson that has an answer, in the same memory and with the same bits.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ladder.h"
#include "qwen3/model.h"

namespace ladder {

/// What a server leaves behind when it ends: a folder, and a store of blocks. A case has its own.
struct Surroundings;

/// One kind of shortage, and the lesson that is an answer to it.
struct Case {
  std::string name;    // "after a restart"
  std::string lesson;  // "12"
  std::unique_ptr<kv::Engine> (*make_engine)(kv::Model&, const Options&, Surroundings&);
  int64_t kv::EngineCounters::*gain;  // the number in which it is better than lesson 08
  bool more = false;                  // whether better means more
  int window = 0;                     // tokens that a layer sees; each sixth one sees all
  kv::KvFormat format = kv::KvFormat::kActivations;
  bool is_second = false;  // another server has served the same requests, and is gone
};

/// All of them, in the order of their lessons.
const std::vector<Case>& cases();

/// Both runs of a case.
struct Pair {
  Case what;
  std::vector<Rung> rungs;  // of lesson 08, and of the case's lesson
};

/// Runs each case, and leaves the model's windows and format as they were. In FP8 lesson 08 keeps
/// rows that were rounded to FP8 in the activation dtype. If a request is cancelled, returns the
/// pairs finished before.
std::vector<Pair> run_cases(kv::Model& model, const Workload& workload, std::span<const Case> some,
                            const Options& options, const Watch& watch = {});

}  // namespace ladder
