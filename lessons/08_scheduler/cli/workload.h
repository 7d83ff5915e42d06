#pragma once

// Workloads for a server: made up from a seed, or read from a file.

#include <filesystem>
#include <vector>

#include "lessons/08_scheduler/engine.h"
#include "programs/generate.h"
#include "qwen3/engine.h"
#include "qwen3/tokenizer.h"

namespace lesson08 {

struct Workload {
  std::vector<kv::Request> requests;
  std::vector<kv::Arrival> arrivals;  // in the order of the requests
};

struct WorkloadOptions {
  int num_requests = 48;
  int num_bursts = 6;  // they come in bursts, burst_gap passes apart
  int burst_gap = 25;
  int shortest = 8, longest = 120;  // tokens of a prompt's own part
  int max_tokens = 64;              // of an answer: 1 to max_tokens, short ones more often
  int system_tokens = 96;           // in front of two thirds of all prompts
  kv::SamplingParams sampling;      // of all requests; its seed also makes up the workload
};

/// Deterministic: the tokens are ordinary ones of a vocabulary of `vocab_size`.
Workload make_workload(const WorkloadOptions& options, int vocab_size);

/// A file of JSON lines, one request in each: {"prompt": "...", "max_tokens": 64, "pass": 0,
/// "priority": 0, "seed": 0}; only the prompt is required. `defaults` supplies max_tokens and the
/// sampling. Throws UserError that names the file and the line, what was found and what was wanted.
Workload load_workload(const std::filesystem::path& file, const kv::Tokenizer& tokenizer,
                       const kv::Request& defaults);

/// The workload of a program: read from the file if one is named, else made up. The sampling is
/// that of `generate`, as is max_tokens of the requests in a file that do not say it.
Workload workload_of(const std::filesystem::path& file, WorkloadOptions options,
                     const kv::GenerateOptions& generate, const kv::Model& model);

}  // namespace lesson08
