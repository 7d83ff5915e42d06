#pragma once

// A lesson's server, chosen when the program runs: lesson 08's, or 09's that guesses, 10's for
// layers that forget, 11's with a pool in the host's memory, 12's with a file, 13's with a store,
// 14's with pages in FP8.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lessons/13_shared_tier/engine.h"

namespace serve {

struct LessonOptions {
  int number = 8;  // of the lesson
  int block_size = 16;
  int num_blocks = 0;  // 0 means as many as memory_utilization gives, at most what requests can use
  double memory_utilization = 0.5;  // share of the device's free memory
  int max_model_len = 0;            // 0 means the model's
  lesson08::ServeOptions serve = {};
  int host_blocks = 0;                               // lessons 11 to 13; 0 means their default
  std::filesystem::path file = {};                   // lesson 12
  std::shared_ptr<lesson13::BlockStore> store = {};  // lesson 13
  lesson13::SharedTierOptions tier = {};             // lesson 13, but for the number of blocks
};

/// A request that runs for the first time.
struct Started {
  int64_t id = 0;
  int num_prompt = 0;
  int num_cached = 0;  // tokens of the prompt that were found in the cache
};

struct LessonState {
  int num_running = 0, num_waiting = 0;
  int num_blocks_used = 0;
  // Blocks on their way to the store: puts that were issued, and those that it has answered.
  int64_t num_puts_issued = 0, num_puts_confirmed = 0;
  /// Blocks of the store by what happened to them, since the start. Empty without a store.
  std::vector<std::pair<const char*, int64_t>> store_blocks = {};
};

/// Result of one pass, and the state after it.
struct Pass {
  kv::StepOutput step = {};
  std::vector<Started> started = {};
  /// Tokens of `started` that had been loaded from the host's memory, a file, or a store. Empty in
  /// a server that has none of them.
  std::optional<int64_t> num_external = {};
  LessonState state = {};
};

class LessonServer {
 public:
  virtual ~LessonServer() = default;
  /// Throws UserError for a request that can never run.
  virtual void submit(int64_t id, const kv::Request& request, lesson08::RequestOptions options) = 0;
  virtual bool abort(int64_t id) = 0;
  virtual Pass step() = 0;
  virtual bool idle() const = 0;
  virtual LessonState state() const = 0;
  virtual int num_blocks() const = 0;
  /// Tokens of the longest sequence that fits the pool, at most `limit`.
  virtual int64_t max_tokens(int64_t limit) const = 0;
};

/// Borrows the model and the store. Throws UserError for options that do not fit it.
std::unique_ptr<LessonServer> make_server(kv::Model& model, const LessonOptions& options);

}  // namespace serve
