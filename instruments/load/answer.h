#pragma once

// One answer of a server with OpenAI's API, read from its stream of events while it comes.

#include <chrono>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace load {

using Clock = std::chrono::steady_clock;

/// The outcome of one request.
struct Outcome {
  size_t request = 0;         // its index in the workload
  std::string text;           // of the first choice
  std::string answer;         // of all choices: texts, thoughts, calls, reasons, probabilities
  std::string error;          // the kind, "HTTP 503"; empty if the answer is whole
  std::string error_message;  // what the server said, or what to do
  double first_token = 0;     // seconds from sending to the first text of any kind
  double total = 0;           // seconds from sending to the end
  std::vector<double> gaps;   // seconds between two texts
  int64_t prompt_tokens = 0, generated_tokens = 0;
  int64_t cached_tokens = -1;  // of the prompt, found in the cache; -1 if the server does not say
};

/// Server-sent events, as their bytes come.
class AnswerReader {
 public:
  explicit AnswerReader(Clock::time_point sent, size_t max_bytes = size_t{256} << 20)
      : sent_(sent), max_bytes_(max_bytes) {}

  /// Reads the next bytes of the stream, which came at `now`. Throws std::runtime_error for a
  /// stream of more than `max_bytes`.
  void take(std::string_view bytes, Clock::time_point now);
  /// Fills texts, times and errors of `outcome`. A stream without its end, of which a choice has no
  /// finish_reason, is an error; some servers send no [DONE].
  void finish(Outcome& outcome, Clock::time_point now);

 private:
  struct Choice {
    std::string text, beside, finish_reason, logprobs;
  };
  void end_line(Clock::time_point now);
  void end_event(Clock::time_point now);
  void fail(const std::string& kind, const std::string& message);
  double since_sent(Clock::time_point now) const {
    return std::chrono::duration<double>(now - sent_).count();
  }

  Clock::time_point sent_, last_ = {};
  size_t max_bytes_, num_bytes_ = 0;
  std::string line_, data_;
  std::map<int64_t, Choice> choices_;  // by index
  Outcome outcome_;
  bool any_text_ = false, done_ = false;
};

/// The failure of an answer that goes on for more than `max_bytes`.
std::runtime_error too_long(size_t max_bytes);

/// The message of an error body, {"error": {"message": ..}}; else the beginning of the body.
std::string error_message_of(const std::string& body);

}  // namespace load
