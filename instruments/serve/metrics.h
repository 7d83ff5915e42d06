#pragma once

// Counters, gauges and histograms under vLLM's names, in the text format of Prometheus (0.0.4).

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace serve {

/// Observed values, counted in buckets.
class Histogram {
 public:
  Histogram(std::string name, std::string help, std::vector<double> bounds);
  void observe(double value);
  void observe(std::chrono::duration<double> time) { observe(time.count()); }
  /// All of its lines. `labels` has no braces.
  std::string text(const std::string& labels) const;

 private:
  std::string name_, help_;
  std::vector<double> bounds_;   // ascending
  std::vector<int64_t> counts_;  // [bounds + 1], values up to each bound; the last one has no bound
  double sum_ = 0;
  int64_t count_ = 0;
};

/// Counters of a server. Times are in seconds.
class Metrics {
 public:
  Metrics(const std::string& model_name, int max_model_len, int block_size, int num_blocks);

  // Gauges.
  int num_running = 0, num_waiting = 0;
  double kv_usage = 0;  // share of the blocks in use
  // Counters.
  // Tokens looked up and found: on the device, and of the rest in the host's memory, a file or a
  // store.
  int64_t prefix_queries = 0, prefix_hits = 0;
  int64_t external_queries = 0, external_hits = 0;
  int64_t preemptions = 0, prompt_tokens = 0, generation_tokens = 0;
  std::map<std::string, int64_t> finished = {
      {"stop", 0}, {"length", 0}, {"abort", 0}, {"error", 0}, {"repetition", 0}};
  int64_t refused = 0;  // requests that came when the queue was full
  int64_t equal_bits_checked = 0, equal_bits_failed = 0;
  std::vector<std::pair<const char*, int64_t>> store_blocks = {};  // by what happened to them
  // Histograms.
  Histogram time_to_first_token, inter_token_latency, e2e_latency, queue_time, prefill_time,
      decode_time, inference_time, iteration_tokens, prompt_lengths, generation_lengths;

  std::string text() const;

 private:
  std::string labels_, cache_config_;
};

/// A label's value: backslash, quote and line end escaped.
std::string escaped(const std::string& value);

}  // namespace serve
