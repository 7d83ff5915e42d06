#pragma once

// A request of /v1/completions or /v1/chat/completions: its fields and their defaults, as vLLM has
// them. A field that the course lacks is refused by name, unless it asks for nothing.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "instruments/serve/api/error.h"
#include "instruments/serve/chat_template.h"
#include "instruments/serve/text.h"
#include "qwen3/engine.h"

namespace serve {

class Fields;

/// A completion's prompt: text, or token ids.
using Prompt = std::variant<std::string, std::vector<int32_t>>;

/// Values of fields that a request does not give: those of the model's generation_config.json.
/// do_sample false means temperature 0.
struct Defaults {
  double temperature = 1, top_p = 1;
  int top_k = 0;
  int max_tokens = INT32_MAX;           // no answer has more
  int max_length = INT32_MAX;           // nor has a prompt with its answer
  std::vector<std::string> stops = {};  // of all requests, beside their own
  std::optional<uint64_t> seed = {};    // the server's; without it each request gets its own
};
/// The defaults of a model's folder. Throws UserError for a file that cannot be read, or with
/// values that no request may have.
Defaults defaults_of(const std::filesystem::path& model_dir);

/// The rules that a request is read by.
struct ApiRules {
  std::string model_name;
  Defaults defaults = {};
  bool by_priority = false;                  // else a priority is an error
  bool has_store = false;                    // else do_remote_decode is an error
  bool prefill = false;                      // each request asks for do_remote_decode
  int max_choices = 256;                     // prompts x n of one request
  size_t max_chat_values = size_t{1} << 16;  // of JSON, in the body of a chat
};

struct ApiRequest {
  bool chat = false;
  std::vector<Prompt> prompts = {};  // of a completion
  Conversation conversation = {};    // of a chat
  std::optional<int> max_tokens = {};
  kv::SamplingParams sampling = {};
  int n = 1;
  bool stream = false, include_usage = false;
  bool continuous_usage = false;  // each chunk of the stream has its choice's usage
  TextOptions text = {};
  std::vector<int32_t> stop_token_ids = {};
  bool ignore_eos = false;
  bool add_special = true;  // the tokens that the model's folder sets around a prompt
  int num_logprobs = -1;    // as kv::Request's
  bool echo = false;
  bool return_token_ids = false;
  int priority = 0;
  std::string cache_salt = {};
  std::string request_id = {};  // of the answer; empty: the server makes one
  /// kv_transfer_params.do_remote_decode: the prompt is computed, up to the first token, and
  /// another server loads its blocks from the store.
  bool remote_decode = false;
  std::vector<std::string> unknown = {};  // fields that no rule knows

  int num_choices() const { return n * (chat ? 1 : static_cast<int>(prompts.size())); }
};

// These throw ApiError.
ApiRequest parse_completion(std::string_view body, const ApiRules& rules);
ApiRequest parse_chat(std::string_view body, const ApiRules& rules);
/// Refuses fields of /tokenize for which the course has nothing.
void refuse_for_tokenize(Fields& fields);
/// The messages of a chat's body, and what else its prompt is made from. `body` is its text.
Conversation parse_conversation(Fields& fields, std::string_view body);
/// "The model `x` does not exist." (404) if the body names another model.
void check_model(const std::string& name, const ApiRules& rules);

}  // namespace serve
