#include "programs/streaming.h"

#include <algorithm>

#include "common/table.h"
#include "common/terminal.h"
#include "programs/run_main.h"

namespace kv {

StreamPrinter::StreamPrinter(const Console& console, const Tokenizer& tokenizer,
                             std::span<const std::string> prompts,
                             std::span<const Request> requests)
    : console_(&console), prompts_(prompts), requests_(requests), columns_(output_columns()) {
  for (size_t i = 0; i < requests.size(); ++i) {
    texts_.push_back({.decoder = StreamingDecoder(tokenizer),
                      .waiting = {},
                      .tokens = 0,
                      .complete = requests[i].max_tokens == 0});
  }
}

bool StreamPrinter::on_token(size_t request, int32_t token) {
  Text& text = texts_[request];
  const Request& wanted = requests_[request];
  const auto& stops = wanted.stop_token_ids;
  text.waiting += text.decoder.push(token);
  text.complete = ++text.tokens == wanted.max_tokens ||
                  std::find(stops.begin(), stops.end(), token) != stops.end();
  if (text.complete) text.waiting += text.decoder.finish();
  show();
  return !interrupted();
}

void StreamPrinter::write_wrapped(std::string_view text) {
  constexpr int kFullLine = 88;  // from here on, the next space becomes a line break
  std::string wrapped;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == ' ') {  // or one before a word that would not fit the terminal
      const size_t length = std::min(text.find_first_of(" \n", i + 1), text.size()) - i;
      const auto end = column_ + static_cast<int>(display_width(text.substr(i, length)));
      if (column_ >= kFullLine || end > columns_) c = '\n';
    }
    if (c == '\n') {
      column_ = 0;
    } else if (display_width({&c, 1}) > 0) {
      ++column_;
    }
    wrapped += c;
  }
  console_->write(wrapped);
}

void StreamPrinter::show() {
  for (; live_ < texts_.size(); ++live_, opened_ = false) {
    Text& text = texts_[live_];
    if (!opened_) {
      const std::string label =
          texts_.size() > 1 ? fmt::format("[{}/{}] ", live_ + 1, texts_.size()) : "";
      write_wrapped(label + prompts_[live_]);
      opened_ = true;
    }
    write_wrapped(text.waiting);
    text.waiting.clear();
    if (!text.complete) break;
    write_wrapped("\n\n");
  }
  console_->flush();
}

void StreamPrinter::finish() {
  for (Text& text : texts_) {
    if (text.complete) continue;
    text.waiting += text.decoder.finish();
    text.complete = true;
  }
  show();
}

}  // namespace kv
