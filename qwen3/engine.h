#pragma once

// The seam between a lesson and the ladder: every lesson's engine takes the same requests and gives
// tokens, the bits of the logits, and counters.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "qwen3/model.h"
#include "qwen3/sampling.h"

namespace kv {

struct Request {
  std::vector<int32_t> prompt;  // at least one token
  int max_tokens = 0;           // 0 means that nothing is generated
  SamplingParams sampling;
  std::vector<int32_t> stop_token_ids;  // generation ends after one of these
  int min_tokens = 0;                   // tokens generated before a stop token may be drawn
  int num_logprobs = -1;  // most likely tokens whose log probabilities come with each token, beside
                          // its own; -1 means that none comes
};

enum class FinishReason { kLength, kStop, kCancelled };
const char* name_of(FinishReason reason);

struct Completion {
  std::vector<int32_t> tokens;  // generated tokens, the stop token included
  uint64_t logits_xxh64 = 0;    // digest of the logits of every generated token, in order
  FinishReason finish = FinishReason::kLength;
};

/// Cost of a run. Bytes count K and V in all layers.
struct EngineCounters {
  int64_t passes = 0;             // forward passes
  int64_t max_sequences = 0;      // most sequences in one pass
  int64_t kv_rows_computed = 0;   // rows of K and V computed: one per token per pass
  int64_t kv_bytes_reserved = 0;  // most bytes set aside for KV at any time
  int64_t kv_bytes_used = 0;      // reserved bytes that held a token's K and V at that moment
  int64_t kv_bytes_copied = 0;    // bytes of KV moved for bookkeeping
  double seconds = 0;             // time inside generate()
  std::map<std::string, int64_t> by_name;  // counters of some lessons

  /// The counter `name`; 0 if it is missing.
  int64_t named(const std::string& name) const {
    const auto found = by_name.find(name);
    return found == by_name.end() ? 0 : found->second;
  }
  /// Raises the counter `name` to `value` if `value` is larger.
  void note_peak(const std::string& name, int64_t value) {
    by_name[name] = std::max(by_name[name], value);
  }
};

/// Called for each generated token. Returning false cancels that request.
using TokenCallback = std::function<bool(size_t request, int32_t token)>;

/// Cost of one forward pass.
struct PassCost {
  int rows = 0;        // tokens it ran through the model; each gives one row of K and one of V
  double seconds = 0;  // wall time of the pass, sampling included
};

struct GenerateResult {
  std::vector<Completion> completions;  // in the order of the requests
  EngineCounters counters;
  std::vector<PassCost> passes;  // in the order they ran
};

/// Tokens generated for all requests together.
int64_t num_generated_tokens(const GenerateResult& result);

/// Options of any lesson's engine. Every lesson has, in its namespace, a function
///   std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const Options& options);
/// whose Options are these, or have them as a member `engine`.
struct EngineOptions {
  /// Most tokens of one sequence that go through the model: its prompt and all but the last of its
  /// generated tokens. 0 means the largest number that a request of the generate() needs.
  int max_seq_len = 0;
};

/// One lesson's way to generate. Holds the lesson's cache; borrows the model.
class Engine {
 public:
  virtual ~Engine() = default;
  /// Runs all requests to their end. Throws UserError for a request that can never be served (empty
  /// prompt, longer than the cache allows), before anything is computed.
  virtual GenerateResult generate(std::span<const Request> requests,
                                  const TokenCallback& on_token = {}) = 0;
  /// Slots for K and V that these requests must find before they start together, so that none of
  /// them runs out. 0 if the lesson keeps nothing, or if requests that run out give way.
  virtual int64_t slots_to_start(std::span<const Request>) const { return 0; }
};

/// Streaming XXH64 (seed 0) over rows of logits.
class LogitsDigest {
 public:
  LogitsDigest();
  ~LogitsDigest();
  LogitsDigest(LogitsDigest&&) noexcept;
  LogitsDigest& operator=(LogitsDigest&&) noexcept;
  void add(std::span<const float> logits);
  uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// One digest for a whole run: the XXH64 of the completions' digests, in request order.
uint64_t combined_digest(std::span<const Completion> completions);

/// Peak of (reserved, used) as one pair: the moment with the most bytes reserved, and among those
/// the one with the most bytes used.
void note_kv_bytes(EngineCounters& counters, int64_t reserved, int64_t used);

}  // namespace kv
