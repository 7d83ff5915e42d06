#pragma once

// What the programs and benchmarks of all lessons do alike: a lab has the console, the model and
// the requests, and a report whose numbers are said once, for people and for --json.

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/table.h"
#include "programs/bench.h"
#include "programs/report.h"
#include "programs/serving.h"

namespace kv {

/// A value as a table shows it, and as JSON has it.
struct Shown {
  Shown(std::string words) : text(std::move(words)), value(text) {}
  Shown(const char* words) : Shown(std::string(words)) {}
  Shown(bool same) : text(same ? "yes" : "NO"), value(same) {}
  Shown(std::integral auto number) : text(std::to_string(number)), value(number) {}
  Shown(std::string as_text, nlohmann::json as_json)
      : text(std::move(as_text)), value(std::move(as_json)) {}
  std::string text;
  nlohmann::json value;
};

/// "1,234".
Shown counted(int64_t number);
/// "0.50".
Shown decimal(double number, int digits);
/// "0.50", of a number `factor` times as large.
Shown scaled(double number, double factor, int digits);
/// "0.50 ms", "0.50 us", "0.50 ns".
Shown ms(double seconds, int digits);
Shown us(double seconds, int digits);
Shown ns(double seconds, int digits);
/// "45.1 %", of 0.451 or of 451 and 1,000.
Shown percent_of_one(double share);
Shown share(int64_t part, int64_t whole);
/// "448 MiB".
Shown memory(int64_t bytes);
/// 16 hexadecimal digits.
Shown digest(uint64_t hash);

/// One value of a record: a column of the table, and under `key` in the JSON if it has one.
struct Field {
  std::string column;
  Shown shown;
  std::string key = {};
};

/// Lines of a table that are also objects in the JSON.
class Records {
 public:
  /// All records have the same columns. One without a key is not in the JSON.
  void add(const std::vector<Field>& fields);
  /// Adds to the JSON's last record what only the JSON has.
  void note(const std::string& key, const nlohmann::json& value) { json_.back()[key] = value; }
  /// Empty without a record.
  std::string table() const { return table_ ? table_->to_string() : ""; }
  const nlohmann::json& json() const { return json_; }

 private:
  std::optional<Table> table_;
  nlohmann::json json_ = nlohmann::json::array();
};

/// Mean seconds from the start until a request's first token.
double mean_first_token(const ServeResult& result);

/// One run of a lesson's program. It says things on the console, and `report` is what --json
/// writes at its end. The model and the tokenizer are loaded when they are first asked for.
class Lab {
 public:
  /// Borrows the options. The report names the device as `name_device` does.
  Lab(const std::string& lesson, const GenerateOptions& options,
      std::function<std::string(Device)> name_device);

  /// The device of --device.
  Device device();
  Model& model();
  const Tokenizer& tokenizer();
  /// Those of --prompt.
  std::vector<Request> requests();

  /// Prints "Lesson 01, no cache, on <the model's device>".
  void title(const std::string& words);
  /// Generates, shows the texts as they come, and reports the result. Ctrl-C cancels what is left.
  GenerateResult generate(Engine& engine, std::span<const Request> requests);
  void report_result(const GenerateResult& result);
  /// Prints the table, and reports its records as `key`.
  void report_records(const std::string& key, const Records& records);
  /// "hit rate   1,024 of 2,048 prompt tokens, 50.0 %".
  void print_hit_rate(int64_t found, int64_t asked) const;
  /// Reports whether the bits are the `same`. A program whose bits differ fails: throws
  /// std::logic_error.
  void require_same_bits(bool same, const std::string& otherwise);

  const GenerateOptions& options;
  const Console console;
  nlohmann::json report;

 private:
  std::function<std::string(Device)> name_device_;
  std::optional<Model> model_;
  std::optional<Tokenizer> tokenizer_;
};

/// main() of a lesson's program: runs the body after the command line is read, then writes the
/// report. Returns the exit code.
int run_lesson(const std::string& lesson, CommandLine& command, const GenerateOptions& options,
               int argc, char** argv, const std::function<void(Lab&)>& body);
/// The same for its benchmark.
int run_bench(const std::string& lesson, CommandLine& command, const GenerateOptions& options,
              int argc, char** argv, const std::function<void(Lab&)>& body);
/// main() of a benchmark whose options are those of add_bench_options().
int bench_main(const std::string& lesson, const std::string& about, int argc, char** argv,
               const std::function<void(Lab&, const BenchOptions&)>& body);

}  // namespace kv
