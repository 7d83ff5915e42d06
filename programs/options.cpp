#include "programs/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <regex>
#include <utility>

#include "common/console.h"
#include "common/error.h"
#include "common/nearest.h"
#include "common/terminal.h"
#include "common/utf8.h"

namespace kv {
namespace {

template <typename Number>
bool parses_as(const std::string& text, Number& value) {
#ifdef __EMSCRIPTEN__  // whose library reads no real numbers
  if constexpr (std::is_floating_point_v<Number>) {
    char* stop = nullptr;
    value = std::strtod(text.c_str(), &stop);
    return !text.empty() && stop == text.data() + text.size();
  } else
#endif
  {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    return error == std::errc() && stop == end;
  }
}

/// Refuses what `allowed` does not like; `range` is in the message and in the help.
template <typename Allowed>
CLI::Validator validator(const std::string& range, const std::string& shown,
                         const Allowed& allowed) {
  return {[=](std::string& text) {
            return allowed(text) ? std::string()
                                 : fmt::format("'{}' is not allowed, wanted {}", text, range);
          },
          shown};
}

template <typename Allowed>
CLI::Validator real_validator(const std::string& range, const Allowed& allowed) {
  return validator(range, range, [=](const std::string& text) {
    double value = 0;
    return parses_as(text, value) && allowed(value);
  });
}

/// "unknown option '--max-token'; did you mean --max-tokens? ./course run --help lists the options"
[[noreturn]] void refuse_extra(const CLI::App& app, const std::string& word) {
  const std::string help = app.get_name() + " --help lists the options";
  if (!word.starts_with('-')) {
    user_error("unexpected '{}'; a text of several words needs quotes; {}", word, help);
  }
  const std::string name = word.substr(0, word.find('='));
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) known.push_back(option->get_name());
  const std::string meant = nearest(name, known);
  const std::string guess = meant.empty() ? "" : fmt::format("did you mean {}? ", meant);
  user_error("unknown option '{}'; {}{}", name, guess, help);
}

/// "1 to 8; default 4; only with --x"
std::string limits_of(const CLI::Option* option, const std::string& range) {
  std::vector<std::string> limits;
  if (option->get_required()) limits.push_back("required");
  if (!range.empty()) limits.push_back(range);
  if (!option->get_default_str().empty()) {
    limits.push_back("default " + option->get_default_str());
  }
  for (const CLI::Option* other : option->get_excludes()) {
    limits.push_back("not with " + other->get_name());
  }
  for (const CLI::Option* other : option->get_needs()) {
    limits.push_back("only with " + other->get_name());
  }
  return fmt::format("{}", fmt::join(limits, "; "));
}

/// The help, in the form that tools/course.py has, too: usage, one sentence, arguments and options,
/// and what else is to be said. An option whose name leaves no gap before its description has a
/// line of its own, so that wrapped() finds the column of the descriptions.
class Help : public CLI::Formatter {
 public:
  explicit Help(int columns) {
    column_width(static_cast<size_t>(std::clamp(columns / 2, 20, 34)));
    label("Positionals", "arguments");
  }
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string usage = "usage: " + name;
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_positional()) usage += " " + make_option_usage(option);
    }
    const std::string about = app->get_description();
    const size_t end = std::min(about.find(". "), about.size() - 1) + 1;  // of the first sentence
    const std::string more = end < about.size() ? "\n" + about.substr(end + 1) + "\n" : "";
    return usage + " [options]\n\n" + about.substr(0, end) + "\n" + make_positionals(app) +
           make_groups(app, mode) + more;
  }
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string name = "  " + make_option_name(option, is_positional);
    if (const size_t comma = name.find(",-"); comma != name.npos) name.insert(comma + 1, " ");
    const std::string type = option->get_type_name();  // "N:1 to 8"
    const size_t colon = std::min(type.find(':'), type.size());
    if (colon > 0 && option->get_type_size() > 0) name += " " + type.substr(0, colon);
    const std::string limits = limits_of(option, type.substr(std::min(colon + 1, type.size())));
    const std::string text =
        option->get_description() + (limits.empty() ? "" : " (" + limits + ")");
    const size_t column = get_column_width();
    const bool fits = name.size() + 2 <= column;
    name += fits ? std::string(column - name.size(), ' ') : "\n" + std::string(column, ' ');
    return name + text + "\n";
  }
};

