#pragma once

// Which requests run in the next pass, and how many tokens of each. Source: vLLM v1's Scheduler
// (v0.22.1: vllm/v1/core/sched/scheduler.py).

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv_manager.h"
#include "lessons/07_lru_eviction/block_pool.h"

namespace lesson08 {

using lesson06::ExtraKeys;
using lesson06::KvCacheManager;

enum class Order {
  kFirstCome,  // the earliest arrival is the most important; the latest one is preempted
  kPriority,   // the smallest number first, then first come; the largest is preempted
};

struct SchedulerOptions {
  int max_tokens_per_pass = 512;  // the token budget: rows of one pass, of all requests together
  int max_running = 64;           // requests that hold blocks
  int max_chunk = 0;              // tokens of one request in one pass; 0 means no limit
  bool chunked_prefill = true;    // if false, a prompt runs in one pass or waits
  /// The admission gate: a waiting request starts only if all its known tokens fit the free blocks.
  /// If false, it starts as soon as its first chunk fits.
  bool full_sequence_must_fit = true;
  Order order = Order::kFirstCome;
};
void check(const SchedulerOptions& options);  // throws UserError for invalid options

/// Options of one request.
struct RequestOptions {
  int priority = 0;
  ExtraKeys extra_keys = {};
  bool skip_reading_prefix_cache = false;  // it finds nothing; others find what it computes
};

/// A request as the scheduler sees it: its tokens and how many are computed, no text and no logits.
/// A request is running if and only if it holds blocks.
struct ScheduledRequest {
  int64_t id = 0;
  int64_t arrival = 0;          // order of submission
  RequestOptions options;       // without the extra keys, which are in `hashes`
  std::vector<int32_t> tokens;  // known: the prompt and what has been generated
  BlockHashes hashes;           // of the tokens' full blocks; they outlast waiting and preemption
  int num_prompt = 0;
  int max_tokens = 0;        // generated at most
  int num_computed = 0;      // known tokens whose K and V are written
  int num_cached = 0;        // tokens found in the cache when it last started
  bool wants_token = false;  // its last row gave logits, and the token is still to come
  int num_preemptions = 0;
};

/// A request's share of a pass: its tokens from tokens[num_computed] on, num_tokens of them.
struct Chunk {
  int64_t id = 0;
  int num_tokens = 0;
  friend bool operator==(const Chunk&, const Chunk&) = default;
};

/// The next pass: what runs in it, and which requests started, came back or were preempted.
struct SchedulerOutput {
  std::vector<Chunk> chunks;
  std::vector<int64_t> started;    // requests with a chunk that run for the first time
  std::vector<int64_t> resumed;    // requests with a chunk that run again after a preemption
  std::vector<int64_t> preempted;  // requests that gave their blocks back since the last output
  friend bool operator==(const SchedulerOutput&, const SchedulerOutput&) = default;
};

/// Composes passes from two queues over one pool. Running requests come first. When the pool has no
/// block for a running request, the least important one is *preempted*: it gives all its blocks
/// back, waits at its old place in the order, and is computed again later. Then waiting requests
/// start while budget and pool allow, but not in a pass that has preempted: a newcomer would take
/// the blocks that were just freed. In first-come order every request is served in the end.
class Scheduler {
 public:
  /// Borrows the manager: lesson 06's, or another one with its functions.
  template <class Manager>
  Scheduler(Manager& manager, const SchedulerOptions& options)
      : Scheduler(std::make_unique<KvManagerOver<Manager>>(manager), options) {}
  virtual ~Scheduler() = default;
  Scheduler(const Scheduler&) = delete;  // requests_ points into the queues
  Scheduler& operator=(const Scheduler&) = delete;

  /// Throws UserError for a request that can never fit the pool or, without chunked prefill, a
  /// pass: "request 7 needs 63 blocks, the pool has 49".
  void check_fits(int64_t id, size_t num_prompt, int max_tokens) const;
  /// Adds a waiting request that generates at most `max_tokens` tokens. Throws UserError for an id
  /// that is in use, an empty prompt, or a request that can never fit.
  void submit(int64_t id, std::span<const int32_t> prompt, int max_tokens,
              RequestOptions options = {});

  /// Returns the next pass; each chunk has its slots. It has no chunks if there is nothing to do or
  /// all of its requests were preempted. Every call is followed by one update() with its chunks, or
  /// by a finish() for each request. The output is valid until the next call.
  virtual const SchedulerOutput& schedule();
  /// Notes that the pass is done: K and V of the chunks are written.
  void update(std::span<const Chunk> chunks);
  /// Gives a request the next token that it wants, also if it was preempted in between.
  virtual void add_token(int64_t id, int32_t token);
  /// Ends a request in any state and frees its blocks. Returns false if there is no such request.
  virtual bool finish(int64_t id);
  /// Empties the cache. With preempt_running, running requests are preempted first and the next
  /// output lists them. Otherwise, if requests are running, returns false and changes nothing.
  bool reset_prefix_cache(bool preempt_running = false);

  /// Tokens of a request that run in a pass with `budget` tokens left, once K and V of its first
  /// num_computed tokens are written. 0 if its next token is still to come, or if it must run in
  /// one piece and does not fit.
  int chunk_of(const ScheduledRequest& request, int num_computed, int budget) const;
  const ScheduledRequest& request(int64_t id) const;  // std::out_of_range for an unknown id
  bool wants_token(int64_t id) const { return request(id).wants_token; }
  bool idle() const { return requests_.empty(); }
  std::vector<int64_t> waiting() const { return ids_of(waiting_); }  // the next one first
  std::vector<int64_t> running() const { return ids_of(running_); }  // as they started
  int64_t num_preemptions() const { return num_preemptions_; }
  const SchedulerOptions& options() const { return options_; }
  const KvManager& manager() const { return *manager_; }

  /// Throws std::logic_error unless every request is in one queue, those that hold blocks are in
  /// running(), and the pool is sound.
  void check() const;

 private:
  Scheduler(std::unique_ptr<KvManager> manager, const SchedulerOptions& options);

  /// A request moves between the queues by splice(), which cannot fail.
  using Queue = std::list<ScheduledRequest>;

  static std::vector<int64_t> ids_of(const Queue& queue) {
    std::vector<int64_t> ids;
    for (const ScheduledRequest& request : queue) ids.push_back(request.id);
    return ids;
  }
  bool before(const ScheduledRequest& a, const ScheduledRequest& b) const;
  bool schedule_running(int& budget);
  void schedule_waiting(int& budget);
  void add_chunk(const ScheduledRequest& request, int num_tokens, int& budget);
  void take_chunk_back(const ScheduledRequest& request, int& budget);
  void start(Queue::iterator request, int num_computed);
  void preempt(Queue::iterator request);
  void wait(Queue& from, Queue::iterator request);

  std::unique_ptr<KvManager> manager_;
  SchedulerOptions options_;
  Queue waiting_;  // the most important in front
  Queue running_;  // in the order in which they started
  std::unordered_map<int64_t, Queue::iterator> requests_;
  SchedulerOutput output_;          // of the last call; its lists have room for max_running
  std::vector<int64_t> preempted_;  // for the next output
  int64_t num_submitted_ = 0;
  int64_t num_preemptions_ = 0;
};

}  // namespace lesson08
