// ./course run: the same requests through every lesson, the same bits; a table of all lessons, and
// one of what the last ones gain where memory is short.

#include <algorithm>
#include <climits>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/table.h"
#include "common/terminal.h"
#include "ladder.h"
#include "programs/generate.h"
#include "programs/report.h"
#include "programs/streaming.h"
#include "second_act.h"
#include "workload.h"

namespace {

struct ProgramOptions {
  kv::GenerateOptions generate;
  std::string workload = "server";
  std::string lessons;
  std::optional<int> act;  // empty means both, if nothing asks for other conditions
  bool without_times = false;
  bool progress = false;
  int max_seq_len = 256;
  std::optional<int> kv_tokens;  // empty means what suits the workload
};

nlohmann::json json_of(const ladder::Rung& rung, const kv::Model& model) {
  const kv::EngineCounters& c = rung.counters;
  return {{"lesson", rung.number},
          {"topic", rung.topic},
          {"device", kv::name_of(model.device())},
          {"tokens", rung.tokens},
          {"logits_xxh64", kv::hex64(rung.digest)},
          {"kv_rows_computed", c.kv_rows_computed},
          {"passes", c.passes},
          {"max_sequences", c.max_sequences},
          {"kv_bytes_reserved", c.kv_bytes_reserved},
          {"kv_bytes_used", c.kv_bytes_used},
          {"kv_bytes_copied", c.kv_bytes_copied},
          {"first_token_seconds", rung.first_token},
          {"seconds", c.seconds}};
}

nlohmann::json json_of(std::span<const ladder::Rung> rungs, const kv::Model& model) {
  nlohmann::json list = nlohmann::json::array();
  for (const ladder::Rung& rung : rungs) list.push_back(json_of(rung, model));
  return list;
}

/// A row of one of the two tables.
struct Row {
  ladder::Rung rung;
  std::string where = {};                         // the case, in the second act
  int64_t kv::EngineCounters::*marked = nullptr;  // the number in which the lesson is better
};

/// A table without some of its columns, and with the first digits of each digest.
std::string table_of(std::span<const Row> rows, const std::vector<std::string>& left_out,
                     size_t num_digits) {
  const std::vector<std::string> columns{"lesson",       "where",     "rows",    "passes",
                                         "at once",      "reserved",  "waste",   "copied",
                                         "logits xxh64", "1st token", "tokens/s"};
  const auto kept = [&](const std::vector<std::string>& cells) {
    std::vector<std::string> row;
    for (size_t c = 0; c < columns.size(); ++c) {
      if (std::ranges::find(left_out, columns[c]) == left_out.end()) row.push_back(cells[c]);
    }
    return row;
  };
  kv::Table table(kept(columns));
  for (const Row& row : rows) {
    const kv::EngineCounters& c = row.rung.counters;
    const double rate = c.seconds > 0 ? static_cast<double>(row.rung.tokens) / c.seconds : 0.0;
    const auto wasted = static_cast<double>(c.kv_bytes_reserved - c.kv_bytes_used);
    const auto bytes = [](int64_t n) { return n > 0 ? kv::human_bytes(n) : "-"; };
    const auto number = [&](int64_t kv::EngineCounters::*counter) {
      return (row.marked == counter ? "*" : "") + kv::with_commas(c.*counter);
    };
    table.add(
        kept({row.rung.number + " " + row.rung.topic, row.where,
              number(&kv::EngineCounters::kv_rows_computed), number(&kv::EngineCounters::passes),
              number(&kv::EngineCounters::max_sequences), bytes(c.kv_bytes_reserved),
              kv::percent(wasted, static_cast<double>(c.kv_bytes_reserved)),
              bytes(c.kv_bytes_copied), kv::hex64(row.rung.digest).substr(0, num_digits),
              fmt::format("{:.1f} ms", 1e3 * row.rung.first_token), fmt::format("{:.0f}", rate)}));
  }
  return table.to_string(INT_MAX);  // fitted_table() leaves columns out instead
}

int columns_of(const std::string& table) {  // its rule, the second line, is as wide as the table
  const size_t rule = table.find('\n') + 1;
  return static_cast<int>(table.find('\n', rule) - rule);
}

/// The table without the columns `left_out`, in a narrow terminal with fewer digits and without
/// some of the columns `spare`, and a line that says so.
std::string fitted_table(std::span<const Row> rows, std::vector<std::string> left_out,
                         std::initializer_list<const char*> spare, int width) {
  std::string table = table_of(rows, left_out, 16);
  const int wanted = columns_of(table);
  if (wanted <= width) return table;
  std::string named = "half of each digest";
  table = table_of(rows, left_out, 8);
  for (const char* column : spare) {
    if (columns_of(table) <= width) break;
    if (std::ranges::find(left_out, column) != left_out.end()) continue;  // without times
    left_out.emplace_back(column);
    named += fmt::format(", {}", column);
    table = table_of(rows, left_out, 8);
  }
  return table +
         kv::wrapped(fmt::format("Left out: {}. A terminal of {} columns has room for all.\n",
                                 named, wanted),
                     width);
}

std::string first_table(std::span<const ladder::Rung> rungs, bool without_times, int width) {
  std::vector<Row> rows;
  for (const ladder::Rung& rung : rungs) rows.push_back({rung});
  std::vector<std::string> left_out{"where"};
  if (without_times) left_out.insert(left_out.end(), {"1st token", "tokens/s"});
  return fitted_table(rows, left_out, {"at once", "tokens/s", "1st token", "copied", "passes"},
                      width);
}

std::string second_table(std::span<const ladder::Pair> pairs, int width) {
  std::vector<Row> rows;
  for (const ladder::Pair& pair : pairs) {
    rows.push_back({pair.rungs[0], pair.what.name});
    rows.push_back({pair.rungs[1], pair.what.name, pair.what.gain});
  }
  return fitted_table(rows, {"waste", "copied", "1st token", "tokens/s"}, {"passes", "reserved"},
                      width);
}

/// "3,4": these lessons; nothing: all.
std::vector<ladder::Lesson> lessons_named(const std::string& list) {
  if (list.empty()) return ladder::lessons();
  std::vector<ladder::Lesson> named;
  std::stringstream numbers(list);
  for (std::string number; std::getline(numbers, number, ',');) {
    const auto found = std::ranges::find(ladder::lessons(), fmt::format("{:0>2}", number),
                                         &ladder::Lesson::number);
    if (found == ladder::lessons().end()) {
      kv::user_error("--lessons {}: there is no lesson '{}', wanted a list: 3,4,5", list, number);
    }
    named.push_back(*found);
  }
  return named;
}

/// The cases of these lessons.
std::vector<ladder::Case> cases_named(const std::string& list) {
  const std::vector<ladder::Lesson> lessons = lessons_named(list);
  std::vector<ladder::Case> named;
  for (const ladder::Case& what : ladder::cases()) {
    if (std::ranges::find(lessons, what.lesson, &ladder::Lesson::number) != lessons.end()) {
      named.push_back(what);
    }
  }
  if (named.empty()) {
    kv::user_error("--lessons {}: none of them is in the second act, wanted lessons 10 to 14",
                   list);
  }
  return named;
}

bool is_server(const ProgramOptions& program) {
  return program.workload == "server" && program.generate.prompts.empty();
}

/// 1 or 2, or 0 for both.
int act_of(const ProgramOptions& program) {
  const bool other = !is_server(program) || program.kv_tokens.has_value() ||
                     program.generate.window > 0 || program.generate.kv_dtype != "auto";
  if (program.act == 2 && other) {
    kv::user_error(
        "--act 2 has requests, memory, windows and a format of its own; leave out --prompt, "
        "--workload simple, --kv-tokens, --window and --kv-dtype");
  }
  const bool some =
      !program.lessons.empty() || ladder::cases().empty();  // an exercise has no cases
  return program.act.value_or(other || some ? 1 : 0);
}

/// Tells on standard error which lesson runs. A terminal shows one line, rewritten.
void tell(const ladder::Lesson& lesson, const char* where) {
  const bool terminal = kv::stderr_is_terminal();
  fmt::print(stderr, "{}running lesson {}{} ...{}", terminal ? "\r\x1b[K" : "", lesson.number,
             where, terminal ? "" : "\n");
}

/// The stories, which the first lesson tells, and the table.
std::vector<ladder::Rung> run_first_act(const ProgramOptions& program, const kv::Console& console,
                                        kv::Model& model, const kv::Tokenizer& tokenizer,
                                        const ladder::Requests& requests) {
  const auto& [texts, workload] = requests;
  const std::vector<ladder::Lesson> lessons = lessons_named(program.lessons);
  const int kv_tokens =
      program.kv_tokens.value_or(is_server(program) ? ladder::kServerKvTokens : 0);
  console.print("{}, {}, on {}\n\n", kv::count_of(std::ssize(texts), "sequence"),
                kv_tokens > 0 ? "KV memory for " + kv::count_of(kv_tokens, "token")
                              : "KV memory as each lesson needs it",
                kv::describe(model.device()));

  kv::StreamPrinter printer(console, tokenizer, texts, workload.requests);
  const std::string first = lessons.front().number;
  std::string current;
  int num_tokens = 0, max_tokens = 0;
  for (const kv::Request& request : workload.requests) max_tokens += request.max_tokens;
  const ladder::Watch watch{
      .on_lesson =
          [&](const ladder::Lesson& lesson) {
            if (current == first) {  // the text is complete: all lessons write the same
              printer.finish();
              console.print("\n");
            }
            current = lesson.number;
            num_tokens = 0;
            if (current != first) tell(lesson, "");
          },
      .on_token =
          [&](size_t request, int32_t token) {
            if (program.progress) fmt::print(stderr, "{} of {} tokens\n", ++num_tokens, max_tokens);
            return current == first ? printer.on_token(request, token) : !kv::interrupted();
          }};
  auto rungs = ladder::climb(model, workload, lessons, {program.max_seq_len, kv_tokens}, watch);
  if (kv::interrupted()) printer.finish();
  if (kv::stderr_is_terminal()) fmt::print(stderr, "\r\x1b[K");
  if (!rungs.empty()) {
    const std::string table = first_table(rungs, program.without_times, kv::output_columns());
    console.write(table);
    const bool has_rates = table.substr(0, table.find('\n')).ends_with("tokens/s");
    const bool has_09 = std::ranges::find(rungs, "09", &ladder::Rung::number) != rungs.end();
    if (has_rates && has_09 && model.device() == kv::Device::kCpu) {
      console.print("On a CPU each row takes its time, so 09's fewer passes need not be faster.\n");
    }
  }
  return rungs;
}

std::vector<ladder::Pair> run_second_act(const ProgramOptions& program, const kv::Console& console,
                                         kv::Model& model, const ladder::Workload& workload) {
  constexpr int kKvTokens = ladder::kServerKvTokens / 2;
  const ladder::Watch watch{
      .on_lesson = [](const ladder::Lesson& lesson) { tell(lesson, " where memory is short"); },
      .on_token = [](size_t, int32_t) { return !kv::interrupted(); }};
  auto pairs = ladder::run_cases(model, workload, cases_named(program.lessons),
                                 {program.max_seq_len, kKvTokens}, watch);
  if (kv::stderr_is_terminal()) fmt::print(stderr, "\r\x1b[K");
  if (pairs.empty()) return pairs;
  const std::string heading = fmt::format(
      "Where memory is short: the same requests, with KV memory for {}, half as much. In each case "
      "lesson 08 serves them, and then the lesson that has an answer; * marks what it improves.\n",
      kv::count_of(kKvTokens, "token"));
  console.print("{}\n", kv::wrapped(heading, kv::output_columns()));
  console.write(second_table(pairs, kv::output_columns()));
  return pairs;
}

/// What the two tables have shown, and where to go from there.
void say_what_comes_next(const kv::Console& console) {
  console.print(
      "\nOne digest all down the first table: memory changed, the math did not.\n"
      "Next: read lessons/01_no_cache/README.md, and click: ./course viz 5\n");
}

int run(const ProgramOptions& program) {
  const kv::GenerateOptions& options = program.generate;
  const int act = act_of(program);
  if (act != 1) cases_named(program.lessons);  // refuses what is wrong before anything runs
  const kv::Console console(options.json_file);
  kv::Model model = kv::load_model(options);
  const auto tokenizer = kv::Tokenizer::load(options.model_dir);
  const ladder::Requests requests =
      (is_server(program) ? ladder::server_requests : ladder::simple_requests)(options, tokenizer,
                                                                               model.config());
  nlohmann::json document;
  std::optional<std::string> mismatch;
  const auto note_mismatch = [&](std::span<const ladder::Rung> rungs) {
    if (!mismatch) mismatch = ladder::first_mismatch(rungs);
  };
  if (act != 2) {
    const auto rungs = run_first_act(program, console, model, tokenizer, requests);
    document["lessons"] = json_of(rungs, model);
    note_mismatch(rungs);
  }
  if (act == 0) console.print("\n\n");
  if (act != 1 && !kv::interrupted()) {
    document["second_act"] = nlohmann::json::array();
    for (const auto& pair : run_second_act(program, console, model, requests.workload)) {
      document["second_act"].push_back(
          {{"where", pair.what.name}, {"lessons", json_of(pair.rungs, model)}});
      note_mismatch(pair.rungs);
    }
  }
  kv::write_json(options.json_file, document);
  if (act == 0 && !mismatch && !kv::interrupted()) say_what_comes_next(console);
  console.flush();
  if (mismatch) {
    fmt::print(stderr, "error: {}\n", *mismatch);
    return kv::kExitInternal;
  }
  return kv::kExitOk;
}

}  // namespace

