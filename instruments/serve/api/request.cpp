#include "instruments/serve/api/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <random>

#include "common/json.h"
#include "common/table.h"
#include "instruments/serve/api/fields.h"
#include "qwen3/config.h"

namespace serve {
namespace {

constexpr size_t kMaxStops = 64, kMaxStopBytes = 1024;
constexpr double kMaxTemperature = 1e6;
constexpr float kMinTopP = std::numeric_limits<float>::denorm_min();
constexpr const char* kTemperature = "a number from 0 to 1000000";
constexpr const char* kTopP = "a number above 0 and up to 1";

/// Fields of vLLM's API for which the course has nothing, with the values that ask for nothing.
const kv::Json& unsupported(const char* where) {
  static const kv::Json kAll = kv::Json::parse(R"({
    "any": {
      "prompt_logprobs": [], "prompt_embeds": [], "truncate_prompt_tokens": [],
      "allowed_token_ids": [], "structured_outputs": [], "guided_json": [], "guided_regex": [],
      "guided_choice": [], "guided_grammar": [], "logits_processors": [[]],
      "vllm_xargs": [{}], "thinking_token_budget": [],
      "presence_penalty": [0], "frequency_penalty": [0], "min_p": [0],
      "repetition_penalty": [1], "length_penalty": [1], "use_beam_search": [false],
      "logit_bias": [{}], "bad_words": [[]], "spaces_between_special_tokens": [true],
      "response_format": [{"type": "text"}], "return_tokens_as_token_ids": [false],
      "user": null, "metadata": null, "service_tier": null},
    "completion": {"suffix": [""]},
    "chat": {
      "echo": [false], "functions": [[], {}],
      "mm_processor_kwargs": [[], {}], "tool_choice": ["none", "auto"],
      "function_call": ["none", "auto"], "modalities": [["text"]], "audio": [],
      "prediction": [], "web_search_options": [], "verbosity": [],
      "store": [false], "parallel_tool_calls": null, "include_reasoning": null},
    "tokenize": {"mm_processor_kwargs": [[], {}], "media_io_kwargs": [[], {}]},
    "prompt to tokenize": {"tools": [[], {}]},
    "messages": {"chat_template": []}
  })");
  return kAll[where];
}

std::vector<std::string> stops_of(Fields& fields, std::vector<std::string> stops) {
  const kv::Json* value = fields.find("stop");
  if (value == nullptr) return stops;
  for (const kv::Json& one : value->is_array() ? *value : kv::Json::array({*value})) {
    const bool fits = one.is_string() && one.get_ref<const std::string&>().size() <= kMaxStopBytes;
    if (!fits || stops.size() == kMaxStops) {
      fields.wrong("stop", fmt::format("a string, or up to {} of them, each of up to {} bytes",
                                       kMaxStops, kMaxStopBytes));
    }
    if (one == "") throw ApiError(400, "stop cannot contain an empty string.", "stop");
    stops.push_back(one);
  }
  return stops;
}

/// Fields inside of a field that no rule knows.
void note_unknown(const Fields& fields, const std::string& where, ApiRequest& request) {
  for (const std::string& name : fields.unknown()) request.unknown.push_back(where + name);
}

void parse_stream(Fields& fields, ApiRequest& request) {
  request.stream = fields.boolean("stream", false);
  const kv::Json* given = fields.find("stream_options");
  if (given == nullptr) return;
  if (!given->is_object()) fields.wrong("stream_options", "an object");
  if (!request.stream) {
    throw ApiError(400, "Stream options can only be defined when `stream=True`.", "stream_options");
  }
  Fields options(*given, "stream_options.");
  request.include_usage = options.boolean("include_usage", true);
  request.continuous_usage =
      options.boolean("continuous_usage_stats", false) && request.include_usage;
  note_unknown(options, "stream_options.", request);
}

/// vLLM's words for prefill and decode apart. do_remote_prefill asks for nothing: a server over a
/// store looks into it in any case.
void parse_transfer(Fields& fields, const ApiRules& rules, ApiRequest& request) {
  request.remote_decode = rules.prefill;
  const kv::Json* given = fields.find("kv_transfer_params");
  if (given == nullptr) return;
  if (!given->is_object()) fields.wrong("kv_transfer_params", "an object");
  Fields transfer(*given, "kv_transfer_params.");
  request.remote_decode |= transfer.boolean("do_remote_decode", false);
  transfer.boolean("do_remote_prefill", false);
  // A proxy passes on what a prefill server has answered; nothing of it is needed here.
  for (const char* name : {"remote_engine_id", "remote_block_ids", "remote_host", "remote_port"}) {
    transfer.find(name);
  }
  note_unknown(transfer, "kv_transfer_params.", request);
  if (!request.remote_decode || rules.has_store) return;
  throw ApiError(400, "do_remote_decode needs a server that was started with --store",
                 "kv_transfer_params");
}

/// Limits the answer. The model's own limit counts for each request, as in vLLM.
void limit(ApiRequest& request, const Defaults& defaults) {
  if (defaults.max_tokens != INT32_MAX) {
    request.max_tokens = std::min(request.max_tokens.value_or(INT32_MAX), defaults.max_tokens);
  }
  if (!request.remote_decode || request.max_tokens == 0) return;  // else the first token alone
  request.max_tokens = 1;
  request.text.min_tokens = std::min(request.text.min_tokens, 1);
}

/// JavaScript holds it exactly.
uint64_t new_seed() {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  return random() >> 11;
}

void parse_sampling(Fields& fields, const Defaults& defaults, ApiRequest& request) {
  kv::SamplingParams& sampling = request.sampling;
  sampling.temperature =
      fields.number("temperature", 0, kMaxTemperature, kTemperature, defaults.temperature);
  sampling.top_p = fields.number("top_p", kMinTopP, 1, kTopP, defaults.top_p);
  sampling.top_k = std::max(fields.small("top_k", -1).value_or(defaults.top_k), 0);
  const auto seed = fields.integer("seed", std::numeric_limits<int64_t>::min(),
                                   std::numeric_limits<int64_t>::max());
  sampling.seed = seed ? static_cast<uint64_t>(*seed) : defaults.seed ? *defaults.seed : new_seed();
}

/// Parses the fields that completions and chats have in common.
void parse_common(Fields& fields, const ApiRules& rules, ApiRequest& request) {
  check_model(fields.text("model", rules.model_name), rules);
  parse_stream(fields, request);
  parse_transfer(fields, rules, request);
  parse_sampling(fields, rules.defaults, request);
  request.n = fields.small("n", 1).value_or(1);
  request.text = {.stops = stops_of(fields, rules.defaults.stops),
                  .include_stop = fields.boolean("include_stop_str_in_output", false),
                  .skip_special = fields.boolean("skip_special_tokens", true),
                  .min_tokens = fields.small("min_tokens", 0).value_or(0)};
  request.stop_token_ids = fields.token_ids("stop_token_ids");
  request.ignore_eos = fields.boolean("ignore_eos", false);
  // A chat's template has them already.
  request.add_special = fields.boolean("add_special_tokens", !request.chat);
  request.return_token_ids = fields.boolean("return_token_ids", false);
  request.priority = fields.small("priority", std::numeric_limits<int32_t>::min()).value_or(0);
  if (request.priority != 0 && !rules.by_priority) {
    throw ApiError(400, "priority needs a server that was started with --order priority",
                   "priority");
  }
  const kv::Json* salt = fields.find("cache_salt");
  request.cache_salt = fields.text("cache_salt");
  if (salt != nullptr && (request.cache_salt.empty() || request.cache_salt.size() > 4096)) {
    fields.wrong("cache_salt", "1 to 4096 bytes of text");
  }
  request.request_id = fields.text("request_id");
  fields.refuse(unsupported("any"));
  fields.refuse(unsupported(request.chat ? "chat" : "completion"));
}

void check_choices(const ApiRequest& request, const ApiRules& rules) {
  const int64_t prompts = request.chat ? 1 : std::ssize(request.prompts);
  if (request.n * prompts > rules.max_choices) {
    throw ApiError(400,
                   fmt::format("n is {}, for {}; wanted at most {} answers in all", request.n,
                               kv::count_of(prompts, "prompt"), rules.max_choices),
                   "n");
  }
}

std::vector<Prompt> prompts_of(Fields& fields) {
  constexpr const char* kWanted = "a string, token ids, or a list of strings or of token ids";
  const kv::Json* value = fields.find("prompt");
  if (value == nullptr) fields.wrong("prompt", kWanted);
  std::vector<Prompt> prompts;
  const auto add = [&](const kv::Json& one) {
    const bool mixed =
        !prompts.empty() && one.is_string() != std::holds_alternative<std::string>(prompts.front());
    if (mixed) fields.wrong("prompt", kWanted);
    if (one.is_string()) {
      prompts.emplace_back(one.get<std::string>());
    } else {
      prompts.emplace_back(fields.token_ids("prompt", one, kWanted));
    }
    if (std::visit([](const auto& prompt) { return prompt.empty(); }, prompts.back())) {
      throw ApiError(400, "prompt is empty, wanted at least one token", "prompt");
    }
  };
  const bool several = value->is_array() && !value->empty() && !value->front().is_number();
  if (!several) add(*value);
  for (size_t i = 0; several && i < value->size(); ++i) add((*value)[i]);
  return prompts;
}

/// A string, or parts of text, which stand on lines of their own.
std::string content_of(const kv::Json& message, const std::string& where) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) return {};
  if (content->is_string()) return *content;
  std::string text;
  bool good = content->is_array();
  for (size_t i = 0; good && i < content->size(); ++i) {
    const kv::Json& part = (*content)[i];
    good = part.is_object() && part.value("type", kv::Json()) == "text" && part.contains("text") &&
           part["text"].is_string();
    if (good) text += (i > 0 ? "\n" : "") + part["text"].get<std::string>();
  }
  if (good) return text;
  throw ApiError(400, where + ".content: wanted a string, or a list of parts of type \"text\"",
                 "messages");
}

