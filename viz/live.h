#pragma once

// A page that watches a real engine: generate() runs on a thread of its own and stops after every
// token until it is let on, so that between steps the page reads the engine's own structures.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/model/engine.h"
#include "common/model/model.h"
#include "common/model/tokenizer.h"
#include "viz/page.h"

namespace viz {

class LiveRun {
 public:
  struct Token {
    size_t request = 0;
    int32_t id = 0;
  };
  /// Calls generate(callback) on its own thread; nothing is generated before the first step.
  explicit LiveRun(std::function<void(const kv::TokenCallback&)> generate);
  /// Cancels what is running and waits for it.
  ~LiveRun();
  LiveRun(const LiveRun&) = delete;
  LiveRun& operator=(const LiveRun&) = delete;

  /// Lets one more token out and waits until the engine stands still again: at the next token or at
  /// its end. False if it had ended. While it stands still the engine may be read.
  bool step();
  bool finished() const;
  std::string error() const;  // of generate(), empty if none
  const std::vector<Token>& tokens() const { return tokens_; }

 private:
  enum class Turn { kPage, kEngine };
  bool on_token(size_t request, int32_t token);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Turn turn_ = Turn::kPage;
  bool finished_ = false;
  bool cancelled_ = false;
  std::string error_;
  std::vector<Token> tokens_;
  std::thread thread_;
};

/// The model of live runs: loaded when it is first needed, and kept, as an undo runs it again.
class LiveModel {
 public:
  explicit LiveModel(PageContext context) : context_(std::move(context)) {}

  kv::Model& model() { return load().model; }
  const kv::Tokenizer& tokenizer() { return load().tokenizer; }
  /// A prompt to be continued. Throws UserError if it is empty.
  kv::Request request(const std::string& prompt, int max_tokens);

 private:
  struct Loaded {
    kv::Model model;
    kv::Tokenizer tokenizer;
  };
  Loaded& load();

  PageContext context_;
  std::unique_ptr<Loaded> loaded_;
};

/// A token as it is shown: "\\n" for a line feed, U+FFFD for a part of a character.
std::string token_text(const kv::Tokenizer& tokenizer, int32_t token);

/// Requests on their way through an engine, a token at a time.
class LiveRequests {
 public:
  /// Borrows the engine, which generates the first token here. Throws UserError for what it
  /// refuses.
  LiveRequests(kv::Engine& engine, std::vector<kv::Request> requests);

  /// One more token. False if the run had ended.
  bool step() { return run_.step(); }
  bool finished() const { return run_.finished(); }
  std::string error() const { return run_.error(); }  // that ended it; empty: none
  size_t size() const { return requests_.size(); }
  /// Prompt and generated tokens.
  std::vector<int32_t> tokens(size_t request) const;
  const std::vector<LiveRun::Token>& generated() const { return run_.tokens(); }
  const std::vector<kv::Request>& requests() const { return requests_; }

 private:
  std::vector<kv::Request> requests_;
  LiveRun run_;
};

/// The command `step [N]`: up to N more tokens (1 if it is left out). Throws UserError if there is
/// no run, it has ended, or it fails.
void run_steps(LiveRequests* live, const Command& command);

}  // namespace viz
