#include "instruments/serve/chat_template.h"

#include <algorithm>

#include "common/error.h"
#include "common/json.h"

namespace serve {
namespace {

/// The text of the folder's template; empty if it has none.
std::string template_text(const std::filesystem::path& dir) {
  if (std::filesystem::exists(dir / "chat_template.jinja")) {
    return kv::read_file(dir / "chat_template.jinja", size_t{1} << 20);
  }
  if (!std::filesystem::exists(dir / "tokenizer_config.json")) return {};
  const std::filesystem::path file = dir / "tokenizer_config.json";
  const kv::Json json = kv::load_json(file);
  return kv::JsonObject(json, file.string()).string_or("chat_template", "");
}

/// Whether turns stand between these two tokens, there is no system prompt of the template's own
/// ("You are Qwen"), and an answer does not begin with a thought. Qwen3's templates describe tools
/// in a sentence that begins like a system prompt.
bool is_chat_ml(std::string text) {
  constexpr std::string_view kTools = "You are provided with function signatures";
  if (const size_t at = text.find(kTools); at != text.npos) text.erase(at, kTools.size());
  const auto has = [&](const char* part) { return text.find(part) != text.npos; };
  return has("<|im_start|>") && has("<|im_end|>") && !has("You are") &&
         !has("<|im_start|>assistant\\n<think>");
}

/// Returns an earlier turn of the assistant without its thoughts.
std::string without_thoughts(const std::string& content) {
  constexpr std::string_view kEnd = "</think>";
  const size_t end = content.rfind(kEnd);
  if (end == content.npos) return content;
  const size_t begin = content.find_first_not_of('\n', end + kEnd.size());
  return begin == content.npos ? "" : content.substr(begin);
}

std::vector<int32_t> render_chat_ml(const Conversation& conversation,
                                    const kv::Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  std::string text;  // not encoded yet: text between two control tokens is encoded in one piece
  const auto encode = [&] {
    const std::vector<int32_t> more = tokenizer.encode(std::exchange(text, {}));
    ids.insert(ids.end(), more.begin(), more.end());
  };
  const auto control = [&](const std::string& name) {
    const auto id = tokenizer.id_of_special(name);
    if (!id) return static_cast<void>(text += name);  // another model's token: text
    encode();
    ids.push_back(*id);
  };
  const auto& messages = conversation.messages;
  const auto last_user = std::find_if(messages.rbegin(), messages.rend(),
                                      [](const Message& m) { return m.role == "user"; });
  const auto num_earlier = messages.rend() - last_user;
  for (std::ptrdiff_t i = 0; i < std::ssize(messages); ++i) {
    const auto& [role, content] = messages[static_cast<size_t>(i)];
    const bool cut = role == "assistant" && i < num_earlier;
    control("<|im_start|>");
    text += role + "\n" + (cut ? without_thoughts(content) : content);
    control("<|im_end|>");
    text += "\n";
  }
  if (conversation.add_generation_prompt) {
    control("<|im_start|>");
    text += "assistant\n";
    if (!conversation.enable_thinking) {
      control("<think>");
      text += "\n\n";
      control("</think>");
      text += "\n\n";
    }
  }
  encode();
  return ids;
}

}  // namespace

const char* name_of(ChatTemplate chat_template) {
  return chat_template == ChatTemplate::kChatMl ? "chatml" : "none";
}

ChatTemplate chat_template_of(const std::filesystem::path& model_dir, const std::string& wanted) {
  if (wanted == "chatml") return ChatTemplate::kChatMl;
  if (wanted == "none") return ChatTemplate::kNone;
  const std::string text = template_text(model_dir);
  if (text.empty()) return ChatTemplate::kNone;
  if (is_chat_ml(text)) return ChatTemplate::kChatMl;
  kv::user_error(
      "{}: its chat template is not the ChatML that the server has built in; choose what chats "
      "become with --chat-template chatml or --chat-template none",
      model_dir.string());
}

std::vector<int32_t> render(const Conversation& conversation, ChatTemplate chat_template,
                            const kv::Tokenizer& tokenizer) {
  if (chat_template == ChatTemplate::kChatMl) return render_chat_ml(conversation, tokenizer);
  std::string text;
  for (const Message& message : conversation.messages) {
    text += (text.empty() ? "" : "\n") + message.content;
  }
  return tokenizer.encode(text);
}

}  // namespace serve
