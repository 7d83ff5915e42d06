#include "qwen3/tokenizer_config.h"

#include <algorithm>

#include "common/error.h"
#include "common/json.h"
#include "common/utf8.h"

namespace kv {
namespace {

constexpr const char* kNames[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                  "pad_token", "cls_token", "mask_token"};

/// A token is its text, or an object with "content".
std::string text_of_token(const JsonObject& object, const std::string& name) {
  const Json& value = object.at(name);
  return value.is_object() ? object.object(name).string("content") : object.string(name);
}

AddedToken* find_added(TokenizerFile& file, const std::string& text) {
  const auto found = std::ranges::find(file.added, text, &AddedToken::text);
  return found == file.added.end() ? nullptr : &*found;
}

/// A token that a file beside tokenizer.json has under this id: both must mean the same one. As in
/// transformers an ordinary token becomes an added one, and one that is special in one file is.
void check_token(const std::string& where, const std::string& text, int64_t id, bool special,
                 TokenizerFile& file) {
  AddedToken* const added = find_added(file, text);
  const auto at = static_cast<size_t>(id);
  const bool same =
      added != nullptr ? added->id == id : at < file.tokens.size() && file.tokens[at] == text;
  if (!same) {
    user_error("{}: {} has id {}, in tokenizer.json it has {}; wanted one id, download both again",
               where, quote(text), id, added ? std::to_string(added->id) : "another, or none");
  }
  if (added != nullptr) added->special |= special;
  if (added == nullptr) {
    file.added.push_back({.id = static_cast<int32_t>(id), .text = text, .special = special});
  }
}

void read_added(const JsonObject& config, TokenizerFile& file) {
  if (config.find("added_tokens_decoder") == nullptr) return;
  const JsonObject tokens = config.object("added_tokens_decoder");
  for (const auto& [name, value] : tokens.value().items()) {
    const JsonObject token = tokens.object(name);
    for (const char* flag : {"lstrip", "rstrip", "single_word"}) {
      if (token.boolean_or(flag, false)) token.wrong(flag, "false");
    }
    const bool is_number = !name.empty() && name.size() < 10 &&
                           std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number) tokens.wrong(name, "ids for names");
    check_token(tokens.where(), token.string("content"), std::stoll(name),
                token.boolean_or("special", false), file);
  }
}

/// The id of a token that is named as special. Throws UserError if tokenizer.json lacks it.
int32_t id_of_named(const JsonObject& object, const std::string& name, const std::string& text,
                    TokenizerFile& file) {
  if (const AddedToken* const added = find_added(file, text)) return added->id;
  const auto found = std::ranges::find(file.tokens, std::optional(text));
  if (found == file.tokens.end()) {
    object.wrong(name, "a token that tokenizer.json has, or null");
  }
  const auto id = static_cast<int32_t>(found - file.tokens.begin());
  file.added.push_back({.id = id, .text = text, .special = true});
  return id;
}

/// The named tokens that `object` has and `config` does not have yet, and those without a name.
void read_named(const JsonObject& object, TokenizerFile& file, TokenizerConfig& config) {
  for (const std::string key :
       {"additional_special_tokens", "extra_special_tokens", "model_specific_special_tokens"}) {
    const Json* const list = object.find(key);
    if (list == nullptr) continue;
    for (const auto& [name, value] : list->items()) {  // a list, or an object
      const Json one{{key, value}};
      const JsonObject token(one, object.where());
      id_of_named(token, key, text_of_token(token, key), file);
    }
  }
  for (const std::string name : kNames) {
    if (object.find(name) == nullptr || config.special.contains(name)) continue;
    const std::string text = text_of_token(object, name);
    const int32_t id = id_of_named(object, name, text, file);
    if (name == "eos_token") config.eos_id = id;
    config.special.emplace(name, text);
  }
}

/// add_bos_token and add_eos_token, which have the last word over a post-processor.
void read_around(const JsonObject& object, TokenizerFile& file, TokenizerConfig& config) {
  TokensAround around = file.around;
  const bool llama = object.string_or("tokenizer_class", "").starts_with("Llama");
  const auto set = [&](const char* key, const char* token, std::vector<int32_t>& side) {
    if (object.find(key) == nullptr) return;
    const bool wanted = object.boolean(key);
    if (!wanted && !llama) return;  // the others leave the post-processor alone
    side.clear();
    if (!wanted) return;
    if (!config.special.contains(token)) {
      user_error("{}: \"{}\" is true, wanted a \"{}\" with it", object.where(), key, token);
    }
    side.push_back(find_added(file, config.special[token])->id);
  };
  set("add_bos_token", "bos_token", around.before);
  set("add_eos_token", "eos_token", around.after);
  config.around = std::move(around);
}

}  // namespace

TokenizerConfig load_tokenizer_config(const std::filesystem::path& dir, TokenizerFile& file) {
  TokenizerConfig config;
  const auto read = [&](const char* name, const auto& use) {
    const std::filesystem::path path = dir / name;
    if (!std::filesystem::exists(path)) return;
    const Json json = load_json(path, size_t{16} << 20);
    use(JsonObject(json, path.string()));
  };
  read("tokenizer_config.json", [&](const JsonObject& object) {
    for (const char* key :
         {"add_prefix_space", "do_lower_case", "split_special_tokens", "fix_mistral_regex"}) {
      if (object.boolean_or(key, false)) object.wrong(key, "false");
    }
    read_added(object, file);
    read_named(object, file, config);
    read_around(object, file, config);
    // transformers writes 10^30 for "no limit".
    if (object.find("model_max_length") && object.number("model_max_length") < 1e15) {
      config.max_length = object.integer("model_max_length", 1, INT64_MAX);
    }
  });
  read("special_tokens_map.json",
       [&](const JsonObject& object) { read_named(object, file, config); });
  read("added_tokens.json", [&](const JsonObject& object) {
    for (const auto& [text, id] : object.value().items()) {
      check_token(object.where(), text,
                  json_integer(id, object.where() + ": " + text, 0, INT32_MAX), false, file);
    }
  });
  return config;
}

}  // namespace kv
