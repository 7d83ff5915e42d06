#pragma once

// A page that watches a real engine: generate() takes turns with the page and stops after every
// token until it is let on, so that between steps the page reads the engine's own structures.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "qwen3/engine.h"
#include "qwen3/model.h"
#include "qwen3/tokenizer.h"
#include "viz/page.h"
#include "viz/shell/turns.h"

namespace viz {

class LiveRun {
 public:
  struct Token {
    size_t request = 0;
    int32_t id = 0;
  };
  /// Calls generate(callback) in turns; nothing is generated before the first step.
  explicit LiveRun(std::function<void(const kv::TokenCallback&)> generate);
  /// Cancels what is running.
  ~LiveRun();
  LiveRun(const LiveRun&) = delete;
  LiveRun& operator=(const LiveRun&) = delete;

  /// Lets one more token out and waits until the engine stands still again: at the next token or at
  /// its end. False if it had ended. While it stands still the engine may be read.
  bool step();
  bool finished() const { return finished_; }
  const std::string& error() const { return error_; }  // of generate(), empty if none
  const std::vector<Token>& tokens() const { return tokens_; }

 private:
  bool on_token(size_t request, int32_t token);

  // Read and written only by the side whose turn it is.
  bool finished_ = false;
  bool cancelled_ = false;
  std::string error_;
  std::vector<Token> tokens_;
  Turns turns_;
};

/// The live part of a page: the model; an engine on its way through some requests, a token at a
/// time; and the commands for it.
class Live {
 public:
  explicit Live(PageContext context) : context_(std::move(context)) {}

  // Loaded when it is first needed, and kept, as an undo runs it again.
  kv::Model& model() { return load().model; }
  const kv::Tokenizer& tokenizer() const { return load().tokenizer; }
  kv::Request request(const std::string& prompt, int max_tokens);
  /// Two of unequal length: the prompt, and its first half with half of the tokens.
  std::vector<kv::Request> prompt_and_half(const std::string& prompt, int max_tokens);
  /// A token as it is shown: "\\n" for a line feed, U+FFFD for a part of a character.
  std::string text(int32_t token) const;
  /// The same without the space that most words begin with.
  std::string word(int32_t token) const;

  /// Work of the engine; generate(requests) if none is given.
  using Generate = std::function<void(const kv::TokenCallback&)>;
  /// The first token is generated here. Throws UserError for what the engine refuses; what ran
  /// before is gone then.
  void start(std::unique_ptr<kv::Engine> engine, std::vector<kv::Request> requests,
             Generate generate = {});
  /// The same for requests that run alone, one after the other. Request r may still be changed by
  /// before(r, request).
  using Before = std::function<void(size_t, kv::Request&)>;
  void start_in_turn(std::unique_ptr<kv::Engine> engine, std::vector<kv::Request> requests,
                     Before before = {});
  void stop();
  /// One more token. False if the run had ended. Throws UserError if it fails.
  bool step();

  bool running() const { return run_ != nullptr; }  // or it has ended and was not stopped
  bool finished() const { return run_ && run_->finished(); }
  /// The engine that start() was given. Only while running.
  template <class Engine>
  const Engine& engine() const {
    return static_cast<const Engine&>(*engine_);
  }
  const std::vector<kv::Request>& requests() const { return requests_; }
  const std::vector<LiveRun::Token>& generated() const;  // none if there is no run
  /// The request that was given the last token: of those that run in turn, the one that runs.
  size_t current() const { return generated().back().request; }
  /// Prompt and generated tokens.
  std::vector<int32_t> tokens(size_t request) const;

  // Rows of a page's table. `story` is told after every token, and the last one counts.
  using Story = std::function<std::string()>;
  /// `live "PROMPT" [TOKENS]`, `step [COUNT]`, `stop`. `prompt`: in the field at first.
  std::vector<Verb> verbs(std::string help, std::function<void(const std::string&, int)> start,
                          const Story& story, std::string prompt = "Once upon a time");
  std::vector<Verb> step_and_stop(Story story);
  /// Rows that are refused as long as there is a run.
  std::vector<Verb> without_run(std::vector<Verb> verbs) const;
  /// Large buttons for `step`, `step 10` and `stop`; a page may call its `step` by another name.
  std::vector<Button> steps(const std::string& step = "step", const std::string& label = "Step",
                            const std::string& ten = "10 steps") const;

 private:
  struct Loaded {
    kv::Model model;
    kv::Tokenizer tokenizer;
  };
  Loaded& load() const;

  PageContext context_;
  mutable std::unique_ptr<Loaded> loaded_;
  std::vector<kv::Request> requests_;
  std::unique_ptr<kv::Engine> engine_;  // borrows the model
  std::unique_ptr<LiveRun> run_;        // last: it ends before what it uses
};

}  // namespace viz
