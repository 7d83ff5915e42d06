#pragma once

// From the messages of a chat to a prompt.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "qwen3/tokenizer.h"

namespace serve {

struct Message {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

struct Conversation {
  std::vector<Message> messages = {};
  bool enable_thinking = true;        // false begins the answer with an empty thought
  bool add_generation_prompt = true;  // the answer is the assistant's next turn
};

enum class ChatTemplate {
  kNone,    // the messages' texts, a line end between two
  kChatMl,  // Qwen's: <|im_start|>user\n..<|im_end|>\n
};
const char* name_of(ChatTemplate chat_template);

/// The template of a model's folder: that of chat_template.jinja or tokenizer_config.json, if it is
/// ChatML; kNone if the folder has none. `wanted` is "auto", or the name of one. Throws UserError
/// for another template, which a program without Jinja cannot follow.
ChatTemplate chat_template_of(const std::filesystem::path& model_dir, const std::string& wanted);

/// The prompt's tokens. Text of a message never becomes a control token, so that a user cannot end
/// their own turn and begin another one.
std::vector<int32_t> render(const Conversation& conversation, ChatTemplate chat_template,
                            const kv::Tokenizer& tokenizer);

}  // namespace serve
