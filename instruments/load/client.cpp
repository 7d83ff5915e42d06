#include "instruments/load/client.h"

#include <event2/event.h>
#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "common/error.h"
#include "programs/run_main.h"

namespace load {

struct Client::Answer {
  bool is_stream = false;
  Outcome outcome = {};
  AnswerReader reader = AnswerReader(Clock::now());
  int status = 0;    // 0 until a head has come
  std::string body;  // of an answer that is no stream

  void take(std::string_view bytes) {
    if (is_stream && status == 200) return reader.take(bytes, Clock::now());
    constexpr size_t kMaxBody = 1 << 20;
    body += bytes;
    if (body.size() > kMaxBody) throw too_long(kMaxBody);
  }
  void end(const std::string& failure) {
    if (is_stream) reader.finish(outcome, Clock::now());
    if (status != 0 && status != 200) {
      outcome.error = fmt::format("HTTP {}", status);
      outcome.error_message = error_message_of(body);
    } else if (!failure.empty()) {
      outcome.error = failure;
      outcome.error_message = status == 0 ? "no answer came" : "in the middle of an answer";
    } else if (!is_stream) {
      outcome.text = std::move(body);
    }
  }
};

Client::Client(const ClientOptions& options) : options_(options), loop_(event_base_new()) {
  if (loop_ == nullptr) throw std::runtime_error("libevent cannot make its event loop");
  timer_ = event_new(
      loop_, -1, 0,
      [](int, short, void* loop) { event_base_loopbreak(static_cast<event_base*>(loop)); }, loop_);
  http_.emplace(loop_, /*keeps_connections=*/true);
}

Client::~Client() {
  http_.reset();
  event_free(timer_);
  event_base_free(loop_);
}

HttpClient::Id Client::start(std::shared_ptr<Answer> answer, const std::string& path,
                             std::optional<std::string> body, double timeout) {
  Call call{.server = options_.url, .path = path, .timeout = timeout};
  if (!options_.api_key.empty()) {
    call.headers.emplace_back("Authorization", "Bearer " + options_.api_key);
  }
  if (body) call.headers.emplace_back("Content-Type", "application/json");
  call.body = std::move(body);
  return http_->send(call,
                     {.on_head = [answer](int status, const auto&) { answer->status = status; },
                      .on_bytes = [answer](std::string_view bytes) { answer->take(bytes); },
                      .on_end =
                          [this, answer](const std::string& failure) {
                            answer->end(failure);
                            ended_.push_back(std::move(answer->outcome));
                            event_base_loopbreak(loop_);
                          }});
}

void Client::send(size_t request, const std::string& path, const std::string& body) {
  auto answer = std::make_shared<Answer>();
  answer->is_stream = true;
  answer->outcome.request = request;
  start(std::move(answer), path, body, options_.timeout);
}

std::string Client::get(const std::string& path) {
  constexpr int kSeconds = 10;  // in which the whole answer must come
  const Clock::time_point limit = Clock::now() + std::chrono::seconds(kSeconds);
  const HttpClient::Id id = start(std::make_shared<Answer>(), path, {}, kSeconds);
  std::vector<Outcome> ended;
  while (ended.empty()) {
    ended = wait(1);
    if (Clock::now() > limit) http_->fail(id, kTimedOut);
    if (kv::interrupted()) http_->fail(id, "interrupted");
  }
  const Outcome& outcome = ended.front();
  const std::string& server = options_.url.text;
  if (outcome.error == kNoServer) {
    kv::user_error("no server answers at {}; start one, in another terminal: ./course serve",
                   server);
  }
  if (outcome.error == "HTTP 401") {
    kv::user_error("{} wants a key: --api-key KEY ({})", server, outcome.error_message);
  }
  if (!outcome.error.empty()) {
    kv::user_error("{}{}: {}, {}; wanted a server with OpenAI's API", server, path, outcome.error,
                   outcome.error_message);
  }
  return outcome.text;
}

std::vector<Outcome> Client::wait(double seconds) {
  if (ended_.empty()) {
    const timeval time = time_of(seconds);
    event_add(timer_, &time);
    event_base_dispatch(loop_);
    event_del(timer_);
  }
  return std::exchange(ended_, {});
}

}  // namespace load
