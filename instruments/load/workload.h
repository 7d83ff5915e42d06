#pragma once

// The requests of a load generator: prompts from a file, conversations that are made up, or a trace
// of a real server.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "instruments/replay/trace/trace_file.h"

namespace load {

/// One request. Its body is known once the request that it follows has been answered.
struct Ask {
  bool chat = false;                // /v1/chat/completions, else /v1/completions
  nlohmann::ordered_json fields;    // of the body, without model and stream
  std::string question;             // of a later turn: appended to the messages, after the answer
  std::optional<size_t> follows;    // an earlier request of the same conversation
  std::optional<double> timestamp;  // seconds after the start, of a trace
};

struct WorkloadOptions {
  int num_requests = 64;
  std::optional<int> max_tokens;  // of an answer; the file, the trace, or 32
  std::optional<double> temperature;
  bool logprobs = false;  // ask for the log probability of each token
  uint64_t seed = 0;      // of what is made up; request i of it samples with seed + i
  int turns = 4;          // of a conversation that is made up
  int copies = 2;         // how often each of these conversations is held
  int system_words = 60;  // of a system prompt that is made up
  int block_size = 0;     // of a trace; 0 means as its lines say, or Mooncake's
  replay::TimeUnit time_unit = replay::TimeUnit::kUnknown;  // of a trace
  int shrink = 1;    // tokens of a trace for each token that is sent
  double speed = 1;  // seconds of a trace for each second
};

/// Conversations with one of four system prompts, so that prefixes are shared. Each turn sends all
/// that was said before. The first turns of all conversations come first.
std::vector<Ask> chat_workload(const WorkloadOptions& options);

/// A prompt on each line, as text in UTF-8; a line that begins with { is a JSON object of the API's
/// fields ("prompt" or "messages", "max_tokens", "n", "stop", "seed", ...), and a file of ./course
/// run 8 --requests will do. The lines are taken again and again up to num_requests. Throws
/// UserError, also for other JSON than objects: an array or a string would be sent as it is
/// spelled.
std::vector<Ask> file_workload(const std::filesystem::path& file, const WorkloadOptions& options);

/// Mooncake's format (instruments/replay/trace/trace_file.h), whose reader checks it. A block's
/// number stands for its tokens, which are single bytes in every byte-level vocabulary. Throws
/// UserError.
std::vector<Ask> trace_workload(const std::filesystem::path& file, const WorkloadOptions& options);

/// The body that is sent. `answers` has the texts of the requests so far, by index; messages[i] are
/// those of the requests so far, and get this request's.
std::string body_of(const std::vector<Ask>& asks, size_t index, const std::string& model,
                    const std::vector<std::string>& answers,
                    std::vector<nlohmann::ordered_json>& messages);

}  // namespace load
