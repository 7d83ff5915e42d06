#include "qwen3/engine.h"

#include <xxhash.h>

#include <new>

#include "common/hash.h"

namespace kv {

const char* name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kLength:
      return "length";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "?";
}

struct LogitsDigest::State {
  State() : xxh(XXH64_createState()) {
    if (!xxh) throw std::bad_alloc();
    XXH64_reset(xxh, 0);
  }
  ~State() { XXH64_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  XXH64_state_t* xxh;
};

LogitsDigest::LogitsDigest() : state_(std::make_unique<State>()) {}
LogitsDigest::~LogitsDigest() = default;
LogitsDigest::LogitsDigest(LogitsDigest&&) noexcept = default;
LogitsDigest& LogitsDigest::operator=(LogitsDigest&&) noexcept = default;

void LogitsDigest::add(std::span<const float> logits) {
  XXH64_update(state_->xxh, logits.data(), logits.size_bytes());
}

uint64_t LogitsDigest::value() const { return XXH64_digest(state_->xxh); }

uint64_t combined_digest(std::span<const Completion> completions) {
  std::vector<uint64_t> digests;
  for (const Completion& completion : completions) digests.push_back(completion.logits_xxh64);
  return xxh64_of<uint64_t>(digests);
}

void note_kv_bytes(EngineCounters& counters, int64_t reserved, int64_t used) {
  if (reserved < counters.kv_bytes_reserved) return;
  const bool new_peak = reserved > counters.kv_bytes_reserved;
  if (new_peak || used > counters.kv_bytes_used) counters.kv_bytes_used = used;
  counters.kv_bytes_reserved = reserved;
}

int64_t num_generated_tokens(const GenerateResult& result) {
  int64_t tokens = 0;
  for (const Completion& completion : result.completions) {
    tokens += static_cast<int64_t>(completion.tokens.size());
  }
  return tokens;
}

}  // namespace kv
