#pragma once

// Prints generated text on a terminal as it comes.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/console.h"
#include "qwen3/engine.h"
#include "qwen3/tokenizer.h"

namespace kv {

/// Shows generations as they come, each prompt followed by its text, one after the other: the first
/// unfinished one live, the others when their turn comes. Long lines are broken at spaces.
class StreamPrinter {
 public:
  /// Borrows everything. `prompts` and `requests` have the same length.
  StreamPrinter(const Console& console, const Tokenizer& tokenizer,
                std::span<const std::string> prompts, std::span<const Request> requests);
  /// A TokenCallback: false once Ctrl-C was pressed.
  bool on_token(size_t request, int32_t token);
  /// Prints what is left, also of cancelled requests.
  void finish();

 private:
  struct Text {
    StreamingDecoder decoder;
    std::string waiting;  // not printed yet
    int tokens = 0;
    bool complete = false;
  };
  void show();
  void write_wrapped(std::string_view text);

  const Console* console_;
  std::span<const std::string> prompts_;
  std::span<const Request> requests_;
  std::vector<Text> texts_;
  size_t live_ = 0;      // the text that is printed as it comes
  bool opened_ = false;  // its prompt has been printed
  int column_ = 0;       // of the next character
  int columns_;          // of the terminal
};

}  // namespace kv
