#pragma once

// Shared parts of the benchmarks: their options, requests of a given length, medians.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "programs/generate.h"

namespace kv {

/// Options of a lesson's benchmark.
struct BenchOptions {
  GenerateOptions model;  // only the model folder, the device, the seed and the JSON file are used
  int longest = 1024;     // lengths double from 1 up to this
};

/// --model, --device, --seed, --longest and --json.
void add_bench_options(CommandLine& command, BenchOptions& options);

/// The middle value, or the upper one of the two middle values. Throws std::invalid_argument for an
/// empty list.
double median(std::vector<double> values);

/// Median seconds of `f`, called `repeats` times after one call to warm up.
double median_seconds(const std::function<void()>& f, int repeats = 15);

/// A plain read of `words` by all threads: the ceiling of what reads them once. Returns their sum.
uint64_t read_words(std::span<const uint64_t> words);

/// Median seconds of an engine's pass over a prompt of `length` tokens, of `repeats` requests.
double prompt_seconds(Engine& engine, int length, int repeats);

/// Median seconds of `steps` passes of one row after a prompt of `length` tokens. The first passes
/// after it warm up (and, on CUDA, capture the graph).
double step_seconds(Engine& engine, int length, int steps);
/// Passes after the prompt that step_seconds() does not count.
inline constexpr int kWarmUpSteps = 3;

/// A request with a prompt of `length` tokens. The choice of tokens does not change the cost.
Request request_of_length(int length, int max_tokens);

}  // namespace kv
