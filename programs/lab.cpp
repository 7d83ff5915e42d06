#include "programs/lab.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "programs/streaming.h"

namespace kv {

Shown counted(int64_t number) { return {with_commas(number), number}; }

Shown decimal(double number, int digits) {
  return {fmt::format("{:.{}f}", number, digits), number};
}

Shown scaled(double number, double factor, int digits) {
  return {fmt::format("{:.{}f}", factor * number, digits), number};
}

Shown ms(double seconds, int digits) {
  return {fmt::format("{:.{}f} ms", 1e3 * seconds, digits), seconds};
}

Shown us(double seconds, int digits) {
  return {fmt::format("{:.{}f} us", 1e6 * seconds, digits), seconds};
}

Shown ns(double seconds, int digits) {
  return {fmt::format("{:.{}f} ns", 1e9 * seconds, digits), seconds};
}

Shown percent_of_one(double share) { return {fmt::format("{:.1f} %", 100 * share), share}; }

Shown share(int64_t part, int64_t whole) {
  const auto a = static_cast<double>(part), b = static_cast<double>(whole);
  return {percent(a, b), a / b};
}

Shown memory(int64_t bytes) { return {human_bytes(bytes), bytes}; }

Shown digest(uint64_t hash) { return hex64(hash); }

void Records::add(const std::vector<Field>& fields) {
  std::vector<std::string> columns, row;
  nlohmann::json record;
  for (const Field& field : fields) {
    columns.push_back(field.column);
    row.push_back(field.shown.text);
    if (!field.key.empty()) record[field.key] = field.shown.value;
  }
  if (!record.empty()) json_.push_back(std::move(record));
  if (!table_) table_.emplace(std::move(columns));
  table_->add(std::move(row));
}

double mean_first_token(const ServeResult& result) {
  double seconds = 0;
  for (const RequestTimes& times : result.times) seconds += times.first_token;
  return seconds / static_cast<double>(result.times.size());
}

Lab::Lab(const std::string& lesson, const GenerateOptions& its_options,
         std::function<std::string(Device)> name_device)
    : options(its_options),
      console(its_options.json_file),
      report({{"lesson", lesson}}),
      name_device_(std::move(name_device)) {}

Device Lab::device() {
  const Device device = resolve_device(options.device);
  report["device"] = name_device_(device);
  return device;
}

Model& Lab::model() {
  if (!model_) {
    device();
    model_.emplace(load_model(options));
  }
  return *model_;
}

const Tokenizer& Lab::tokenizer() {
  if (!tokenizer_) tokenizer_.emplace(Tokenizer::load(options.model_dir));
  return *tokenizer_;
}

std::vector<Request> Lab::requests() {
  const ModelConfig& config = model().config();  // an unusable model is named before its tokenizer
  return make_requests(options, tokenizer(), config);
}

void Lab::title(const std::string& words) {
  console.print("{}, on {}\n\n", words, describe(model().device()));
}

GenerateResult Lab::generate(Engine& engine, std::span<const Request> requests) {
  StreamPrinter printer(console, tokenizer(), options.prompts, requests);
  GenerateResult result = engine.generate(
      requests, [&](size_t request, int32_t token) { return printer.on_token(request, token); });
  printer.finish();
  report_result(result);
  return result;
}

void Lab::report_result(const GenerateResult& result) {
  report.update(json_of(result, tokenizer(), options.prompts));
}

void Lab::report_records(const std::string& key, const Records& records) {
  console.write(records.table());
  report[key] = records.json();
}

void Lab::print_hit_rate(int64_t found, int64_t asked) const {
  console.print("\nhit rate                  {} of {} prompt tokens, {}\n", with_commas(found),
                with_commas(asked),
                percent(static_cast<double>(found), static_cast<double>(asked)));
}

void Lab::require_same_bits(bool same, const std::string& otherwise) {
  report["same_bits"] = same;
  if (!same) throw std::logic_error(otherwise);
}

namespace {

int run_lab(const std::string& lesson, CommandLine& command, const GenerateOptions& options,
            std::function<std::string(Device)> name_device, int argc, char** argv,
            const std::function<void(Lab&)>& body) {
  return run_main(command, argc, argv, [&] {
    Lab lab(lesson, options, std::move(name_device));
    body(lab);
    write_json(options.json_file, lab.report);
  });
}

}  // namespace

int run_lesson(const std::string& lesson, CommandLine& command, const GenerateOptions& options,
               int argc, char** argv, const std::function<void(Lab&)>& body) {
  const auto name = [](Device device) { return std::string(name_of(device)); };
  return run_lab(lesson, command, options, name, argc, argv, body);
}

int run_bench(const std::string& lesson, CommandLine& command, const GenerateOptions& options,
              int argc, char** argv, const std::function<void(Lab&)>& body) {
  return run_lab(lesson, command, options, describe, argc, argv, body);
}

int bench_main(const std::string& lesson, const std::string& about, int argc, char** argv,
               const std::function<void(Lab&, const BenchOptions&)>& body) {
  BenchOptions options;
  CommandLine command(about);
  add_bench_options(command, options);
  return run_bench(lesson, command, options.model, argc, argv,
                   [&](Lab& lab) { body(lab, options); });
}

}  // namespace kv
