#include "instruments/route/prompts.h"

#include <algorithm>

#include "common/json.h"
#include "instruments/serve/api/fields.h"
#include "instruments/serve/api/request.h"
#include "lessons/06_prefix_hashing/block_hash.h"

namespace route {
namespace {

/// Longer texts are not looked up: to cut a text into tokens takes time, and a server refuses what
/// is longer than its context.
constexpr size_t kMaxText = size_t{1} << 20;

serve::ApiRequest parse(std::string_view body, bool chat) {
  const kv::Json json = serve::parse_body(body);
  const bool named = json.contains("model") && json["model"].is_string();
  // The server that gets the request checks the name.
  const serve::ApiRules rules{.model_name = named ? json["model"].get<std::string>() : "",
                              .by_priority = true,
                              .has_store = true,
                              .max_choices = 1 << 20};
  return chat ? serve::parse_chat(body, rules) : serve::parse_completion(body, rules);
}

}  // namespace

std::string prefill_body(std::string_view body) {
  kv::Json json = kv::Json::parse(body);
  for (const char* name : {"stream_options", "max_completion_tokens", "min_tokens", "n"}) {
    json.erase(name);
  }
  json["stream"] = false;
  json["max_tokens"] = 1;
  json["kv_transfer_params"] = {{"do_remote_decode", true}, {"do_remote_prefill", false}};
  return json.dump();
}

PromptReader::PromptReader(const std::filesystem::path& model_dir, const std::string& chat_template)
    : tokenizer_(kv::Tokenizer::load(model_dir)),
      chat_template_(model_dir, chat_template, tokenizer_) {}

PromptReader::Read PromptReader::read(std::string_view body, bool chat, int block_size) const {
  auto prompts = std::make_shared<Prompts>(Prompts{.block_size = std::max(1, block_size)});
  if (body.size() > kMaxText || block_size < 1) return {.prompts = prompts};
  serve::ApiRequest request;
  std::vector<std::vector<int32_t>> all;
  try {
    request = parse(body, chat);
    if (chat) all.push_back(chat_template_.render(request.conversation));
    if (chat && request.add_special) {
      all.back() = tokenizer_.with_special_tokens(std::move(all.back()));
    }
    for (const serve::Prompt& prompt : request.prompts) {
      const auto* const text = std::get_if<std::string>(&prompt);
      all.push_back(text != nullptr ? tokenizer_.encode(*text, true)
                                    : std::get<std::vector<int32_t>>(prompt));
      if (text == nullptr || !request.add_special) continue;
      all.back() = tokenizer_.with_special_tokens(std::move(all.back()));
    }
  } catch (const std::exception&) {
    return {.prompts = prompts};
  }
  lesson06::ExtraKeys extra;
  if (!request.cache_salt.empty()) {
    extra = {{lesson06::ExtraKey::Kind::kSalt, request.cache_salt}};
  }
  for (const std::vector<int32_t>& tokens : all) {
    lesson06::BlockHashes hashes(extra);
    hashes.extend(tokens, block_size, lesson06::BlockHasher{});
    prompts->all.push_back({.tokens = std::ssize(tokens), .blocks = hashes.all()});
  }
  return {.prompts = prompts, .stream = request.stream};
}

}  // namespace route
