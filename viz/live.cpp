#include "viz/live.h"

#include <exception>
#include <utility>

#include "common/error.h"

namespace viz {

LiveRun::LiveRun(std::function<void(const kv::TokenCallback&)> generate)
    : turns_([this, generate = std::move(generate)] {
        try {
          if (!cancelled_) generate([this](size_t r, int32_t id) { return on_token(r, id); });
        } catch (const std::exception& e) {
          error_ = e.what();
        }
        finished_ = true;
      }) {}

LiveRun::~LiveRun() {
  cancelled_ = true;
  if (!finished_) turns_.go_on();
}

bool LiveRun::step() {
  if (finished_) return false;
  turns_.go_on();
  return true;
}

bool LiveRun::on_token(size_t request, int32_t token) {
  if (cancelled_) return false;
  tokens_.push_back({.request = request, .id = token});
  turns_.stand_still();
  return !cancelled_;
}

kv::Request Live::request(const std::string& prompt, int max_tokens) {
  return {.prompt = tokenizer().with_special_tokens(tokenizer().encode(prompt)),
          .max_tokens = max_tokens,
          .sampling = {.temperature = 0, .seed = context_.seed},
          .stop_token_ids = tokenizer().with_eos_token(model().config().eos_token_ids)};
}

std::vector<kv::Request> Live::prompt_and_half(const std::string& prompt, int max_tokens) {
  std::vector<kv::Request> requests(2, request(prompt, max_tokens));
  requests[1].prompt.resize((requests[0].prompt.size() + 1) / 2);
  requests[1].max_tokens = (max_tokens + 1) / 2;
  return requests;
}

std::string Live::text(int32_t token) const { return tokenizer().shown({&token, 1}); }

std::string Live::word(int32_t token) const {
  const std::string all = text(token);
  return all.size() > 1 && all.front() == ' ' ? all.substr(1) : all;
}

Live::Loaded& Live::load() const {
  if (!loaded_) {
    kv::Model model = kv::Model::load(context_.model_dir, kv::resolve_device(context_.device));
    model.set_kernel(context_.kernel);
    loaded_.reset(new Loaded{std::move(model), kv::Tokenizer::load(context_.model_dir)});
  }
  return *loaded_;
}

void Live::start(std::unique_ptr<kv::Engine> engine, std::vector<kv::Request> requests,
                 Generate generate) {
  stop();
  engine_ = std::move(engine);
  requests_ = std::move(requests);
  if (!generate) {
    generate = [this](const kv::TokenCallback& on_token) {
      engine_->generate(requests_, on_token);
    };
  }
  run_ = std::make_unique<LiveRun>(std::move(generate));
  run_->step();
  if (const std::string error = run_->error(); !error.empty()) {
    stop();
    kv::user_error("{}", error);
  }
}

void Live::start_in_turn(std::unique_ptr<kv::Engine> engine, std::vector<kv::Request> requests,
                         Before before) {
  start(std::move(engine), std::move(requests),
        [this, before = std::move(before)](const kv::TokenCallback& on_token) {
          bool goes_on = true;
          for (size_t r = 0; r < requests_.size() && goes_on; ++r) {
            if (before) before(r, requests_[r]);
            engine_->generate({&requests_[r], 1},
                              [&](size_t, int32_t token) { return goes_on = on_token(r, token); });
          }
        });
}

void Live::stop() {
  run_.reset();
  engine_.reset();
}

bool Live::step() {
  const bool stepped = run_->step();
  if (!run_->error().empty()) kv::user_error("the run failed: {}", run_->error());
  return stepped;
}

const std::vector<LiveRun::Token>& Live::generated() const {
  static const std::vector<LiveRun::Token> kNone;
  return run_ ? run_->tokens() : kNone;
}

std::vector<int32_t> Live::tokens(size_t request) const {
  std::vector<int32_t> tokens = requests_.at(request).prompt;
  for (const LiveRun::Token& token : generated()) {
    if (token.request == request) tokens.push_back(token.id);
  }
  return tokens;
}

std::vector<Verb> Live::verbs(std::string help, std::function<void(const std::string&, int)> start,
                              const Story& story, std::string prompt) {
  std::vector<Verb> all = step_and_stop(story);
  const auto run = [start = std::move(start), story](const Words& w) {
    start(w[0].text, w[1].number);
    return story();
  };
  const std::vector<Argument> args{viz::text("PROMPT").field("prompt", std::move(prompt)),
                                   number("TOKENS", 1, 400).or_else("40")};
  all.insert(all.begin(), without_run({{"live", args, std::move(help), run}})[0]);
  return all;
}

std::vector<Verb> Live::step_and_stop(Story story) {
  const auto step_on = [this, story = std::move(story)](const Words& w) {
    std::string told;
    for (int i = 0; i < w[0].number && step(); ++i) told = story();
    return told;
  };
  const auto end = [this](auto&) {
    stop();
    return "the live run is over; the rest is as it was";
  };
  const auto nothing_to_step = [this](auto&) {
    return !running()   ? "there is no live run; `live` begins one"
           : finished() ? "the run has ended; `stop` leads back"
                        : "";
  };
  const auto nothing_to_stop = [this](auto&) { return running() ? "" : "there is no live run"; };
  const Argument count = number("COUNT", 1, 4096).or_else("1");
  return {{"step", {count}, "let the engine go on by COUNT", step_on, nothing_to_step, true},
          {"stop", {}, "end the live run", end, nothing_to_stop}};
}

std::vector<Verb> Live::without_run(std::vector<Verb> verbs) const {
  return unless([this] { return running() ? "the engine is running; `stop` leads back" : ""; },
                std::move(verbs));
}

std::vector<Button> Live::steps(const std::string& step, const std::string& label,
                                const std::string& ten) const {
  return {{"live/step", label, step, "", label.front(), !finished()},
          {"live/step 10", ten, step + " 10", "", 'X'},
          {"live/stop", "Stop", "stop", "", 'E', finished()}};
}

}  // namespace viz
