#pragma once

// From the body of a request to the blocks that its prompts will have in a server's cache, with the
// code and the files that the server itself makes them with.

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "instruments/route/upstream.h"
#include "instruments/serve/chat_template.h"

namespace route {

/// A completion as a prefill server gets it: up to its first token, and with vLLM's word for that.
/// `body` is one that PromptReader has read.
std::string prefill_body(std::string_view body);

class PromptReader {
 public:
  /// The model's folder needs its tokenizer alone. Throws UserError.
  PromptReader(const std::filesystem::path& model_dir, const std::string& chat_template);

  struct Read {
    std::shared_ptr<const Prompts> prompts;
    bool stream = false;
  };
  /// A body that a server would refuse has no prompts.
  Read read(std::string_view body, bool chat, int block_size) const;

 private:
  kv::Tokenizer tokenizer_;
  serve::ChatTemplate chat_template_;  // borrows the tokenizer
};

}  // namespace route