/// Also notes what of the message the built-in templates don't have.
Message message_of(const kv::Json& json, const std::string& where, Conversation& conversation) {
  if (!json.is_object()) throw ApiError(400, where + " is no object", "messages");
  const kv::Json role = json.value("role", kv::Json());
  if (!role.is_string() || role == "") {
    throw ApiError(400, fmt::format("{}.role is {}, wanted a name", where, kv::describe(role)),
                   "messages");
  }
  const auto beyond = [&](const char* name) {
    if (conversation.beyond.empty()) conversation.beyond = fmt::format("{}.{}", where, name);
  };
  for (const char* name : {"tool_calls", "function_call", "reasoning", "reasoning_content"}) {
    if (json.contains(name) && !json[name].empty()) beyond(name);
  }
  if (role == "developer") return {"system", content_of(json, where)};
  if (role != "system" && role != "user" && role != "assistant") beyond("role");
  return {role, content_of(json, where)};
}

/// Bytes of the strings in a value.
size_t num_bytes_of(const kv::Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().size();
  size_t sum = 0;
  if (value.is_structured()) {
    for (const kv::Json& one : value) sum += num_bytes_of(one);
  }
  return sum;
}

/// What a chat's template gets beside the messages.
void parse_for_template(Fields& fields, Conversation& conversation) {
  for (const char* name : {"tools", "documents"}) {
    const kv::Json* list = fields.find(name);
    if (list == nullptr || list->empty()) continue;
    if (!list->is_array() || !std::ranges::all_of(*list, &kv::Json::is_object)) {
      fields.wrong(name, "a list of objects");
    }
    conversation.beyond = name;
  }
  const std::string effort = fields.text("reasoning_effort", "none");
  if (effort != "none") conversation.beyond = "reasoning_effort";
  conversation.add_generation_prompt = fields.boolean("add_generation_prompt", true);
  if (fields.boolean("continue_final_message", false)) {
    conversation.beyond = "continue_final_message";
    if (conversation.add_generation_prompt) {
      throw ApiError(
          400, "Cannot set both `continue_final_message` and `add_generation_prompt` to True.",
          "continue_final_message");
    }
  }
  fields.refuse(unsupported("messages"));
  const kv::Json* given = fields.find("chat_template_kwargs");
  if (given == nullptr) return;
  if (!given->is_object()) fields.wrong("chat_template_kwargs", "an object");
  Fields arguments(*given, "chat_template_kwargs.");
  for (const char* name : {"messages", "chat_template", "tokenize"}) {
    if (arguments.find(name) != nullptr) arguments.wrong(name, "nothing: it is not a template's");
  }
  const kv::Json* thinking = arguments.find("enable_thinking");
  conversation.enable_thinking = thinking == nullptr || *thinking != false;
}

}  // namespace

