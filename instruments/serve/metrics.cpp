#include "instruments/serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace serve {
namespace {

const std::vector<double> kFirstToken = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                         1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
const std::vector<double> kBetweenTokens = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                                            .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
const std::vector<double> kOfRequest = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                        30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const std::vector<double> kOfPass = {1,   8,    16,   32,   64,   128,  256,
                                     512, 1024, 2048, 4096, 8192, 16384};

/// 1 2 5 10 20 50 .., up to a number of tokens.
std::vector<double> lengths_up_to(int most) {
  std::vector<double> bounds;
  for (int64_t ten = 1;; ten *= 10) {
    for (const int64_t digit : {1, 2, 5}) {
      if (ten * digit > most) return bounds;
      bounds.push_back(static_cast<double>(ten * digit));
    }
  }
}

/// As Python's clients write it: 1.0, and not 1.
std::string real(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_not_of("0123456789-") == text.npos ? text + ".0" : text;
}

std::string head(const std::string& name, const char* kind, const std::string& help) {
  return fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, kind);
}

}  // namespace

Histogram::Histogram(std::string name, std::string help, std::vector<double> bounds)
    : name_(std::move(name)),
      help_(std::move(help)),
      bounds_(std::move(bounds)),
      counts_(bounds_.size() + 1) {}

void Histogram::observe(double value) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  ++counts_[static_cast<size_t>(bucket)];
  sum_ += value;
  ++count_;
}

std::string Histogram::text(const std::string& labels) const {
  std::string text = head(name_, "histogram", help_);
  int64_t up_to = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    up_to += counts_[i];
    const std::string bound = i < bounds_.size() ? real(bounds_[i]) : "+Inf";
    text += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name_, labels, bound, up_to);
  }
  return text +
         fmt::format("{0}_sum{{{1}}} {2}\n{0}_count{{{1}}} {3}\n", name_, labels, sum_, count_);
}

std::string escaped(const std::string& value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    text += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return text;
}

Metrics::Metrics(const std::string& model_name, int max_model_len, int block_size, int num_blocks)
    : time_to_first_token("vllm:time_to_first_token_seconds", "From arrival to first token.",
                          kFirstToken),
      inter_token_latency("vllm:inter_token_latency_seconds", "From a token to the next.",
                          kBetweenTokens),
      e2e_latency("vllm:e2e_request_latency_seconds", "From arrival to last token.", kOfRequest),
      queue_time("vllm:request_queue_time_seconds", "From arrival to first pass.", kOfRequest),
      prefill_time("vllm:request_prefill_time_seconds", "From first pass to first token.",
                   kOfRequest),
      decode_time("vllm:request_decode_time_seconds", "From first token to last.", kOfRequest),
      inference_time("vllm:request_inference_time_seconds", "From first pass to last token.",
                     kOfRequest),
      iteration_tokens("vllm:iteration_tokens_total", "Rows of a pass.", kOfPass),
      prompt_lengths("vllm:request_prompt_tokens", "Tokens of a prompt.",
                     lengths_up_to(max_model_len)),
      generation_lengths("vllm:request_generation_tokens", "Tokens of an answer.",
                         lengths_up_to(max_model_len)),
      labels_(fmt::format("engine=\"0\",model_name=\"{}\"", escaped(model_name))),
      cache_config_(fmt::format(
          "vllm:cache_config_info{{block_size=\"{}\",engine=\"0\",num_gpu_blocks=\"{}\"}} 1\n",
          block_size, num_blocks)) {}

std::string Metrics::text() const {
  std::string text;
  const auto gauge = [&](const char* name, const char* help, auto value) {
    text += head(name, "gauge", help) + fmt::format("{}{{{}}} {}\n", name, labels_, value);
  };
  const auto counter = [&](const std::string& name, const char* help, int64_t value) {
    text += head(name, "counter", help) + fmt::format("{}{{{}}} {}\n", name, labels_, value);
  };
  gauge("vllm:num_requests_running", "Requests that hold blocks.", num_running);
  gauge("vllm:num_requests_waiting", "Requests that wait for blocks or for the store.",
        num_waiting);
  gauge("vllm:kv_cache_usage_perc", "Share of the blocks in use, 0 to 1.", kv_usage);
  text += head("vllm:cache_config_info", "gauge", "The pool.") + cache_config_;
  counter("vllm:prefix_cache_queries_total", "Tokens looked up in the cache.", prefix_queries);
  counter("vllm:prefix_cache_hits_total", "Tokens found on the device.", prefix_hits);
  counter("vllm:external_prefix_cache_queries_total", "Tokens not found on the device.",
          external_queries);
  counter("vllm:external_prefix_cache_hits_total",
          "Tokens found in host memory, file or store, not on the device.", external_hits);
  counter("vllm:num_preemptions_total", "Preemptions.", preemptions);
  counter("vllm:prompt_tokens_total", "Tokens of prompts.", prompt_tokens);
  counter("vllm:generation_tokens_total", "Tokens generated.", generation_tokens);
  text += head("vllm:request_success_total", "counter", "Requests that have ended.");
  for (const auto& [reason, count] : finished) {
    text += fmt::format("vllm:request_success_total{{{},finished_reason=\"{}\"}} {}\n", labels_,
                        reason, count);
  }
  for (const Histogram* one :
       {&time_to_first_token, &inter_token_latency, &e2e_latency, &queue_time, &prefill_time,
        &decode_time, &inference_time, &iteration_tokens, &prompt_lengths, &generation_lengths}) {
    text += one->text(labels_);
  }
  counter("course:requests_refused_total", "Requests that came when the queue was full.", refused);
  counter("course:equal_bits_checked_total", "Requests that were computed twice.",
          equal_bits_checked);
  counter("course:equal_bits_failed_total", "Requests whose second answer was another.",
          equal_bits_failed);
  if (store_blocks.empty()) return text;
  text += head("course:store_blocks_total", "counter", "Blocks of the shared store.");
  for (const auto& [event, count] : store_blocks) {
    text += fmt::format("course:store_blocks_total{{{},event=\"{}\"}} {}\n", labels_, event, count);
  }
  return text;
}

}  // namespace serve
