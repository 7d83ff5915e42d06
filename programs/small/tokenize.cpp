// Text to token ids, and back: one line in, one line out.
//
//   echo 'Once upon a time' | tokenize             [411,287,258,384]
//   echo '[411,287,258,384]' | tokenize --decode   Once upon a time
#include <unistd.h>

#include <csignal>
#include <iostream>

#include "common/error.h"
#include "common/json.h"
#include "programs/generate.h"

namespace {

struct Options {
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
  std::signal(SIGINT, SIG_DFL);  // ends a read that waits; each line's answer is out already
  if (isatty(STDIN_FILENO) == 1) fmt::print(stderr, "reads lines from here; Ctrl-D ends\n");
  std::ios::sync_with_stdio(false);
  std::string line;
  for (int64_t number = 1; std::getline(std::cin, line); ++number) {
    if (options.decode) {
      const std::string where = fmt::format("standard input, line {}", number);
      out.write(tokenizer.decode(parse_ids(line, tokenizer, where)) + "\n");
    } else {
      out.write(kv::Json(tokenizer.encode(line, options.special)).dump() + "\n");
    }
    out.flush();  // a caller that sends line by line gets each answer at once
  }
  if (std::cin.bad()) kv::user_error("standard input: reading failed; wanted lines of text");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  kv::CommandLine command(
      "Reads lines of text from standard input and prints for each a JSON list of token ids.\n"
      "A line ends at a newline, which is not part of it; a carriage return is. Bytes that are "
      "not\n"
      "UTF-8 become U+FFFD.");
  command.value("--model DIR", options.model_dir,
                "a folder with a tokenizer.json (default: $KV_MODEL, or the model that ships with "
                "the course)");
  command.flag("--decode", options.decode,
               "the way back: each line is a JSON list of ids, and becomes text (which may hold "
               "newlines of its own)");
  command.flag("--special", options.special,
               "the text of an added token, such as <|im_start|>, becomes that token; without this "
               "it stays ordinary text");
  return kv::run_main(command, argc, argv, [&] { run(options); });
}
