#pragma once

// A lesson's server, chosen when the program runs: lesson 08's, or 09's that guesses, 10's for
// layers that forget, 11's with a pool in the host's memory, 12's with a file.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "lessons/08_scheduler/step.h"

namespace serve {

struct EngineOptions {
  int lesson = 8;
  int block_size = 16;
  int num_blocks = 0;  // 0 means as many as memory_utilization gives, at most what requests can use
  double memory_utilization = 0.5;  // share of the device's free memory
  int max_model_len = 0;            // 0 means the model's
  lesson08::ServeOptions serve = {};
  int host_blocks = 0;              // lessons 11 and 12; 0 means their default
  std::filesystem::path file = {};  // lesson 12
};

/// A request that runs for the first time.
struct Started {
  int64_t id = 0;
  int num_prompt = 0;
  int num_cached = 0;  // tokens of the prompt that were found in the cache
};

struct EngineState {
  int num_running = 0, num_waiting = 0;
  int num_blocks_used = 0;
};

/// What one pass did, and the state that it left.
struct Pass {
  kv::StepOutput step = {};
  std::vector<Started> started = {};
  /// Tokens of `started` that had been loaded from the host's memory, or from a file. Empty in an
  /// engine that has neither.
  std::optional<int64_t> num_external = {};
  EngineState state = {};
};

class Engine {
 public:
  virtual ~Engine() = default;
  /// Throws UserError for a request that can never run.
  virtual void submit(int64_t id, const kv::Request& request, lesson08::RequestOptions options) = 0;
  virtual bool abort(int64_t id) = 0;
  virtual Pass step() = 0;
  virtual bool idle() const = 0;
  virtual EngineState state() const = 0;
  virtual int num_blocks() const = 0;
  /// Tokens of the longest sequence that fits the pool, at most `limit`.
  virtual int64_t max_tokens(int64_t limit) const = 0;
};

/// Borrows the model. Throws UserError for options that do not fit it.
std::unique_ptr<Engine> make_engine(kv::Model& model, const EngineOptions& options);

}  // namespace serve
