#pragma once

// The two workloads of the ladder.

#include <string>
#include <vector>

#include "ladder.h"
#include "programs/generate.h"
#include "qwen3/config.h"
#include "qwen3/tokenizer.h"

namespace ladder {

constexpr int kServerKvTokens = 832;  // the memory that server_requests() are meant for

/// A workload in words: texts[i] is what request i is shown as.
struct Requests {
  std::vector<std::string> texts;
  Workload workload;
};

/// A server's busy moment, with something to gain for every lesson: most requests begin with the
/// same system prompt, one wants four samples, and two come late and begin as earlier ones did.
/// options.max_tokens bounds each answer.
Requests server_requests(const kv::GenerateOptions& options, const kv::Tokenizer& tokenizer,
                         const kv::ModelConfig& config);

/// options.prompts, or else four plain prompts of different lengths.
Requests simple_requests(const kv::GenerateOptions& options, const kv::Tokenizer& tokenizer,
                         const kv::ModelConfig& config);

}  // namespace ladder
