#include "programs/bench.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "common/parallel.h"

namespace kv {

void add_bench_options(CommandLine& command, BenchOptions& options) {
  add_model_options(command, options.model);
  add_seed_option(command, options.model, "of random data, where there is any");
  command.value("--longest N", options.longest, "longest sequence; lengths double from 1")
      .between(1, 1 << 20);
  add_json_option(command, options.model);
}

double median(std::vector<double> values) {
  if (values.empty()) throw std::invalid_argument("median: no values");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double median_seconds(const std::function<void()>& f, int repeats) {
  std::vector<double> times;
  for (int i = 0; i <= repeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    if (i > 0) times.push_back(time.count());
  }
  return median(std::move(times));
}

double prompt_seconds(Engine& engine, int length, int repeats) {
  const Request request = request_of_length(length, 1);
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    times.push_back(engine.generate({&request, 1}).passes.at(0).seconds);
  }
  return median(std::move(times));
}

double step_seconds(Engine& engine, int length, int steps) {
  const Request request = request_of_length(length, 1 + kWarmUpSteps + steps);
  const auto passes = engine.generate({&request, 1}).passes;
  std::vector<double> times;
  for (size_t i = passes.size() - static_cast<size_t>(steps); i < passes.size(); ++i) {
    times.push_back(passes[i].seconds);
  }
  return median(std::move(times));
}

uint64_t read_words(std::span<const uint64_t> words) {
  constexpr int64_t kChunk = 1 << 16;
  std::atomic<uint64_t> total{0};
  parallel_for(std::ssize(words), kChunk, [&](int64_t begin, int64_t end) {
    const uint64_t* const data = words.data();
    uint64_t sums[4] = {};
    const int64_t part = (end - begin) / 4;  // four streams: one alone waits for the memory
    for (int64_t i = begin; i < begin + part; ++i) {
      for (int stream = 0; stream < 4; ++stream) sums[stream] += data[i + stream * part];
    }
    for (int64_t i = begin + 4 * part; i < end; ++i) sums[0] += data[i];
    for (const uint64_t sum : sums) total += sum;
  });
  return total;
}

Request request_of_length(int length, int max_tokens) {
  Request request;
  for (int i = 0; i < length; ++i) request.prompt.push_back(i % 200);
  request.max_tokens = max_tokens;
  return request;
}

}  // namespace kv
