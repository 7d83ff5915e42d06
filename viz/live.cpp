#include "viz/live.h"

#include <exception>
#include <utility>

#include "common/base/error.h"

namespace viz {

LiveRun::LiveRun(std::function<void(const kv::TokenCallback&)> generate)
    : thread_([this, generate = std::move(generate)] {
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [this] { return turn_ == Turn::kEngine; });
        }
        std::string error;
        try {
          if (!cancelled_) generate([this](size_t r, int32_t id) { return on_token(r, id); });
        } catch (const std::exception& e) {
          error = e.what();
        }
        const std::lock_guard lock(mutex_);
        error_ = std::move(error);
        finished_ = true;
        turn_ = Turn::kPage;
        changed_.notify_all();
      }) {}

LiveRun::~LiveRun() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    turn_ = Turn::kEngine;
    changed_.notify_all();
  }
  thread_.join();
}

bool LiveRun::step() {
  std::unique_lock lock(mutex_);
  if (finished_) return false;
  turn_ = Turn::kEngine;
  changed_.notify_all();
  changed_.wait(lock, [this] { return turn_ == Turn::kPage; });
  return true;
}

bool LiveRun::finished() const {
  const std::lock_guard lock(mutex_);
  return finished_;
}

std::string LiveRun::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

bool LiveRun::on_token(size_t request, int32_t token) {
  std::unique_lock lock(mutex_);
  if (cancelled_) return false;
  tokens_.push_back({.request = request, .id = token});
  turn_ = Turn::kPage;
  changed_.notify_all();
  changed_.wait(lock, [this] { return turn_ == Turn::kEngine; });
  return !cancelled_;
}

kv::Request LiveModel::request(const std::string& prompt, int max_tokens) {
  if (prompt.empty()) kv::user_error("the prompt is empty: give at least one character");
  return {.prompt = tokenizer().encode(prompt),
          .max_tokens = max_tokens,
          .sampling = {.temperature = 0, .seed = context_.seed},
          .stop_token_ids = model().config().eos_token_ids};
}

LiveModel::Loaded& LiveModel::load() {
  if (!loaded_) {
    kv::Model model = kv::Model::load(context_.model_dir, kv::resolve_device(context_.device));
    model.set_kernel(context_.kernel);
    loaded_ = std::make_unique<Loaded>(std::move(model), kv::Tokenizer::load(context_.model_dir));
  }
  return *loaded_;
}

std::string token_text(const kv::Tokenizer& tokenizer, int32_t token) {
  if (!tokenizer.has(token)) return "\xEF\xBF\xBD";
  std::string text;
  for (const char c : tokenizer.decode({&token, 1})) {
    if (c == '\n') {
      text += "\\n";
    } else {
      text += c;
    }
  }
  return text;
}

LiveRequests::LiveRequests(kv::Engine& engine, std::vector<kv::Request> requests)
    : requests_(std::move(requests)), run_([this, &engine](const kv::TokenCallback& on_token) {
        engine.generate(requests_, on_token);
      }) {
  run_.step();
  if (!run_.error().empty()) kv::user_error("{}", run_.error());
}

std::vector<int32_t> LiveRequests::tokens(size_t request) const {
  std::vector<int32_t> tokens = requests_.at(request).prompt;
  for (const LiveRun::Token& token : run_.tokens()) {
    if (token.request == request) tokens.push_back(token.id);
  }
  return tokens;
}

void run_steps(LiveRequests* live, const Command& command) {
  command.check_count(0, 1);
  const int64_t count = command.args.empty() ? 1 : command.number(0, "a number of steps", 1, 4096);
  if (!live) kv::user_error("step: there is no live run; begin one with `live \"a prompt\"`");
  if (live->finished()) kv::user_error("step: the run has ended; `stop` leads back");
  for (int64_t i = 0; i < count && live->step(); ++i) {
  }
  if (!live->error().empty()) kv::user_error("the run failed: {}", live->error());
}

}  // namespace viz