int main(int argc, char** argv) {
  kv::CommandLine command(
      "The ladder: the same requests through every lesson's engine: a table of all, and one of\n"
      "lessons 08 and 10 to 14 where memory is short. All must give the same bits of logits; if "
      "one does not, that is an error (exit code 1).",
      "./course run");
  ProgramOptions options;
  options.generate.max_tokens = 96;
  command
      .value("--workload NAME", options.workload,
             "server: requests that share a system prompt, samples, latecomers; simple: four "
             "prompts. With --prompt it is these")
      .one_of({"server", "simple"});
  kv::add_generate_options(command, options.generate);
  command.value("--lessons LIST", options.lessons, "only these, as in 3,4");
  constexpr auto kActs =
      "1: the table of all lessons; 2: the one where memory is short, of lesson 08 and each of 10 "
      "to 14 (default: both, or 1 if lessons, requests, memory or layers are given)";
  command.value("--act N", options.act, kActs).between(1, 2);
  command.flag("--without-times", options.without_times,
               "leave out the columns that differ from run to run");
  command.flag("--progress", options.progress,
               "after each token a line on standard error, as in 120 of 608 tokens");
  command
      .value("--max-seq-len N", options.max_seq_len,
             "token slots reserved for each sequence by lessons that reserve; 0: as needed")
      .between(0, 1 << 20);
  command
      .value("--kv-tokens N", options.kv_tokens,
             "tokens that fit each lesson's KV memory; a request that does not fit waits for a "
             "turn; 0: all "
             "fit (default: 832, simple: 0)")
      .between(0, 1 << 24);
  int code = kv::kExitOk;
  const int ended = kv::run_main(command, argc, argv, [&] { code = run(options); });
  return ended != kv::kExitOk ? ended : code;
}