/// Of the terminal; where there is none, and no COLUMNS, those of most terminals.
int help_columns() {
  const int columns = output_columns();
  return columns == INT_MAX ? 80 : columns;
}

/// One line for each paragraph: wrapped() breaks it where the terminal ends.
std::string joined(std::string text) {
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == '\n' && text[i - 1] != '\n' && !std::isspace(text[i + 1])) text[i] = ' ';
  }
  return text;
}

/// "--name TYPE" in its two parts.
std::pair<std::string, std::string> split(const std::string& name) {
  const size_t space = name.find(' ');
  return {name.substr(0, space), name.substr(space + 1)};
}

}  // namespace

Option& Option::between(int64_t smallest, int64_t largest) {
  const std::string range = fmt::format("{} to {}", smallest, largest);
  const bool no_limit = largest >= std::numeric_limits<int32_t>::max();
  option_->check(validator(range, no_limit ? fmt::format("{} or more", smallest) : range,
                           [=](const std::string& text) {
                             int64_t value = 0;
                             return parses_as(text, value) && value >= smallest && value <= largest;
                           }));
  return *this;
}

Option& Option::real_between(double smallest, double largest) {
  option_->check(real_validator(fmt::format("{} to {}", smallest, largest), [=](double value) {
    return value >= smallest && value <= largest;
  }));
  return *this;
}

Option& Option::over(double limit, double largest) {
  option_->check(real_validator(fmt::format("over {} to {}", limit, largest),
                                [=](double value) { return value > limit && value <= largest; }));
  return *this;
}

Option& Option::one_of(const std::vector<std::string>& names, const std::string& hint) {
  std::string range;
  for (size_t i = 0; i < names.size(); ++i) {
    range += (i == 0 ? "" : i + 1 < names.size() ? ", " : " or ") + names[i];
  }
  option_->check(validator(range + hint, "", [=](const std::string& text) {
    return std::find(names.begin(), names.end(), text) != names.end();
  }));
  return *this;
}

Option& Option::not_empty() {
  option_->check(validator("at least one character", "",
                           [](const std::string& text) { return !text.empty(); }));
  return *this;
}

Option& Option::output_file() {
  option_->check(validator("a file in a folder that is there", "", [](const std::string& text) {
    std::error_code none;
    const std::filesystem::path folder = std::filesystem::path(text).parent_path();
    return !std::filesystem::is_directory(text, none) &&
           (folder.empty() || std::filesystem::is_directory(folder, none));
  }));
  return *this;
}

Option& Option::excludes(const std::string& other) {
  option_->excludes(app_->get_option(other));
  return *this;
}

Option& Option::needs(const std::string& other) {
  option_->needs(app_->get_option(other));
  return *this;
}

Option& Option::required() {
  option_->required();
  return *this;
}

CommandLine::CommandLine(const std::string& about, const std::string& program)
    : app_(std::make_unique<CLI::App>(joined(about), program)) {
  app_->set_help_flag("-h,--help", "shows this help")->group("options");
  app_->option_defaults()->group("options");
}

CommandLine::~CommandLine() = default;

Option CommandLine::flag(const std::string& name, bool& value, const std::string& help) {
  return {app_.get(), app_->add_flag(name, value, help)};
}

template <typename T>
Option CommandLine::value(const std::string& name, T& value, const std::string& help) {
  const auto [option, type] = split(name);
  CLI::Option* added = app_->add_option(option, value, help)->type_name(type);
  // An optional value has no default, and a folder's is long: the help says both in words.
  constexpr bool kShown = !std::is_same_v<T, std::optional<int>> &&
                          !std::is_same_v<T, std::optional<uint64_t>> &&
                          !std::is_same_v<T, std::filesystem::path>;
  if (kShown) added->capture_default_str();
  return {app_.get(), added};
}

