#pragma once

// A request of /v1/completions or /v1/chat/completions: its fields and their defaults, as vLLM has
// them. A field that the course lacks is refused by name, unless it asks for nothing.

#include <cstdint>
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
struct Defaults {
  double temperature = 1, top_p = 1;
  int top_k = 0;
  uint64_t seed = 0;  // the server's
};
/// The defaults of a model's folder. Throws UserError for a file that cannot be read, or with
/// values that no request may have.
Defaults defaults_of(const std::string& model_dir);

/// The rules that a request is read by.
struct ApiRules {
  std::string model_name;
  Defaults defaults = {};
  bool by_priority = false;  // else a priority is an error
  bool has_store = false;    // else do_remote_decode is an error
  bool prefill = false;      // each request asks for do_remote_decode
  int max_choices = 256;     // prompts x n of one request
};

struct ApiRequest {
  bool chat = false;
  std::vector<Prompt> prompts = {};  // of a completion
  Conversation conversation = {};    // of a chat
  std::optional<int> max_tokens = {};
  kv::SamplingParams sampling = {};
  int n = 1;
  bool stream = false, include_usage = false;
  TextOptions text = {};
  std::vector<int32_t> stop_token_ids = {};
  bool ignore_eos = false;
  int num_logprobs = -1;  // as kv::Request's
  bool echo = false;
  bool return_token_ids = false;
  int priority = 0;
  std::string cache_salt = {};
  /// kv_transfer_params.do_remote_decode: the prompt is computed, up to the first token, and
  /// another server loads its blocks from the store.
  bool remote_decode = false;
  std::vector<std::string> unknown = {};  // fields that no rule knows

  int num_choices() const { return n * (chat ? 1 : static_cast<int>(prompts.size())); }
};

// These throw ApiError.
ApiRequest parse_completion(std::string_view body, const ApiRules& rules);
ApiRequest parse_chat(std::string_view body, const ApiRules& rules);
/// The messages of a chat's body, and what else its prompt is made from.
Conversation parse_conversation(Fields& fields);
/// "The model `x` does not exist." (404) if the body names another model.
void check_model(const std::string& name, const ApiRules& rules);

}  // namespace serve
