// ./course run: the same prompts through every lesson, one table, the same bits.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/table.h"
#include "common/program/generate.h"
#include "common/program/report.h"
#include "common/program/streaming.h"
#include "ladder.h"

namespace {

// Four prompts of different lengths, so that a flat cache has something to waste.
const std::vector<std::string> kPrompts = {
    "Once upon a time",
    "One day, a little fox found a red kite in the forest.",
    "Once upon a time, there was a little boat. The boat was blue, and it lived on a quiet river.",
    "The old owl was sad.",
};
constexpr int kMaxTokens = 96;
constexpr int kMaxSeqLen = 256;

nlohmann::json json_of_rungs(std::span<const ladder::Rung> rungs, const kv::Model& model) {
  nlohmann::json list = nlohmann::json::array();
  for (const ladder::Rung& rung : rungs) {
    const kv::EngineCounters& c = rung.result.counters;
    list.push_back({{"lesson", rung.number},
                    {"topic", rung.topic},
                    {"device", kv::name_of(model.device())},
                    {"tokens", rung.tokens},
                    {"logits_xxh64", kv::hex64(rung.digest)},
                    {"kv_rows_computed", c.kv_rows_computed},
                    {"kv_bytes_reserved", c.kv_bytes_reserved},
                    {"kv_bytes_used", c.kv_bytes_used},
                    {"seconds", c.seconds}});
  }
  return {{"lessons", list}};
}

std::string table_of_rungs(std::span<const ladder::Rung> rungs) {
  kv::Table table({"lesson", "tokens/s", "K/V rows computed", "KV reserved", "KV used", "waste",
                   "same bits", "logits xxh64"});
  for (const ladder::Rung& rung : rungs) {
    const kv::EngineCounters& c = rung.result.counters;
    const bool cached = c.kv_bytes_reserved > 0;
    const double rate = c.seconds > 0 ? static_cast<double>(rung.tokens) / c.seconds : 0.0;
    const auto wasted = static_cast<double>(c.kv_bytes_reserved - c.kv_bytes_used);
    table.add({rung.number + " " + rung.topic, fmt::format("{:.0f}", rate),
               kv::with_commas(c.kv_rows_computed),
               cached ? kv::human_bytes(c.kv_bytes_reserved) : "-",
               cached ? kv::human_bytes(c.kv_bytes_used) : "-",
               kv::percent(wasted, static_cast<double>(c.kv_bytes_reserved)),
               rung.digest == rungs[0].digest ? "yes" : "NO", kv::hex64(rung.digest)});
  }
  return table.to_string();
}

int run(const kv::GenerateOptions& options, int max_seq_len) {
  const kv::Console console(options.json_file);
  kv::Model model = kv::load_model(options);
  const auto tokenizer = kv::Tokenizer::load(options.model_dir);
  const auto requests = kv::make_requests(options, tokenizer, model.config());
  console.print("{} prompts, up to {} tokens each, on {}\n\n", requests.size(), options.max_tokens,
                kv::describe(model.device()));

  kv::StreamPrinter printer(console, tokenizer, options.prompts, requests);
  const std::string first = ladder::lessons().front().number;
  std::string current;
  const ladder::Watch watch{
      .on_lesson =
          [&](const ladder::Lesson& lesson) {
            if (current == first) {  // the text is complete: all lessons write the same
              printer.finish();
              console.print("\n");
            }
            current = lesson.number;
            if (current != first) fmt::print(stderr, "running lesson {} ...\n", current);
          },
      .on_token =
          [&](size_t request, int32_t token) {
            return current == first ? printer.on_token(request, token) : !kv::interrupted();
          }};
  const auto rungs = ladder::climb(model, requests, ladder::lessons(), {max_seq_len}, watch);
  if (kv::interrupted()) printer.finish();
  if (!rungs.empty()) console.write(table_of_rungs(rungs));
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
      "The ladder: the same prompts through every lesson's engine, one table. All lessons must "
      "give\n"
      "the same bits of logits; if one does not, that is an error (exit code 1).",
      "./course run");
  kv::GenerateOptions options;
  options.prompts = kPrompts;
  options.max_tokens = kMaxTokens;
  int max_seq_len = kMaxSeqLen;
  kv::add_generate_options(command, options);
  command
      .value("--max-seq-len N", max_seq_len,
             "token slots reserved for each sequence by lessons that reserve; 0: as needed")
      .between(0, 1 << 20);
  int code = kv::kExitOk;
  const int ended = kv::run_main(command, argc, argv, [&] { code = run(options, max_seq_len); });
  return ended != kv::kExitOk ? ended : code;
}
