#include "instruments/serve/requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace serve {

Requests::Requests(const kv::Tokenizer& tokenizer, std::vector<int32_t> eos,
                   const RequestLimits& limits, Metrics& metrics)
    : tokenizer_(&tokenizer),
      eos_(std::move(eos)),
      limits_(limits),
      metrics_(metrics),
      equal_bits_(limits.check_equal_bits) {}

void Requests::check_room(int num_choices) {
  const bool many = num_queued_ + num_choices > limits_.max_queued;
  const bool long_ones =
      limits_.max_queued_tokens > 0 && num_queued_tokens_ >= limits_.max_queued_tokens;
  if (!many && !long_ones) return;
  metrics_.refused += num_choices;
  throw ApiError(503, fmt::format("{} requests with {} tokens wait already; try again later",
                                  num_queued_, num_queued_tokens_));
}

kv::Request Requests::request_for(const ApiRequest& request,
                                  const std::vector<int32_t>& prompt) const {
  const int room = limits_.max_model_len - static_cast<int>(prompt.size());
  if (room < (request.max_tokens == 0 ? 0 : 1)) {
    throw ApiError(400,
                   fmt::format("Input length ({}) leaves no room for an answer in the model's "
                               "maximum context length ({}); wanted a shorter prompt.",
                               prompt.size(), limits_.max_model_len),
                   request.chat ? "messages" : "prompt");
  }
  kv::Request made{.prompt = prompt,
                   .max_tokens = std::min(request.max_tokens.value_or(room), room),
                   .sampling = request.sampling,
                   .stop_token_ids = request.stop_token_ids,
                   .min_tokens = request.text.min_tokens,
                   .num_logprobs = request.num_logprobs};
  if (!request.ignore_eos) {
    made.stop_token_ids.insert(made.stop_token_ids.end(), eos_.begin(), eos_.end());
  }
  if (made.min_tokens > made.max_tokens) {
    throw ApiError(400,
                   fmt::format("min_tokens must be less than or equal to max_tokens={}, got {}.",
                               made.max_tokens, made.min_tokens),
                   "min_tokens");
  }
  const bool draws = request.sampling.temperature != 0 || made.min_tokens > 0;
  if (limits_.greedy && (draws || request.num_logprobs >= 0)) {
    throw ApiError(400,
                   "this server was started with --greedy: temperature must be 0, and neither "
                   "min_tokens nor logprobs are there",
                   draws ? "temperature" : "logprobs");
  }
  return made;
}

void Requests::start(const std::shared_ptr<Exchange>& exchange, const ApiRequest& request,
                     const std::vector<std::vector<int32_t>>& prompts, const AnswerHead& head) {
  std::vector<std::vector<Submission>> groups;
  int64_t id = next_id_;
  for (const std::vector<int32_t>& prompt : prompts) {
    Submission submission{.request = request_for(request, prompt)};
    submission.options.priority = request.priority;
    if (!request.cache_salt.empty()) {
      submission.options.extra_keys = {{lesson06::ExtraKey::Kind::kSalt, request.cache_salt}};
    }
    std::vector<Submission>& group = groups.emplace_back();
    for (int sample = 0; sample < request.n; ++sample) {
      submission.id = id++;
      submission.request.sampling.sample_index = sample;
      group.push_back(submission);
    }
  }
  const auto live =
      std::make_shared<Live>(Live{.answer = Answer(request, head, prompts, *tokenizer_),
                                  .exchange = exchange,
                                  .stream = request.stream,
                                  .first_id = next_id_,
                                  .arrived = Clock::now()});
  if (live->stream) exchange->begin_stream("text/event-stream; charset=utf-8");
  if (live->answer.is_complete()) return flush(*live);
  next_id_ = id;
  exchange->on_gone = [this, live] { abandon(*live); };
  for (std::vector<Submission>& group : groups) {
    for (const Submission& one : group) {
      const int num_prompt = static_cast<int>(one.request.prompt.size());
      choices_.emplace(one.id, Choice{.live = live, .num_prompt = num_prompt});
      ++num_queued_;
      num_queued_tokens_ += num_prompt;
      equal_bits_.note(one);
    }
    passes_->submit(std::move(group));
  }
}

void Requests::take(const PassReport& report) {
  const kv::StepOutput& step = report.pass.step;
  for (const Started& one : report.pass.started) note_started(one, report.began);
  count_lookups(report.pass);
  std::unordered_map<int64_t, kv::FinishReason> ended;
  for (const kv::EndedRequest& one : step.ended) ended.emplace(one.id, one.reason);
  for (size_t i = 0; i < step.tokens.size(); ++i) {
    const int64_t id = step.tokens[i].id;
    // A pass that has checked guesses gives a request several tokens.
    const bool last = i + 1 == step.tokens.size() || step.tokens[i + 1].id != id;
    const auto reason = last ? ended.find(id) : ended.end();
    take_token(step.tokens[i], last,
               reason == ended.end() ? std::nullopt : std::optional(reason->second), report.ended);
  }
  flush_all(report);
  for (const auto& [id, message] : report.refused) {
    const auto found = choices_.find(id);
    equal_bits_.drop_second(id);
    if (found != choices_.end()) fail(found->second.live, ApiError(400, message));
  }
  metrics_.preemptions += std::ssize(step.preempted);
  if (step.num_rows > 0) metrics_.iteration_tokens.observe(step.num_rows);
  metrics_.num_running = report.pass.state.num_running;
  metrics_.num_waiting = report.pass.state.num_waiting;
  metrics_.store_blocks = report.pass.state.store_blocks;
  if (report.failure.empty()) return;
  failure_ = report.failure;
  while (!choices_.empty()) {
    fail(choices_.begin()->second.live, ApiError(500, "the server has failed: " + failure_));
  }
}