template Option CommandLine::value(const std::string&, int&, const std::string&);
template Option CommandLine::value(const std::string&, uint64_t&, const std::string&);
template Option CommandLine::value(const std::string&, float&, const std::string&);
template Option CommandLine::value(const std::string&, double&, const std::string&);
template Option CommandLine::value(const std::string&, std::string&, const std::string&);
template Option CommandLine::value(const std::string&, std::filesystem::path&, const std::string&);
template Option CommandLine::value(const std::string&, std::optional<int>&, const std::string&);
template Option CommandLine::value(const std::string&, std::optional<uint64_t>&,
                                   const std::string&);

Option CommandLine::json_file(std::string& file, const std::string& content) {
  return value("--json FILE", file, "also write " + content + " as JSON; - for standard output")
      .output_file();
}

Option CommandLine::list(const std::string& name, std::vector<std::string>& values,
                         const std::string& help) {
  const auto [option, type] = split(name);
  CLI::Option* added = app_->add_option(option, values, help)
                           ->type_name(type)
                           ->expected(1)
                           ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  // The help shows a single default; of several it shows the number.
  if (values.size() == 1) added->default_str("[" + one_line(values[0], 60) + "]");
  if (values.size() > 1) added->default_str(fmt::format("[{} of its own]", values.size()));
  return {app_.get(), added};
}

bool CommandLine::parse(int argc, char** argv) {
  if (const char* const typed = std::getenv("COURSE_COMMAND")) app_->name(typed);
  if (app_->get_name().empty()) app_->name(std::filesystem::path(argv[0]).filename().string());
  try {
    app_->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const Console out("");
    app_->formatter(std::make_shared<Help>(help_columns()));
    out.write(wrapped(app_->help(), help_columns()));
    return false;
  } catch (const CLI::ExtrasError&) {
    refuse_extra(*app_, app_->remaining().front());
  } catch (const CLI::RequiredError& error) {
    const std::vector<std::string> extras = app_->remaining();
    if (!extras.empty() && extras[0].starts_with('-')) refuse_extra(*app_, extras[0]);  // its typo
    // "what is required": what has no dashes is named in capitals, as in the help
    std::string what = error.what();
    const std::string name = what.substr(0, what.find(' '));
    for (size_t i = 0; what[0] != '-' && i < name.size(); ++i) {
      what[i] = static_cast<char>(std::toupper(static_cast<unsigned char>(what[i])));
    }
    const CLI::Option* const missing = app_->get_option_no_throw(name);
    if (missing != nullptr) what += ": " + missing->get_description();
    user_error("{}; {} --help lists the options", what, app_->get_name());
  } catch (const CLI::ArgumentMismatch& error) {
    // "--x: 1 required N:0 to 10 missing", "--x: At Most 1 required but received 2"
    static const std::regex kMissing("^(.*): 1 required (.*) missing$");
    static const std::regex kTwice("^(.*): At Most 1 required but received (.*)$");
    std::string what = error.what();
    what = std::regex_replace(what, kMissing, "$1: a value is missing, wanted $2");
    what = std::regex_replace(what, kTwice, "$1: found $2 values, wanted one");
    user_error("{}; {} --help lists the options", what, app_->get_name());
  } catch (const CLI::ParseError& error) {
    // "--x excludes --y", "--x requires --y": in the words of the help
    static const std::regex kPair("^(--[^ ]+) (excludes|requires) (--[^ ]+)$");
    std::smatch pair;
    const std::string what = error.what();
    if (std::regex_match(what, pair, kPair)) {
      user_error("{}: {} {}; {} --help lists the options", pair[1].str(),
                 pair[2] == "excludes" ? "not with" : "only with", pair[3].str(), app_->get_name());
    }
    user_error("{}; {} --help lists the options", error.what(), app_->get_name());
  }
  return true;
}

void add_pool_options(CommandLine& command, int& block_size, int& num_blocks,
                      const std::string& num_blocks_help) {
  command.value("--block-size N", block_size, "tokens per KV block, a power of two")
      .between(1, 256);
  command.value("--num-blocks N", num_blocks, num_blocks_help).between(0, 1 << 24);
}

}  // namespace kv
