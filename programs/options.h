#pragma once

// The options of a program: what can be given, what each is by default, and what is allowed. CLI11
// parses them; options.cpp alone includes it, because a file that does takes seconds to compile.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace kv {

/// One option of a CommandLine, to say more about it:
///   command.value("--context N", context, "tokens before the step").between(1, 4096);
class Option {
 public:
  /// Integers: any other is refused with "'99' is not allowed, wanted 1 to 8", however large it is.
  Option& between(int64_t smallest, int64_t largest);
  /// Real numbers, both ends allowed; nan is not.
  Option& real_between(double smallest, double largest);
  /// Real numbers over `limit` and up to `largest`.
  Option& over(double limit, double largest);
  /// `hint` ends the message about another name.
  Option& one_of(const std::vector<std::string>& names, const std::string& hint = "");
  Option& not_empty();
  /// A file to be written: its folder must be there. So no work is done and then lost.
  Option& output_file();
  /// The two cannot be given together. The other one has been added already.
  Option& excludes(const std::string& other);
  /// Refuses this option without `other`, which has been added already: it has no effect alone.
  Option& needs(const std::string& other);
  Option& required();

 private:
  friend class CommandLine;
  Option(CLI::App* app, CLI::Option* option) : app_(app), option_(option) {}
  CLI::App* app_;
  CLI::Option* option_;
};

/// Options and arguments of a program. A name is "--name TYPE", and for what is given without one
/// "name TYPE".
class CommandLine {
 public:
  /// `about` begins the help. Messages call the program what its user typed: $COURSE_COMMAND, which
  /// ./course sets, or else `program`, or else the name of its file.
  explicit CommandLine(const std::string& about, const std::string& program = {});
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  /// True when it is given.
  Option flag(const std::string& name, bool& value, const std::string& help);
  /// The present content of `value` is the default, which the help shows unless it is a path. T is
  /// int, uint64_t, float, double, std::string, std::filesystem::path, or std::optional<int> or
  /// std::optional<uint64_t>, which stay empty if the option is not given.
  template <typename T>
  Option value(const std::string& name, T& value, const std::string& help);
  /// --json FILE, the same option in every program. `content` is the object of "also write".
  Option json_file(std::string& file, const std::string& content);
  /// Can be given several times.
  Option list(const std::string& name, std::vector<std::string>& values, const std::string& help);

  /// False after --help, which prints. Throws UserError for anything that is not allowed.
  bool parse(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

/// --block-size and --num-blocks, of a program with a pool of KV blocks.
void add_pool_options(
    CommandLine& command, int& block_size, int& num_blocks,
    const std::string& num_blocks_help = "blocks in the pool; 0: as many as needed");

}  // namespace kv