void refuse_for_tokenize(Fields& fields) {
  fields.refuse(unsupported("tokenize"));
  if (fields.find("messages") == nullptr) fields.refuse(unsupported("prompt to tokenize"));
}

Conversation parse_conversation(Fields& fields, std::string_view body) {
  Conversation conversation{.body = std::string(body)};
  const kv::Json* messages = fields.find("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    fields.wrong("messages", "a list of at least one message");
  }
  conversation.num_bytes = num_bytes_of(*messages);
  for (size_t i = 0; i < messages->size(); ++i) {
    conversation.messages.push_back(
        message_of((*messages)[i], fmt::format("messages[{}]", i), conversation));
  }
  parse_for_template(fields, conversation);
  return conversation;
}

void check_model(const std::string& name, const ApiRules& rules) {
  if (name == rules.model_name) return;
  throw ApiError(404, fmt::format("The model `{}` does not exist.", name), "model");
}

Defaults defaults_of(const std::filesystem::path& model_dir) {
  Defaults defaults;
  const std::filesystem::path file = kv::generation_file(model_dir);
  if (!std::filesystem::exists(file)) return defaults;
  const kv::Json json = kv::load_json(file);
  const kv::JsonObject config(json, file.string());
  if (config.find("temperature")) defaults.temperature = config.number("temperature");
  if (!(defaults.temperature >= 0 && defaults.temperature <= kMaxTemperature)) {
    config.wrong("temperature", kTemperature);
  }
  if (!config.boolean_or("do_sample", true)) defaults.temperature = 0;
  if (config.find("top_p")) defaults.top_p = config.number("top_p");
  if (!(defaults.top_p >= kMinTopP && defaults.top_p <= 1)) config.wrong("top_p", kTopP);
  const auto read = [&](const char* key, int64_t low, int& value) {
    if (config.find(key)) value = static_cast<int>(config.integer(key, low, INT32_MAX));
  };
  read("top_k", 0, defaults.top_k);
  read("max_new_tokens", 1, defaults.max_tokens);
  read("max_length", 1, defaults.max_length);
  const kv::Json* const stops = config.find("stop_strings");
  if (stops == nullptr) return defaults;
  for (const kv::Json& one : stops->is_array() ? *stops : kv::Json::array({*stops})) {
    if (!one.is_string() || one == "") config.wrong("stop_strings", "a string, or a list of them");
    defaults.stops.push_back(one);
  }
  return defaults;
}

