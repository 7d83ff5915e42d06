#pragma once

// The requests that are being answered. Tokens come from the passes' thread, bytes go to the
// clients. The requests of a client that disconnects are aborted. All of it runs on the loop's
// thread.

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "instruments/serve/api/answer.h"
#include "instruments/serve/equal_bits.h"
#include "instruments/serve/http/http.h"
#include "instruments/serve/metrics.h"
#include "instruments/serve/pass_thread.h"

namespace serve {

struct RequestLimits {
  int max_model_len = 0;
  int max_queued = 1024;        // requests that wait for their first pass
  int max_queued_tokens = 0;    // tokens of their prompts; 0 means unlimited
  bool greedy = false;          // the device chooses the tokens: no temperature, no logprobs
  double check_equal_bits = 0;  // share of the requests that are computed twice
};

class Requests {
 public:
  /// Borrows all of them. `eos` are the tokens that end a text.
  Requests(const kv::Tokenizer& tokenizer, std::vector<int32_t> eos, const RequestLimits& limits,
           Metrics& metrics);
  /// Must be called before the first request.
  void set_passes(PassThread* passes) { passes_ = passes; }

  /// Throws ApiError (503) if the queue has no room for `num_choices` more requests, or has all the
  /// tokens that it may have.
  void check_room(int num_choices);
  /// Throws ApiError for a prompt that is too long, and other values that do not fit together.
  void start(const std::shared_ptr<Exchange>& exchange, const ApiRequest& request,
             const std::vector<std::vector<int32_t>>& prompts, const AnswerHead& head);
  void take(const PassReport& report);

  /// Why the lesson's server is dead; empty as long as it lives.
  const std::string& failure() const { return failure_; }

 private:
  struct Live {
    Answer answer;
    std::shared_ptr<Exchange> exchange;
    bool stream = false;
    int64_t first_id = 0;  // choice i has the id first_id + i
    Clock::time_point arrived = {};
    bool touched = false;  // has news for its client
  };
  /// A choice that gets tokens, or waits for them.
  struct Choice {
    std::shared_ptr<Live> live;
    int num_prompt = 0, num_tokens = 0;
    bool waits = true;  // for its first pass
    Clock::time_point started = {}, first_token = {}, last_token = {};
  };
  using Choices = std::unordered_map<int64_t, Choice>;

  kv::Request request_for(const ApiRequest& request, const std::vector<int32_t>& prompt) const;
  void note_started(const Started& started, Clock::time_point began);
  void count_lookups(const Pass& pass);
  void take_token(const kv::NewToken& token, bool last_of_pass,
                  std::optional<kv::FinishReason> ended, Clock::time_point now);
  void note_times(Choice& choice, bool last_of_pass, Clock::time_point now);
  void complete(Choices::iterator choice, bool by_server);
  void abandon(Live& live);
  void fail(std::shared_ptr<Live> live, const ApiError& error);
  void flush(Live& live);
  void flush_all(const PassReport& report);
  void leave_queue(Choice& choice);

  const kv::Tokenizer* tokenizer_;
  std::vector<int32_t> eos_;
  RequestLimits limits_;
  Metrics& metrics_;
  PassThread* passes_ = nullptr;
  EqualBits equal_bits_;
  Choices choices_;  // by id
  std::vector<std::shared_ptr<Live>> touched_;
  /// A complete answer that leaves when the store has answered the puts issued up to then.
  struct Held {
    std::shared_ptr<Live> live;
    int64_t num_puts_issued = 0;
  };
  std::deque<Held> held_;
  int64_t next_id_ = 0;
  int num_queued_ = 0;
  int64_t num_queued_tokens_ = 0;
  std::string failure_;
};

}  // namespace serve
