// ./course run: the same requests through every lesson, one table, the same bits.

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
#include "workload.h"

namespace {

struct ProgramOptions {
  kv::GenerateOptions generate;
  std::string workload = "server";
  std::string lessons;
  bool without_times = false;
  bool progress = false;
  int max_seq_len = 256;
  std::optional<int> kv_tokens;  // empty means what suits the workload
};

nlohmann::json json_of_rungs(std::span<const ladder::Rung> rungs, const kv::Model& model) {
  nlohmann::json list = nlohmann::json::array();
  for (const ladder::Rung& rung : rungs) {
    const kv::EngineCounters& c = rung.counters;
    list.push_back({{"lesson", rung.number},
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
                    {"seconds", c.seconds}});
  }
  return {{"lessons", list}};
}

/// The table without some of its columns, and with the first digits of each digest.
std::string table_of_rungs(std::span<const ladder::Rung> rungs,
                           const std::vector<std::string>& left_out, size_t num_digits) {
  const std::vector<std::string> columns{"lesson",    "rows",    "passes", "at once",
                                         "reserved",  "waste",   "copied", "logits xxh64",
                                         "1st token", "tokens/s"};
  const auto kept = [&](const std::vector<std::string>& cells) {
    std::vector<std::string> row;
    for (size_t c = 0; c < columns.size(); ++c) {
      if (std::ranges::find(left_out, columns[c]) == left_out.end()) row.push_back(cells[c]);
    }
    return row;
  };
  kv::Table table(kept(columns));
  for (const ladder::Rung& rung : rungs) {
    const kv::EngineCounters& c = rung.counters;
    const double rate = c.seconds > 0 ? static_cast<double>(rung.tokens) / c.seconds : 0.0;
    const auto wasted = static_cast<double>(c.kv_bytes_reserved - c.kv_bytes_used);
    const auto bytes = [](int64_t n) { return n > 0 ? kv::human_bytes(n) : "-"; };
    table.add(kept(
        {rung.number + " " + rung.topic, kv::with_commas(c.kv_rows_computed),
         kv::with_commas(c.passes), kv::with_commas(c.max_sequences), bytes(c.kv_bytes_reserved),
         kv::percent(wasted, static_cast<double>(c.kv_bytes_reserved)), bytes(c.kv_bytes_copied),
         kv::hex64(rung.digest).substr(0, num_digits),
         fmt::format("{:.1f} ms", 1e3 * rung.first_token), fmt::format("{:.0f}", rate)}));
  }
  return table.to_string(INT_MAX);  // fitted_table() leaves columns out instead
}

int columns_of(const std::string& table) {  // its rule, the second line, is as wide as the table
  const size_t rule = table.find('\n') + 1;
  return static_cast<int>(table.find('\n', rule) - rule);
}

/// The table, in a narrow terminal with fewer digits and columns, and a line that says so.
std::string fitted_table(std::span<const ladder::Rung> rungs, bool without_times, int width) {
  std::vector<std::string> left_out;
  if (without_times) left_out = {"1st token", "tokens/s"};
  std::string table = table_of_rungs(rungs, left_out, 16);
  const int wanted = columns_of(table);
  if (wanted <= width) return table;
  std::string named = "half of each digest";
  table = table_of_rungs(rungs, left_out, 8);
  for (const char* column : {"at once", "tokens/s", "1st token", "copied", "passes"}) {
    if (columns_of(table) <= width) break;
    if (std::ranges::find(left_out, column) != left_out.end()) continue;  // without times
    left_out.emplace_back(column);
    named += fmt::format(", {}", column);
    table = table_of_rungs(rungs, left_out, 8);
  }
  return table +
         kv::wrapped(fmt::format("Left out: {}. A terminal of {} columns has room for all.\n",
                                 named, wanted),
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
      kv::user_error("--lessons {}: there is no lesson '{}', wanted numbers as in 3,4", list,
                     number);
    }
    named.push_back(*found);
  }
  return named;
}

int run(const ProgramOptions& program) {
  const kv::GenerateOptions& options = program.generate;
  const std::vector<ladder::Lesson> lessons = lessons_named(program.lessons);
  const kv::Console console(options.json_file);
  kv::Model model = kv::load_model(options);
  const auto tokenizer = kv::Tokenizer::load(options.model_dir);
  const bool server = program.workload == "server" && options.prompts.empty();
  const auto [texts, workload] = (server ? ladder::server_requests : ladder::simple_requests)(
      options, tokenizer, model.config());
  const int kv_tokens = program.kv_tokens.value_or(server ? ladder::kServerKvTokens : 0);
  console.print("{}, {}, on {}\n\n", kv::count_of(std::ssize(texts), "sequence"),
                kv_tokens > 0 ? "KV memory for " + kv::count_of(kv_tokens, "token")
                              : "KV memory as each lesson needs it",
                kv::describe(model.device()));

  kv::StreamPrinter printer(console, tokenizer, texts, workload.requests);
  const std::string first = lessons.front().number;
  std::string current;
  const bool terminal = kv::stderr_is_terminal();  // which shows one line, rewritten
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
            if (current == first) return;
            fmt::print(stderr, "{}running lesson {} ...{}", terminal ? "\r" : "", current,
                       terminal ? "" : "\n");
          },
      .on_token =
          [&](size_t request, int32_t token) {
            if (program.progress) fmt::print(stderr, "{} of {} tokens\n", ++num_tokens, max_tokens);
            return current == first ? printer.on_token(request, token) : !kv::interrupted();
          }};
  const auto rungs =
      ladder::climb(model, workload, lessons, {program.max_seq_len, kv_tokens}, watch);
  if (kv::interrupted()) printer.finish();
  if (terminal) fmt::print(stderr, "\r\x1b[K");
  if (!rungs.empty())
    console.write(fitted_table(rungs, program.without_times, kv::output_columns()));
  kv::write_json(options.json_file, json_of_rungs(rungs, model));
  console.flush();
  if (const auto mismatch = ladder::first_mismatch(rungs)) {
    fmt::print(stderr, "error: {}\n", *mismatch);
    return kv::kExitInternal;
  }
  return kv::kExitOk;
}

}  // namespace

int main(int argc, char** argv) {
  kv::CommandLine command(
      "The ladder: the same requests through every lesson's engine, one table. All lessons must\n"
      "give the same bits of logits; if one does not, that is an error (exit code 1).",
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
