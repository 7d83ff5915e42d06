#pragma once

// From the messages of a chat to a prompt.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "qwen3/tokenizer.h"

namespace serve {

class PythonChild;

struct Message {
  std::string role;
  std::string content;
};

/// A chat's request: what the built-in templates need of it, and all of it for the model's own.
struct Conversation {
  std::vector<Message> messages = {};
  bool enable_thinking = true;        // false begins the answer with an empty thought
  bool add_generation_prompt = true;  // the answer is the assistant's next turn
  std::string beyond = {};            // a field that only a model's own template reads
  std::string body = {};              // the request, in JSON
  size_t num_bytes = 0;               // of the strings in its messages
};

/// The template of a model's folder, a program in Jinja: that of chat_template.jinja (and
/// additional_chat_templates/), tokenizer_config.json or chat_template.json. A child process runs
/// it, in Python. Without python3-jinja2 one template of Qwen3's is built in, and any other needs
/// another choice.
class ChatTemplate {
 public:
  /// `wanted` is "auto", the folder's template ("none" if it has none), or a built-in one: "none",
  /// the messages' texts, a line end between two; "chatml", <|im_start|>user\n..<|im_end|>\n;
  /// "qwen3", the same with Qwen3's rules for thoughts.
  /// Throws UserError for a template that cannot run, with its words.
  ChatTemplate(const std::filesystem::path& model_dir, const std::string& wanted,
               const kv::Tokenizer& tokenizer);
  ~ChatTemplate();

  /// "none", "chatml", "qwen3" (built in), or the file that it is in.
  const std::string& name() const { return name_; }

  /// The prompt's tokens. Text of a message never becomes a special token, so that a user cannot
  /// end their own turn and begin another one. Throws ApiError (400) with the template's words if
  /// it refuses the messages, or does not end. `check_size` gets the text's bytes before it is
  /// tokenised, and may throw. May be called from any thread.
  std::vector<int32_t> render(const Conversation& conversation,
                              const std::function<void(size_t)>& check_size = {}) const;

 private:
  std::vector<std::string> pieces_of(const Conversation& conversation) const;

  const kv::Tokenizer& tokenizer_;
  std::string name_;
  std::unique_ptr<PythonChild> child_;  // of the folder's template
};

}  // namespace serve
