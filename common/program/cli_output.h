#pragma once

// What the programs print: text, aligned tables, streamed generations, JSON files.

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/model/engine.h"
#include "common/model/tokenizer.h"

namespace kv {

/// Where a program writes for people: standard output, or standard error if standard output carries
/// JSON. Every write that fails (closed pipe, full disk) throws UserError.
class Console {
 public:
  /// `json_file` as in GenerateOptions.
  explicit Console(std::string_view json_file) : file_(json_file == "-" ? stderr : stdout) {}

  template <typename... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) const {
    write(fmt::format(format, std::forward<Args>(args)...));
  }
  void write(std::string_view text) const;
  void flush() const;
  bool is_terminal() const;

 private:
  std::FILE* file_;
};

/// True if what is written to standard error is seen by somebody at once.
bool stderr_is_terminal();

/// Characters a terminal shows for UTF-8 text (one column per code point).
size_t display_width(std::string_view text);

/// Rows of text in aligned columns: the first column to the left, the others to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> header);
  void add(std::vector<std::string> row);
  /// Header, a rule, the rows; each line ends with a newline and no line with a space.
  std::string to_string() const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the header first
};

/// "112 KiB", "448 MiB", "1.5 GiB": without a decimal point exactly when nothing is rounded off.
std::string human_bytes(int64_t bytes);
/// "1,234,567".
std::string with_commas(int64_t number);
/// "45.1 %"; "-" for a part of nothing.
std::string percent(double part, double whole);
/// A bar of at most `width` columns, in steps of an eighth of a column.
std::string bar(double value, double largest, int width);

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
};

/// One line for each pass, or for each of at most `max_lines` runs of passes: rows, mean time, a
/// bar.
std::string passes_chart(std::span<const PassCost> passes, int max_lines);

/// The counters' lines that every program ends with.
std::string counters_text(const EngineCounters& counters, int64_t generated_tokens);

/// {passes, kv_rows_computed, kv_bytes_reserved, ...} and each completion with its text.
nlohmann::json json_of(const EngineCounters& counters);
nlohmann::json json_of(const GenerateResult& result, const Tokenizer& tokenizer,
                       std::span<const std::string> prompts);
/// 16 hexadecimal digits.
std::string hex64(uint64_t value);

/// Writes the document and a newline to a file, or to standard output for "-"; does nothing for an
/// empty name. A regular file is replaced only when all of it is written. Throws UserError.
void write_json(const std::string& file, const nlohmann::json& document);

}  // namespace kv
