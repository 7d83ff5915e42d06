#include "viz/shell/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fstream>
#include <iterator>
#include <system_error>

#include "common/error.h"
#include "common/table.h"

namespace viz {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;

/// A word as it is written: quoted if it has to be.
std::string written(const std::string& word) {
  if (!word.empty() && word.find_first_of(" \t\"\\#") == std::string::npos) return word;
  std::string quoted = "\"";
  for (const char c : word) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace

std::string Command::place() const {
  return line > 0 ? fmt::format("line {}: ", line) : std::string();
}

std::string Command::text() const {
  std::string words = verb;
  for (const std::string& arg : args) words += " " + written(arg);
  return words;
}

const std::string& Command::word(size_t i, std::string_view what) const {
  if (i >= args.size()) {
    kv::user_error("{}{} wants {} as word {}, found the end of the line", place(), verb, what,
                   i + 1);
  }
  return args[i];
}

int64_t Command::number(size_t i, std::string_view what, int64_t min, int64_t max) const {
  const std::string& text = word(i, what);
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < min || value > max) {
    kv::user_error("{}{} wants {} from {} to {}, found {}", place(), verb, what, min, max,
                   written(text));
  }
  return value;
}

void Command::check_count(size_t min, size_t max, const std::string& hint) const {
  if (args.size() >= min && args.size() <= max) return;
  const std::string wanted = min == max ? kv::count_of(static_cast<int64_t>(min), "word")
                                        : fmt::format("{} to {} words", min, max);
  kv::user_error("{}{} wants {} after it, found {}{}", place(), verb, wanted, args.size(), hint);
}

Command parse_command(std::string_view line, int number) {
  Command command{.verb = {}, .args = {}, .line = number};
  std::vector<std::string>& words = command.args;
  size_t i = 0;
  const auto in_blank = [&] { return line[i] == ' ' || line[i] == '\t' || line[i] == '\r'; };
  while (true) {
    while (i < line.size() && in_blank()) ++i;
    if (i == line.size() || line[i] == '#') break;
    std::string word;
    if (line[i] != '"') {
      while (i < line.size() && !in_blank()) word += line[i++];
    } else {
      ++i;
      while (i < line.size() && line[i] != '"') {
        if (line[i] == '\\' && i + 1 < line.size()) ++i;
        word += line[i++];
      }
      if (i == line.size()) kv::user_error("{}a quote is opened and never closed", command.place());
      ++i;
    }
    words.push_back(std::move(word));
  }
  if (words.empty()) return command;
  command.verb = std::move(words.front());
  words.erase(words.begin());
  return command;
}

namespace {

/// Reads a line about the scenario's card. Returns false for any other command.
bool read_card(const Command& command, Scenario& scenario) {
  try {
    if (command.verb == "order") {
      scenario.order = static_cast<int>(command.number(0, "a place", 1, 99));
    } else if (command.verb == "title") {
      scenario.title = command.word(0, "a title");
    } else {
      return false;
    }
  } catch (const kv::UserError& error) {
    kv::user_error("{}: {}", scenario.name, error.what());
  }
  return true;
}

}  // namespace

Scenario Scenario::parse(std::string_view text, std::string name) {
  Scenario scenario;
  scenario.name = std::move(name);
  if (text.find('\0') != std::string_view::npos) {
    kv::user_error("{}: a scenario is text, found a NUL byte", scenario.name);
  }
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  int number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    Command command;
    try {
      command = parse_command(text.substr(begin, end - begin), ++number);
    } catch (const kv::UserError& error) {
      kv::user_error("{}: {}", scenario.name, error.what());
    }
    begin = end + 1;
    if (command.verb.empty()) continue;
    const bool in_head = !scenario.page.empty() && scenario.commands.empty();
    if (in_head && read_card(command, scenario)) continue;
    if (!scenario.page.empty()) {
      scenario.commands.push_back(std::move(command));
    } else if (command.verb == "page" && command.args.size() == 1) {
      scenario.page = command.args[0];
    } else {
      kv::user_error("{}: line {}: wanted `page NN` first, found `{}`", scenario.name, number,
                     command.text());
    }
  }
  if (scenario.page.empty()) {
    kv::user_error("{}: an empty scenario, wanted `page NN` and commands", scenario.name);
  }
  return scenario;
}

Scenario Scenario::load(const std::filesystem::path& file) {
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  if (error) kv::user_error("{}: cannot read the scenario: {}", file.string(), error.message());
  if (size > kMaxFileBytes) {
    kv::user_error("{}: a scenario of {} bytes, wanted at most {}", file.string(), size,
                   kMaxFileBytes);
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) kv::user_error("{}: cannot read the scenario", file.string());
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  Scenario scenario = parse(text, file.string());
  scenario.name = file.stem().string();
  return scenario;
}

std::string Scenario::shown_title() const {
  if (!title.empty()) return title;
  std::string words = name;
  std::ranges::replace(words, '_', ' ');
  if (!words.empty())
    words[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(words[0])));
  return words;
}

std::string Scenario::text() const {
  std::string all = "page " + page + "\n";
  if (order > 0) all += fmt::format("order {}\n", order);
  if (!title.empty()) all += Command{.verb = "title", .args = {title}}.text() + "\n";
  for (const Command& command : commands) all += command.text() + "\n";
  return all;
}

std::vector<std::filesystem::path> shipped_scenarios(const std::filesystem::path& project) {
  std::vector<std::filesystem::path> files;
  std::error_code none;
  for (const char* const floor : {"lessons", "simt", "instruments"}) {
    for (const auto& owner : std::filesystem::directory_iterator(project / floor, none)) {
      const auto folder = owner.path() / "scenarios";
      for (const auto& file : std::filesystem::directory_iterator(folder, none)) {
        if (file.path().extension() == ".txt") files.push_back(file.path());
      }
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace viz
