#pragma once

// The requests of one serve(): when they come, what they generate, and what is measured of them.

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/model/engine.h"
#include "common/model/generation.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "lessons/08_scheduler/program/serve_options.h"

namespace lesson08 {

/// When a request comes, and how important it is.
struct Arrival {
  int pass = 0;      // it is submitted before this pass (passes without work are skipped)
  int priority = 0;  // for Order::kPriority: the smallest number first
};

/// Seconds since serve() began.
struct RequestTimes {
  double arrived = 0;
  double first_token = 0;  // 0: there was none
  double ended = 0;
  int num_cached_tokens = 0;  // when it started first
  int num_preemptions = 0;
};

struct ServeResult {
  kv::GenerateResult generated;
  std::vector<RequestTimes> times;  // in the order of the requests
  int64_t num_preemptions = 0;
  double waste = 0;  // empty slots of used blocks, as a share; mean over the passes
  /// Of each pass: what the host does while the device has nothing to do, from the last pass's
  /// tokens to the end of this one's launch. Counted with choose_on_device.
  std::vector<double> host_seconds;
};

/// Request i has the id i in the scheduler.
class ServedRequests {
 public:
  /// Borrows all but the options. `arrivals` is empty or has one for each request. Throws UserError
  /// for a request that is wrong in itself.
  ServedRequests(std::span<const kv::Request> requests, std::span<const Arrival> arrivals,
                 const kv::TokenCallback& on_token, kv::Model& model, const ServeOptions& options);
  ServedRequests(const ServedRequests&) = delete;  // its callback points to it
  ServedRequests& operator=(const ServedRequests&) = delete;

  /// Throws UserError for a request that can never run. Before anything is computed.
  void check(const Scheduler& scheduler) const;
  /// Submits whoever comes before the next pass. False: nobody is there, and nobody will come.
  bool submit_arrivals(Scheduler& scheduler);
  void cancel_all();

  // A pass: note_start(), compute(), note_end().
  void note_start(const Scheduler& scheduler, const SchedulerOutput& output);
  /// Its rows run through the model. With choose_on_device, `on_chosen` may queue what is still to
  /// be done with the tokens, int32 [rows of logits], before the host gets them: -1 is no token.
  using OnChosen = std::function<void(int32_t* device_chosen)>;
  void compute(const kv::PassRows& rows, kv::Attention& attention, const OnChosen& on_chosen);
  /// To each request of the pass its next token, or its end. A request with several rows of logits
  /// gets a token of each, as long as it wants one.
  void note_end(const kv::PassRows& rows, const SchedulerOutput& output, Scheduler& scheduler,
                const lesson03::PagedKvCache& cache);
  ServeResult result(const Scheduler& scheduler);

 private:
  /// The device may choose the next tokens.
  struct Generation : kv::Generation {
    using kv::Generation::append;
    using kv::Generation::Generation;
  };
  double now() const;
  Arrival arrival_of(size_t i) const;
  void choose_on_device(size_t num_rows, const OnChosen& on_chosen);
  void choose_token(const kv::PassRows& rows, size_t logit_row);
  void note_blocks(const KvCacheManager& manager, const lesson03::PagedKvCache& cache);

  std::span<const kv::Request> requests_;
  std::span<const Arrival> arrivals_;
  kv::Model* model_;
  bool choose_on_device_;
  std::span<const float> logits_;   // [logit rows, vocab] of the pass; or
  kv::DeviceBuffer device_chosen_;  // int32 [logit rows], with choose_on_device
  std::vector<int32_t> chosen_;     // [logit rows], with choose_on_device
  std::vector<size_t> to_come_;     // in the order of their arrival
  size_t num_submitted_ = 0;        // of these
  int pass_ = -1;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  kv::PassTimer timer_;
  double device_done_ = 0;  // when it had nothing to do any more
  ServeResult result_;
  const kv::TokenCallback on_token_;
  Generation generation_;  // borrows on_token_
};

}  // namespace lesson08