ApiRequest parse_completion(std::string_view body, const ApiRules& rules) {
  const kv::Json json = parse_body(body);
  Fields fields(json);
  ApiRequest request;
  parse_common(fields, rules, request);
  request.prompts = prompts_of(fields);
  check_choices(request, rules);
  request.echo = fields.boolean("echo", false);
  if (fields.small("best_of", 1).value_or(1) > request.n) {  // OpenAI wants at least n of it
    throw ApiError(400, "best_of above n is not supported; leave it out", "best_of");
  }
  request.max_tokens = fields.small("max_tokens", request.echo ? 0 : 1).value_or(16);
  if (const auto logprobs = fields.integer("logprobs", 0, 20)) {
    request.num_logprobs = static_cast<int>(*logprobs);
    if (request.echo) throw ApiError(400, "logprobs of the prompt are not supported", "logprobs");
  }
  limit(request, rules.defaults);
  note_unknown(fields, "", request);
  return request;
}

ApiRequest parse_chat(std::string_view body, const ApiRules& rules) {
  const kv::Json json = parse_body(body, rules.max_chat_values);
  Fields fields(json);
  ApiRequest request{.chat = true};
  parse_common(fields, rules, request);
  check_choices(request, rules);
  request.conversation = parse_conversation(fields, body);
  request.max_tokens = fields.small("max_completion_tokens", 1);
  const auto older_name = fields.small("max_tokens", 1);
  if (!request.max_tokens) request.max_tokens = older_name;
  const auto top = fields.integer("top_logprobs", 0, 20);
  if (fields.boolean("logprobs", false)) {
    request.num_logprobs = static_cast<int>(top.value_or(0));
  } else if (top.value_or(0) > 0) {
    throw ApiError(400, "when using `top_logprobs`, `logprobs` must be set to true.",
                   "top_logprobs");
  }
  limit(request, rules.defaults);
  note_unknown(fields, "", request);
  return request;
}

}  // namespace serve