void Requests::leave_queue(Choice& choice) {
  if (!std::exchange(choice.waits, false)) return;
  --num_queued_;
  num_queued_tokens_ -= choice.num_prompt;
}

void Requests::note_started(const Started& started, Clock::time_point began) {
  const auto found = choices_.find(started.id);
  if (found == choices_.end()) return;
  Choice& choice = found->second;
  leave_queue(choice);
  choice.started = began;
  metrics_.queue_time.observe(began - std::min(choice.live->arrived, began));
  choice.live->answer.note_cached(static_cast<int>(started.id - choice.live->first_id),
                                  started.num_cached);
}

void Requests::count_lookups(const Pass& pass) {
  int64_t queries = 0, found = 0;
  for (const Started& one : pass.started) {
    queries += one.num_prompt;
    found += one.num_cached;
  }
  const int64_t external = std::min(pass.num_external.value_or(0), found);
  metrics_.prefix_queries += queries;
  metrics_.prefix_hits += found - external;
  if (!pass.num_external) return;
  metrics_.external_queries += queries - (found - external);
  metrics_.external_hits += external;
}

void Requests::take_token(const kv::NewToken& token, bool last_of_pass,
                          std::optional<kv::FinishReason> ended, Clock::time_point now) {
  if (const auto equal = equal_bits_.compare(token, ended.has_value())) {
    ++metrics_.equal_bits_checked;
    metrics_.equal_bits_failed += *equal ? 0 : 1;
    if (!ended) passes_->abort(token.id);
  }
  const auto found = choices_.find(token.id);
  if (found == choices_.end()) return;
  Choice& choice = found->second;
  Live& live = *choice.live;
  ++choice.num_tokens;
  ++metrics_.generation_tokens;
  equal_bits_.note_token(token);
  const bool goes_on = live.answer.add(static_cast<int>(token.id - live.first_id), token, ended);
  note_times(choice, last_of_pass || !goes_on, now);
  if (!std::exchange(live.touched, true)) touched_.push_back(choice.live);
  if (!goes_on) complete(found, ended.has_value());
}

void Requests::note_times(Choice& choice, bool last_of_pass, Clock::time_point now) {
  if (!last_of_pass) return;
  if (choice.last_token == Clock::time_point{}) {
    choice.first_token = now;
    metrics_.prompt_tokens += choice.num_prompt;
    metrics_.time_to_first_token.observe(now - choice.live->arrived);
    metrics_.prefill_time.observe(now - choice.started);
  } else {
    metrics_.inter_token_latency.observe(now - choice.last_token);
  }
  choice.last_token = now;
}

/// The choice has its last token. If a stop string has ended it, its server does not know yet.
void Requests::complete(Choices::iterator found, bool by_server) {
  const auto& [id, choice] = *found;
  const Answer& answer = choice.live->answer;
  if (!by_server) passes_->abort(id);
  if (auto second = equal_bits_.repeat(id, next_id_)) {
    ++next_id_;
    std::vector<Submission> alone;
    alone.push_back(std::move(*second));
    passes_->submit(std::move(alone));
  }
  ++metrics_.finished[answer.finish_reason(static_cast<int>(id - choice.live->first_id))];
  metrics_.e2e_latency.observe(choice.last_token - choice.live->arrived);
  metrics_.decode_time.observe(choice.last_token - choice.first_token);
  metrics_.inference_time.observe(choice.last_token - choice.started);
  metrics_.prompt_lengths.observe(choice.num_prompt);
  metrics_.generation_lengths.observe(choice.num_tokens);
  choices_.erase(found);
}

/// The client has gone, or its request has failed.
void Requests::abandon(Live& live) {
  for (int i = 0; i < live.answer.num_choices(); ++i) {
    const int64_t id = live.first_id + i;
    const auto found = choices_.find(id);
    if (found == choices_.end()) continue;
    leave_queue(found->second);
    passes_->abort(id);
    equal_bits_.forget(id);
    ++metrics_.finished["abort"];
    choices_.erase(found);
  }
}

/// Takes the pointer by value, because abandon() erases the choices that hold the caller's.
void Requests::fail(std::shared_ptr<Live> live, const ApiError& error) {
  abandon(*live);
  live->exchange->on_gone = nullptr;
  if (!live->stream) return live->exchange->reply(error.status, body_of(error));
  live->exchange->write("data: " + body_of(error) + "\n\ndata: [DONE]\n\n");
  live->exchange->end_stream();
}

/// Nothing waits for the store but answers that need it: the passes' thread runs on.
void Requests::flush_all(const PassReport& report) {
  const LessonState& state = report.pass.state;
  for (const std::shared_ptr<Live>& live : std::exchange(touched_, {})) {
    if (live->answer.needs_store() && live->answer.is_complete()) {
      held_.push_back({live, state.num_puts_issued});
    } else {
      flush(*live);
    }
  }
  while (!held_.empty() &&
         (held_.front().num_puts_issued <= state.num_puts_confirmed || !report.failure.empty())) {
    flush(*held_.front().live);
    held_.pop_front();
  }
}

void Requests::flush(Live& live) {
  live.touched = false;
  const bool complete = live.answer.is_complete();
  if (complete) live.exchange->on_gone = nullptr;
  if (live.stream) {
    live.exchange->write(live.answer.take_chunks());
    if (complete) live.exchange->end_stream();
  } else if (complete) {
    live.exchange->reply(200, live.answer.body());
  }
}

}  // namespace serve
