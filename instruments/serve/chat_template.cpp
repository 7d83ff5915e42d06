#include "instruments/serve/chat_template.h"

#include <algorithm>
#include <map>

#include "common/error.h"
#include "common/json.h"
#include "common/sha256.h"
#include "common/utf8.h"
#include "instruments/serve/api/error.h"
#include "instruments/serve/python_child.h"

namespace serve {
namespace {

/// Qwen3's template of April 2025, as Qwen3-0.6B to 32B have it.
constexpr std::string_view kQwen3Sha256 =
    "87a2728cb8dc9fe424d624542f6060ec05a1d285ebbec578bb078900e33396b5";

struct Source {
  std::string file;                              // empty if the folder has no template
  std::map<std::string, std::string> templates;  // by name, the usual one is "default"
};

/// A template in JSON is its text, or a list of {"name": .., "template": ..}.
void read_json(const std::filesystem::path& file, Source& source) {
  if (!source.file.empty() || !std::filesystem::exists(file)) return;
  const kv::Json json = kv::load_json(file);
  const kv::JsonObject object(json, file.string());
  const kv::Json* const found = object.find("chat_template");
  if (found == nullptr) return;
  if (!found->is_array()) {
    source.templates["default"] = object.string("chat_template");
  } else {
    for (const kv::Json& one : object.array("chat_template")) {
      const kv::JsonObject named(one, file.string() + ": chat_template");
      source.templates[named.string("name")] = named.string("template");
    }
  }
  source.file = file.string();
}

/// In the order in which transformers looks.
Source source_of(const std::filesystem::path& dir) {
  constexpr size_t kMaxBytes = size_t{1} << 20;
  Source source;
  if (const auto file = dir / "chat_template.jinja"; std::filesystem::exists(file)) {
    source = {file.string(), {{"default", kv::read_file(file, kMaxBytes)}}};
    const auto more = dir / "additional_chat_templates";
    if (std::filesystem::is_directory(more)) {
      for (const auto& one : std::filesystem::directory_iterator(more)) {
        if (one.path().extension() != ".jinja") continue;
        source.templates[one.path().stem().string()] = kv::read_file(one.path(), kMaxBytes);
      }
    }
  }
  read_json(dir / "tokenizer_config.json", source);
  read_json(dir / "chat_template.json", source);
  return source;
}

std::string hex_of(const kv::Digest& digest) {
  std::string hex;
  for (const auto byte : digest) hex += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  return hex;
}

/// Text of the template and of the messages in turn, as all these functions return it.
using Pieces = std::vector<std::string>;

Pieces chat_ml(const Conversation& conversation) {
  Pieces pieces{""};
  for (const auto& [role, content] : conversation.messages) {
    pieces.back() += "<|im_start|>" + role + "\n";
    pieces.push_back(content);
    pieces.emplace_back("<|im_end|>\n");
  }
  if (conversation.add_generation_prompt) pieces.back() += "<|im_start|>assistant\n";
  return pieces;
}

std::string stripped(std::string text) {
  text.erase(0, text.find_first_not_of('\n'));
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

/// Qwen3's template, as far as messages without tools and thoughts of their own need it: an
/// assistant's message before the last question loses its thought, and the last message always has
/// one.
Pieces qwen3(Conversation conversation) {
  constexpr std::string_view kEnd = "</think>", kBegin = "<think>";
  std::vector<Message>& messages = conversation.messages;
  const auto is_question = [](const Message& one) {
    return one.role == "user" && !(one.content.starts_with("<tool_response>") &&
                                   one.content.ends_with("</tool_response>"));
  };
  const auto num_earlier =
      messages.rend() - std::find_if(messages.rbegin(), messages.rend(), is_question);
  for (std::ptrdiff_t i = 0; i < std::ssize(messages); ++i) {
    auto& [role, content] = messages[static_cast<size_t>(i)];
    if (role != "assistant") continue;
    const size_t end = content.rfind(kEnd);
    std::string thought, rest = content;
    if (end != content.npos) {
      thought = stripped(content.substr(0, content.find(kEnd)));
      if (const size_t begin = thought.rfind(kBegin); begin != thought.npos) {
        thought = stripped(thought.substr(begin + kBegin.size()));
      }
      rest = content.substr(end + kEnd.size());
      rest.erase(0, rest.find_first_not_of('\n'));
    }
    const bool last = i + 1 == std::ssize(messages);
    const bool thinks =
        i >= (num_earlier == 0 ? std::ssize(messages) : num_earlier) && (last || !thought.empty());
    if (thinks) rest.erase(0, rest.find_first_not_of('\n'));
    content = thinks ? fmt::format("<think>\n{}\n</think>\n\n{}", thought, rest) : rest;
  }
  Pieces pieces = chat_ml(conversation);
  if (conversation.add_generation_prompt && !conversation.enable_thinking) {
    pieces.back() += "<think>\n\n</think>\n\n";
  }
  return pieces;
}

Pieces texts_alone(const Conversation& conversation) {
  std::string text;
  for (const Message& message : conversation.messages) {
    text += (text.empty() ? "" : "\n") + message.content;
  }
  return {"", text};
}

}  // namespace

ChatTemplate::ChatTemplate(const std::filesystem::path& model_dir, const std::string& wanted,
                           const kv::Tokenizer& tokenizer)
    : tokenizer_(tokenizer), name_(wanted) {
  if (wanted != "auto") return;
  const Source source = source_of(model_dir);
  name_ = source.file.empty() ? "none" : std::filesystem::path(source.file).filename().string();
  if (source.file.empty()) return;
  for (const auto& [name, text] : source.templates) {
    if (kv::is_valid_utf8(text)) continue;
    kv::user_error("{}: the chat template {} is not text in UTF-8; convert it", source.file, name);
  }
  const kv::Json setup{{"templates", source.templates},
                       {"values", tokenizer.config().special},
                       {"special", tokenizer.special_texts()}};
  child_ = std::make_unique<PythonChild>(KV_CHAT_TEMPLATE_SCRIPT, setup.dump());
  constexpr const char* kChoose =
      "choose what chats become with --chat-template chatml or --chat-template none";
  if (child_->is_too_late()) {
    kv::user_error("{}: the chat template does not end within {} seconds; {}", source.file,
                   PythonChild::kTime.count(), kChoose);
  }
  const bool runs = !child_->first_answer().empty();
  const kv::Json answer = runs ? kv::Json::parse(child_->first_answer()) : kv::Json::object();
  if (answer.contains("pieces")) return;
  if (answer.contains("error") && answer["field"] != "jinja2") {
    kv::user_error("{}: the chat template fails: {}; correct it, or {}", source.file,
                   answer["error"].get<std::string>(), kChoose);
  }
  child_.reset();
  if (kv::has_sha256() && source.templates.size() == 1 &&
      hex_of(kv::sha256(source.templates.begin()->second)) == kQwen3Sha256) {
    name_ = "qwen3";
    return;
  }
  kv::user_error(
      "{}: to run the chat template, python3 with jinja2 is needed, and there is none; install "
      "python3-jinja2, name a Python in KV_PYTHON, or {}",
      source.file, kChoose);
}

ChatTemplate::~ChatTemplate() = default;

Pieces ChatTemplate::pieces_of(const Conversation& conversation) const {
  if (child_ == nullptr) {
    if (!conversation.beyond.empty()) {
      throw ApiError(400,
                     fmt::format("{} is not supported by the chat template of this server, {}",
                                 conversation.beyond, name_),
                     conversation.beyond.substr(0, conversation.beyond.find('[')));
    }
    if (name_ == "none") return texts_alone(conversation);
    return name_ == "qwen3" ? qwen3(conversation) : chat_ml(conversation);
  }
  const std::string text = child_->ask(conversation.body);
  if (text.empty()) {
    throw ApiError(child_->is_too_late() ? 400 : 500,
                   child_->is_too_late()
                       ? fmt::format("the chat template did not end within {} seconds",
                                     PythonChild::kTime.count())
                       : "the process that runs the chat template has ended",
                   "messages");
  }
  const kv::Json answer = kv::Json::parse(text);
  if (answer.contains("error")) throw ApiError(400, answer["error"], answer["field"]);
  return answer["pieces"];
}

std::vector<int32_t> ChatTemplate::render(const Conversation& conversation,
                                          const std::function<void(size_t)>& check_size) const {
  std::string text;
  std::vector<kv::TextPart> plain;
  const Pieces pieces = pieces_of(conversation);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i % 2 == 1) plain.push_back({text.size(), text.size() + pieces[i].size()});
    text += pieces[i];
  }
  if (check_size) check_size(text.size());
  return tokenizer_.encode(text, plain);
}

}  // namespace serve
