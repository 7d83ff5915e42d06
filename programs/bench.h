#pragma once

// What the benchmarks share: their options, requests of a given length, medians.

#include <functional>
#include <string>
#include <vector>

#include "programs/generate.h"

namespace kv {

/// What can be asked of a lesson's benchmark.
struct BenchOptions {
  GenerateOptions model;  // of these: the model folder, the device, the seed and the JSON file
  int longest = 1024;     // lengths double from 1 up to this
};

/// --model, --device, --seed, --longest and --json.
void add_bench_options(CommandLine& command, BenchOptions& options);

/// The middle value; the upper one of two. Throws std::invalid_argument for none.
double median(std::vector<double> values);

/// Median seconds of `f`, called `repeats` times after one call to warm up.
double median_seconds(const std::function<void()>& f, int repeats = 15);

/// A prompt of `length` tokens and max_tokens more. Which tokens they are costs nothing.
Request request_of_length(int length, int max_tokens);

}  // namespace kv
