#include "instruments/serve/api/conversation.h"

#include <fmt/format.h>

#include "instruments/serve/api/error.h"

namespace serve {
namespace {

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

Message message_of(const kv::Json& json, const std::string& where) {
  if (!json.is_object()) throw ApiError(400, where + " is no object", "messages");
  const kv::Json role = json.value("role", kv::Json());
  for (const char* name : {"tool_calls", "function_call"}) {
    if (json.contains(name) && !json[name].empty()) {
      throw ApiError(400, fmt::format("{}.{}: tools are not supported", where, name), "messages");
    }
  }
  if (role == "developer") return {"system", content_of(json, where)};
  if (role == "system" || role == "user" || role == "assistant") {
    return {role, content_of(json, where)};
  }
  throw ApiError(400,
                 fmt::format("{}.role is {}, wanted \"system\", \"user\" or \"assistant\"", where,
                             kv::describe(role)),
                 "messages");
}

}  // namespace

Conversation parse_conversation(Fields& fields) {
  Conversation conversation;
  const kv::Json* messages = fields.find("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    fields.wrong("messages", "a list of at least one message");
  }
  for (size_t i = 0; i < messages->size(); ++i) {
    conversation.messages.push_back(message_of((*messages)[i], fmt::format("messages[{}]", i)));
  }
  conversation.add_generation_prompt = fields.boolean("add_generation_prompt", true);
  fields.refuse("continue_final_message", {"false"});
  fields.refuse("chat_template");
  if (const kv::Json* given = fields.find("chat_template_kwargs")) {
    if (!given->is_object()) fields.wrong("chat_template_kwargs", "an object");
    Fields arguments(*given, "chat_template_kwargs.");
    conversation.enable_thinking = arguments.boolean("enable_thinking", true);
    for (const std::string& name : arguments.unknown()) arguments.refuse(name);
  }
  return conversation;
}

}  // namespace serve
