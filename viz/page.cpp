#include "viz/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <iterator>
#include <sstream>

#include "common/error.h"
#include "common/nearest.h"
#include "viz/names.h"
#include "viz/ui.h"

namespace viz {
namespace {

using Kind = Argument::Kind;

bool is_number(const Argument& arg) {
  return arg.kind == Kind::kNumber || arg.kind == Kind::kPowerOfTwo;
}

std::string usage(const Argument& arg) {
  std::string text = arg.kind == Kind::kQuoted ? "\"" + arg.name + "\"" : arg.name;
  if (arg.kind == Kind::kWords) text += " ..";
  return arg.otherwise ? "[" + text + "]" : text;
}

std::string usage(const Verb& verb) {
  std::string text = verb.name;
  for (const Argument& arg : verb.args) text += " " + usage(arg);
  return text;
}

/// The word's index among "exact|hash"; -1 if it is not there.
int index_of(const std::string& word, std::string_view choices) {
  for (int i = 0; !choices.empty(); ++i) {
    const size_t end = std::min(choices.find('|'), choices.size());
    if (choices.substr(0, end) == word) return i;
    choices.remove_prefix(std::min(end + 1, choices.size()));
  }
  return -1;
}

/// Word i of the command as the argument wants it.
Word read(const Command& command, size_t i, const Argument& arg) {
  Word found{.text = command.word(i, arg.name)};
  const auto wanted = [&](const std::string& what) {
    kv::user_error("{}{} wants {}, found \"{}\"", command.place(), command.verb, what, found.text);
  };
  switch (arg.kind) {
    case Kind::kNumber:
    case Kind::kPowerOfTwo:
      found.number = static_cast<int>(command.number(i, arg.name, arg.min, arg.max));
      if (arg.kind == Kind::kPowerOfTwo &&
          !std::has_single_bit(static_cast<unsigned>(found.number))) {
        wanted("a power of two as " + arg.name);
      }
      break;
    case Kind::kChoice:
      found.number = index_of(found.text, arg.name);
      if (found.number < 0) wanted(arg.name);
      break;
    default:
      if (found.text.empty()) wanted(arg.name + " with at least one character");
  }
  return found;
}

/// All words that a verb takes, with what was left out.
Words read(const Command& command, const Verb& verb) {
  size_t min = 0, max = 0;
  for (const Argument& arg : verb.args) {
    const bool many = arg.kind == Kind::kWords;
    min += many ? static_cast<size_t>(arg.min) : arg.otherwise ? 0 : 1;
    max += many ? static_cast<size_t>(arg.max) : 1;
  }
  command.check_count(min, max, "; write " + usage(verb));
  Words all;
  for (const Argument& arg : verb.args) {
    if (all.size() < command.args.size()) {
      all.push_back(read(command, all.size(), arg));
      while (arg.kind == Kind::kWords && all.size() < command.args.size()) {
        all.push_back(read(command, all.size(), arg));
      }
    } else if (arg.otherwise) {
      all.push_back(
          {.text = *arg.otherwise, .number = is_number(arg) ? std::stoi(*arg.otherwise) : 0});
    }
  }
  return all;
}

/// The help of a verb as a sentence, with the words in their places: "A grows by 10."
std::string told(const Verb& verb, const std::vector<std::string>& given) {
  std::istringstream in(verb.help);
  std::string told;
  for (std::string part; in >> part;) {
    const size_t end = part.find_last_not_of(",;:") + 1;
    const auto arg = std::ranges::find(verb.args, part.substr(0, end), &Argument::name);
    const auto i = static_cast<size_t>(arg - verb.args.begin());
    if (arg != verb.args.end())
      part.replace(0, end, i < given.size() ? given[i] : arg->otherwise.value_or(arg->name));
    told += (told.empty() ? "" : " ") + part;
  }
  if (!told.empty()) told[0] = static_cast<char>(std::toupper(told[0]));
  return told + "." + (verb.goes_on ? " Play and the Right arrow do this, too." : "");
}

}  // namespace

Argument Argument::or_else(std::string value) const {
  Argument changed = *this;
  changed.otherwise = changed.shown = std::move(value);
  return changed;
}

Argument Argument::field(std::string its_label, std::string at_first) const {
  Argument changed = *this;
  changed.label = std::move(its_label);
  changed.shown = std::move(at_first);
  return changed;
}

Argument Argument::follows(std::function<std::string()> of_page) const {
  Argument changed = *this;
  changed.state = std::move(of_page);
  return changed;
}
Argument Argument::follows(std::function<int64_t()> of_page) const {
  return follows([of_page = std::move(of_page)] { return std::to_string(of_page()); });
}

Argument word(std::string name) { return {.kind = Kind::kWord, .name = std::move(name)}; }
Argument text(std::string name) { return {.kind = Kind::kQuoted, .name = std::move(name)}; }
Argument number(std::string name, int64_t min, int64_t max) {
  return {.kind = Kind::kNumber, .name = std::move(name), .min = min, .max = max};
}
Argument power_of_two(std::string name, int64_t max) {
  return {.kind = Kind::kPowerOfTwo, .name = std::move(name), .min = 1, .max = max};
}
Argument choice(std::string names) { return {.kind = Kind::kChoice, .name = std::move(names)}; }
Argument words(std::string name, int64_t min, int64_t max) {
  return {.kind = Kind::kWords, .name = std::move(name), .min = min, .max = max};
}

std::vector<std::string> texts(const Words& words, size_t i) {
  std::vector<std::string> texts;
  for (; i < words.size(); ++i) texts.push_back(words[i].text);
  return texts;
}

std::vector<Verb> unless(std::function<std::string()> reason, std::vector<Verb> verbs) {
  for (Verb& verb : verbs) {
    verb.why_not = [reason, inner = std::move(verb.why_not)](const Words& words) {
      const std::string why = reason();
      return why.empty() && inner ? inner(words) : why;
    };
  }
  return verbs;
}

Counter share(std::string name, int64_t part, int64_t whole, std::string label, std::string tooltip,
              int digits) {
  Counter counter{
      .name = std::move(name), .label = std::move(label), .tooltip = std::move(tooltip)};
  if (whole > 0) counter.value = (1000 * part + whole / 2) / whole;
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  counter.text = whole > 0 ? fmt::format("{:.{}f} %", percent, digits) : "-";
  return counter;
}

std::vector<Button> one_of(const std::string& verb, const std::vector<int>& values,
                           const std::string& rest) {
  std::vector<Button> row;
  for (const int value : values) {
    const std::string line = fmt::format("{} {}", verb, value);
    row.push_back({line, std::to_string(value), line + rest});
  }
  return row;
}

Button append(const std::string& of, int tokens, char key, bool asked) {
  return {.name = fmt::format("{}/append {}", of, tokens),
          .label = fmt::format("+{}", tokens),
          .command = fmt::format("append {} {}", of, tokens),
          .key = key,
          .asked = asked};
}

void Page::declare(std::vector<Verb> verbs) {
  std::move(verbs.begin(), verbs.end(), std::back_inserter(verbs_));
}

/// The row that a line is about, and the line with the row's name as its verb.
std::pair<const Verb*, Command> Page::find(const Command& line) const {
  const auto row_of = [&](const std::string& name) {
    const auto row = std::ranges::find(verbs_, name, &Verb::name);
    return row == verbs_.end() ? nullptr : &*row;
  };
  if (!line.args.empty()) {  // "live" "beams" 4 is "live beams" 4, if there is such a row
    const std::string name = line.verb + " " + line.args.front();
    if (const Verb* row = row_of(name)) {
      return {row,
              {.verb = name, .args = {line.args.begin() + 1, line.args.end()}, .line = line.line}};
    }
  }
  return {row_of(line.verb), line};
}

std::string Page::apply(const Command& command) {
  const auto [verb, line] = find(command);
  if (verb == nullptr) {
    std::vector<std::string> names;
    for (const Verb& row : verbs_) names.push_back(row.name);
    const std::string meant = kv::nearest(command.verb, names);
    kv::user_error("{}: no such command; {}there are {}", command.verb,
                   meant.empty() ? "" : fmt::format("did you mean {}? ", meant),
                   fmt::join(names, ", "));
  }
  const Words given = read(line, *verb);
  const std::string why = verb->why_not ? verb->why_not(given) : "";
  if (!why.empty()) {
    refused(line, why);
    kv::user_error("{}: {}; nothing has changed", command.text(), why);
  }
  std::string story = verb->run(given);
  changed();
  return story;
}

std::string Page::why_not(const Command& command) const {
  const auto [verb, line] = find(command);
  if (verb == nullptr) return "there is no such command";
  try {
    const Words given = read(line, *verb);
    return verb->why_not ? verb->why_not(given) : "";
  } catch (const kv::UserError& error) {
    return error.what();
  }
}

std::optional<int64_t> Page::counter(std::string_view name) const {
  for (const Counter& counter : counters()) {
    if (counter.name == name) return counter.value;
  }
  return std::nullopt;
}

std::vector<std::string> Page::counter_names() const {
  std::vector<std::string> names;
  for (Counter& counter : counters()) names.push_back(std::move(counter.name));
  return names;
}

std::vector<std::pair<std::string, std::string>> Page::help() const {
  std::vector<std::pair<std::string, std::string>> all;
  for (const Verb& verb : verbs_) all.emplace_back(usage(verb), verb.help);
  return all;
}

std::string Page::next_step() const {
  for (const Verb& verb : verbs_) {
    if (!verb.goes_on) continue;
    const bool refused = !why_not({.verb = verb.name, .args = {}}).empty();
    if (!refused || (verb.on_its_way && verb.on_its_way())) return verb.name;
  }
  return {};
}

bool Page::waits() const {
  const std::string next = next_step();
  return !next.empty() && !why_not({.verb = next, .args = {}}).empty();
}

/// Whether the command would lead to what the page has now.
bool Page::holds(const Command& command) const {
  const auto [verb, line] = find(command);
  return verb != nullptr && verb->holds && verb->holds(read(line, *verb));
}

void Page::row(Ui& ui, const std::vector<Button>& buttons, bool chooses) const {
  for (const Button& button : buttons) {
    if (&button != &buttons.front()) ui.same_line();
    const Command command = parse_command(button.command);
    const std::string refusal = why_not(command);
    std::string tooltip = button.tooltip;
    if (const auto [verb, line] = find(command); verb != nullptr && tooltip.empty()) {
      tooltip = told(*verb, line.args);
    }
    if (button.key != 0) {
      tooltip += fmt::format(" Key: {}.", button.key);
      ui.underline(button.key);
    }
    if ((chooses || button.key != 0) && holds(command)) ui.light();
    if (button.asked && refusal.empty()) ui.fill();
    ui.button(button.name, button.label, button.command, tooltip, refusal);
  }
}

void Page::buttons(Ui& ui, const std::vector<Button>& row) const { this->row(ui, row, false); }

void Page::choice(Ui& ui, std::string_view of, const std::vector<Button>& row) const {
  ui.label(of);
  ui.same_line();
  this->row(ui, row, true);
}

std::string Page::field(Ui& ui, const std::string& verb, const std::string& argument) {
  const Verb& row = *std::ranges::find(verbs_, verb, &Verb::name);
  const Argument& arg = *std::ranges::find(row.args, argument, &Argument::name);
  const std::string name = verb + "/" + argument;
  const auto [entry, fresh] = fields_.try_emplace(name, Field{{.text = arg.shown}});
  Word& held = entry->second.held;
  std::string label = arg.label;
  if (label.empty()) {
    for (const char c : argument) label += static_cast<char>(std::tolower(c));
  }
  if (fresh && is_number(arg)) {
    held.number = arg.shown.empty() ? static_cast<int>(arg.min) : std::stoi(arg.shown);
  }
  if (arg.state && entry->second.state != arg.state()) {
    entry->second.state = held.text = arg.state();
    if (is_number(arg)) held.number = std::stoi(held.text);
  }
  if (!is_number(arg)) {
    ui.text(name, label, &held.text, fmt::format("{}: {}.", argument, row.help));
    return held.text;
  }
  int value = held.number;
  ui.number(name, label, &value, static_cast<int>(arg.min), static_cast<int>(arg.max),
            fmt::format("{}, {} to {}: {}.", argument, arg.min, arg.max, row.help));
  if (arg.kind == Kind::kPowerOfTwo) {  // + and - lead to the next one
    const auto wanted = static_cast<unsigned>(value);
    value = static_cast<int>(value > held.number ? std::bit_ceil(wanted) : std::bit_floor(wanted));
  }
  held.number = value;
  return std::to_string(value);
}

void Page::form(Ui& ui, Button button) {
  Command command = parse_command(button.command);
  const auto [verb, line] = find(command);
  for (size_t i = line.args.size(); i < verb->args.size(); ++i) {
    const std::string typed = field(ui, verb->name, verb->args[i].name);
    if (verb->args[i].kind == Kind::kWords) {
      std::ranges::move(words_of(typed), std::back_inserter(command.args));
    } else {
      command.args.push_back(typed);
    }
    const bool line_ends = verb->args[i].kind == Kind::kQuoted && i + 1 < verb->args.size();
    if (!line_ends) ui.same_line();
  }
  button.command = command.text();
  buttons(ui, {button});
}

}  // namespace viz
