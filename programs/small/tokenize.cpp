// Text to token ids, and back: one text or line in, one line out.
//
//   tokenize 'Once upon a time'                    [595,709,258,512]
//   echo '[595,709,258,512]' | tokenize --decode   Once upon a time
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <sstream>

#include "common/error.h"
#include "common/json.h"
#include "programs/generate.h"

namespace {

struct Options {
  std::string text;  // or else each line of standard input
  std::filesystem::path model_dir = kv::default_model_dir();
  bool decode = false;
  bool special = false;
};

// Ids of a line as "[1, 2, 3]". `where` names the line in messages.
std::vector<int32_t> parse_ids(const std::string& line, const kv::Tokenizer& tokenizer,
                               const std::string& where) {
  if (line.empty()) kv::user_error("{}: empty, wanted a JSON list of ids, [] for no id", where);
  const kv::Json list = kv::parse_json(line, where);
  if (!list.is_array()) {
    kv::user_error("{}: {}, wanted a JSON list of ids such as [1, 2, 3]", where,
                   kv::describe(list));
  }
  std::vector<int32_t> ids;
  for (const kv::Json& id : list) {
    ids.push_back(static_cast<int32_t>(kv::json_integer(id, where + ": an id", 0, INT32_MAX)));
    if (tokenizer.has(ids.back())) continue;
    kv::user_error("{}: token id {}: unknown, wanted one of the tokenizer's ids, from 0 to {}",
                   where, ids.back(), tokenizer.vocab_size() - 1);
  }
  return ids;
}

void run(const Options& options) {
  const kv::Tokenizer tokenizer = kv::Tokenizer::load(options.model_dir);
  const kv::Console out("");
  std::istringstream typed(options.text);
  std::istream& in = options.text.empty() ? std::cin : typed;
  std::signal(SIGINT, SIG_DFL);  // ends a read that waits; each line's answer is out already
  if (options.text.empty() && isatty(STDIN_FILENO) == 1) {
    fmt::print(stderr, "reads lines; Ctrl-D ends\n");
  }
  std::ios::sync_with_stdio(false);
  std::string line;
  const char end = options.text.empty() ? '\n' : '\0';  // a text that is typed is one
  for (int64_t number = 1; std::getline(in, line, end); ++number) {
    if (options.decode) {
      const std::string where = fmt::format("line {}", number);
      out.write(tokenizer.decode(parse_ids(line, tokenizer, where)) + "\n");
    } else {
      std::vector<int32_t> ids = tokenizer.encode(line, options.special);
      if (options.special) ids = tokenizer.with_special_tokens(std::move(ids));
      out.write(kv::Json(ids).dump() + "\n");
    }
    out.flush();  // a caller that sends line by line gets each answer at once
  }
  if (std::cin.bad()) kv::user_error("standard input: reading failed; wanted lines of text");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  kv::CommandLine command(
      "Prints a JSON list of token ids for a text, or for each line of standard input.\n"
      "A line ends at a newline, which is not part of it; a carriage return is. Bytes\n"
      "that are not UTF-8 become U+FFFD.");
  command.value("text TEXT", options.text, "what becomes token ids; without it standard input does")
      .not_empty();
  command.value("--model DIR", options.model_dir,
                "a folder with a tokenizer.json (default: $KV_MODEL, or the model that ships with "
                "the course)");
  command.flag("--decode", options.decode,
               "the way back: each is a JSON list of ids, and becomes text (which may hold "
               "newlines of its own)");
  command.flag("--special", options.special,
               "the text of a special token, such as <|im_start|>, becomes that token, and the "
               "tokens that the model's folder sets around a text are there; without this it stays "
               "ordinary text");
  return kv::run_main(command, argc, argv, [&] { run(options); });
}
