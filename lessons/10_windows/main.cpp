// The program of lesson 10: text of a model in which layers forget. It shows the groups of layers
// and the tables of the first sequence at its end. It compares the memory held with that of a cache
// that keeps everything, at equal bits. --held: a sequence of Gemma 3 at many lengths, without a
// model.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/held_blocks.h"
#include "common/table.h"
#include "engine.h"
#include "lessons/08_scheduler/engine.h"
#include "programs/generate.h"
#include "programs/report.h"
#include "programs/streaming.h"

namespace {

using lesson10::KvCacheGroup;
using lesson10::WindowsEngine;

struct Options {
  kv::GenerateOptions generate;
  bool held = false;
  int block_size = 16;
  int num_blocks = 0;
  int max_chunk = 0;
};

/// "0-4, 6" for ascending numbers.
std::string ranges(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size(); ++i) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[i]);
    if (last > i) text += fmt::format("{}{}", last == i + 1 ? ", " : "-", numbers[last]);
    i = last;
  }
  return text;
}

/// "12 null, 7 8 15".
std::string entries(std::span<const int32_t> blocks, int num_null) {
  std::string text = num_null > 0 ? fmt::format("{} null", num_null) : "";
  const auto held = blocks.subspan(num_null);
  if (!held.empty()) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", fmt::join(held, " "));
  }
  return text;
}

/// The tables of a sequence in one pass.
struct Tables {
  int num_tokens = 0;
  std::vector<std::string> of_group;
};

Tables tables_of(const lesson10::KvCacheCoordinator& manager, int64_t id) {
  Tables tables{.num_tokens = manager.table(id).num_tokens(), .of_group = {}};
  for (int group = 0; group < manager.num_groups(); ++group) {
    tables.of_group.push_back(
        entries(manager.table(id, group).block_ids(), manager.first_block(id, group)));
  }
  return tables;
}

void print_groups(const kv::Console& console, const std::vector<KvCacheGroup>& groups,
                  const Tables& tables) {
  kv::Table table(
      {"group", "window", "layers",
       fmt::format("blocks of the first sequence, {}", kv::count_of(tables.num_tokens, "token"))});
  for (size_t i = 0; i < groups.size(); ++i) {
    table.add({std::to_string(i), groups[i].window == 0 ? "all" : std::to_string(groups[i].window),
               ranges(groups[i].layers), i < tables.of_group.size() ? tables.of_group[i] : ""});
  }
  console.write(table.to_string());
}

nlohmann::json print_result(const kv::Console& console, const kv::GenerateResult& found,
                            const kv::GenerateResult& everything) {
  kv::Table table({"", "most blocks", "most bytes", "logits xxh64"});
  const auto add = [&](const char* name, const kv::GenerateResult& result) {
    table.add({name, kv::with_commas(result.counters.named("blocks_in_use")),
               kv::human_bytes(result.counters.kv_bytes_reserved),
               kv::hex64(kv::combined_digest(result.completions))});
  };
  add("lesson 08, all is kept", everything);
  add("in groups, layers forget", found);
  console.print("\n{}", table.to_string());
  return {{"max_blocks", found.counters.named("blocks_in_use")},
          {"max_blocks_without", everything.counters.named("blocks_in_use")},
          {"max_bytes", found.counters.kv_bytes_reserved},
          {"max_bytes_without", everything.counters.kv_bytes_reserved}};
}

nlohmann::json json_of(const std::vector<KvCacheGroup>& groups) {
  nlohmann::json all = nlohmann::json::array();
  for (const KvCacheGroup& group : groups) {
    all.push_back({{"window", group.window}, {"layers", group.layers}});
  }
  return all;
}

