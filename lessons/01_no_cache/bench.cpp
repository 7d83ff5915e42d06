// What a step costs without a cache: a pass over the whole sequence, for growing lengths.
//
//   lesson01_bench [--model DIR] [--device NAME] [--longest N] [--json FILE]

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/cli.h"
#include "engine.h"

namespace {

struct Options {
  kv::GenerateOptions model;
  int longest = 1024;
};

/// Median time of the pass that gives the token after `length` others.
double step_seconds(kv::Engine& engine, int length) {
  kv::Request request;
  for (int i = 0; i < length; ++i) request.prompt.push_back(i % 200);
  request.max_tokens = 1;
  std::vector<double> times;
  constexpr int kRepeats = 9;
  for (int i = 0; i < kRepeats; ++i) {
    times.push_back(engine.generate({&request, 1}).passes.at(0).seconds);
  }
  std::nth_element(times.begin(), times.begin() + kRepeats / 2, times.end());
  return times[kRepeats / 2];
}

void run(const Options& options) {
  const kv::Console console(options.model.json_file);
  kv::Model model = kv::load_model(options.model);
  const auto engine = lesson01::make_engine(model, {});
  const std::string device = kv::describe(model.device());
  console.print("One step without a cache, on {}\n\n", device);

  nlohmann::json points = nlohmann::json::array();
  kv::Table table({"tokens so far", "rows", "time of the next token"});
  step_seconds(*engine, options.longest);  // warm up: pages, workspace
  for (int length = 1; length <= options.longest && !kv::interrupted(); length *= 2) {
    const double seconds = step_seconds(*engine, length);
    table.add({kv::with_commas(length), kv::with_commas(length),
               fmt::format("{:.3f} ms", 1e3 * seconds)});
    points.push_back({{"length", length}, {"rows", length}, {"seconds", seconds}});
  }
  console.write(table.to_string());
  kv::write_json(options.model.json_file,
                 {{"lesson", "01"}, {"device", device}, {"points", points}});
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Lesson 01: time of one step without a cache, against the length.\n"};
  kv::add_model_options(app, options.model);
  app.add_option("--longest", options.longest, "longest sequence; lengths double from 1")
      ->type_name("N")
      ->check(kv::between(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--json", options.model.json_file, "also write the numbers as JSON; - for stdout")
      ->type_name("FILE");
  return kv::run_main(app, argc, argv, [&] { run(options); });
}