void generate(const Options& options) {
  const kv::GenerateOptions& generate = options.generate;
  const kv::Console console(generate.json_file);
  kv::Model model = kv::load_model(generate);
  const auto tokenizer = kv::Tokenizer::load(generate.model_dir);
  const auto requests = kv::make_requests(generate, tokenizer, model.config());
  const lesson10::PagedOptions paged{.block_size = options.block_size,
                                     .num_blocks = options.num_blocks};
  const lesson08::ServeOptions serve{.scheduler = {.max_chunk = options.max_chunk}};
  WindowsEngine engine(model, paged, serve);
  console.print("Lesson 10, windows, on {}\n\n", kv::describe(model.device()));

  Tables last;
  kv::StreamPrinter printer(console, tokenizer, generate.prompts, requests);
  const auto result = engine.serve(
      requests, {}, [&](size_t i, int32_t token) { return printer.on_token(i, token); },
      [&](const auto&, const lesson08::SchedulerOutput& output) {
        if (std::ranges::find(output.chunks, 0, &lesson08::Chunk::id) != output.chunks.end()) {
          last = tables_of(*engine.manager(), 0);
        }
        return !kv::interrupted();
      });
  printer.finish();
  console.print("\n");
  print_groups(console, engine.manager()->groups(), last);
  nlohmann::json document = kv::json_of(result.generated, tokenizer, generate.prompts);
  if (!kv::interrupted()) {
    const auto plain = lesson08::ServingEngine(model, {.block_size = options.block_size}, serve)
                           .generate(requests);
    document.update(print_result(console, result.generated, plain));
    const bool same =
        kv::combined_digest(plain.completions) == kv::combined_digest(result.generated.completions);
    document["same_bits"] = same;
    if (!same) throw std::logic_error("the bits differ: a layer has forgotten what it needed");
  }
  document["lesson"] = "10";
  document["device"] = kv::name_of(model.device());
  document["groups"] = json_of(engine.manager()->groups());
  document["tables"] = last.of_group;
  kv::write_json(generate.json_file, document);
}

/// Gemma 3, 5 layers of 6 with a window of 1,024 tokens, at 4k to 128k tokens.
void print_held(const Options& options) {
  const kv::Console console(options.generate.json_file);
  const kv::KnownModel model = kv::known_model("Gemma 3 27B");
  const kv::ModelConfig config = lesson10::with_windows(model);
  const int chunk = options.max_chunk > 0 ? options.max_chunk : 512;
  const auto groups = lesson10::make_groups(config);
  console.print(
      "{}: {} layers, {} of them with a window of {}; {} groups of {} layers, blocks of {}, chunks "
      "of {}\n\n",
      model.name, config.num_layers, model.windowed_layers, kv::count_of(model.window, "token"),
      groups.size(), lesson10::layers_per_group(groups), kv::count_of(options.block_size, "token"),
      chunk);
  kv::Table table({"tokens", "group 0", "others", "held", "all layers full", "share", "peak"});
  nlohmann::json rows = nlohmann::json::array();
  for (int tokens = 4096; tokens <= 131'072; tokens *= 2) {
    const auto held = lesson10::held_blocks(config, tokens, options.block_size, chunk);
    const auto bytes = static_cast<double>(held.bytes), all = static_cast<double>(held.all_bytes);
    table.add({kv::with_commas(tokens), kv::with_commas(held.full), kv::with_commas(held.sliding),
               kv::human_bytes(held.bytes), kv::human_bytes(held.all_bytes),
               kv::percent(bytes, all), kv::with_commas(held.peak)});
    rows.push_back({{"tokens", tokens},
                    {"full_blocks", held.full},
                    {"sliding_blocks", held.sliding},
                    {"peak_blocks", held.peak},
                    {"bytes", held.bytes},
                    {"all_blocks", held.all},
                    {"all_bytes", held.all_bytes}});
  }
  console.write(table.to_string());
  kv::write_json(options.generate.json_file, {{"lesson", "10"},
                                              {"model", model.name},
                                              {"block_size", options.block_size},
                                              {"chunk", chunk},
                                              {"groups", json_of(groups)},
                                              {"held", rows}});
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.generate.prompts = {"Once upon a time"};
  options.generate.window = 32;  // without one there is nothing to forget
  options.generate.max_tokens = 200;
  kv::CommandLine command("Lesson 10: layers that see a window forget what has left it.");
  kv::add_generate_options(command, options.generate);
  command.flag("--held", options.held,
               "the blocks that a sequence of Gemma 3 holds at 4k to 128k tokens; runs no model");
  kv::add_pool_options(command, options.block_size, options.num_blocks,
                       "blocks in the pool, each of one group; 0: as many as needed");
  command
      .value("--max-chunk N", options.max_chunk,
             "tokens of one request in one pass; 0: as the budget of 512 allows")
      .between(0, 1 << 20);
  return kv::run_main(command, argc, argv,
                      [&] { options.held ? print_held(options) : generate(options); });
}
