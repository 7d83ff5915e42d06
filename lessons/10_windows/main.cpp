// The program of lesson 10: text of a model in which layers forget. It shows the groups of layers
// and the tables of the first sequence at its end. It compares the memory held with that of a cache
// that keeps everything, at equal bits. --held: a sequence of Gemma 3 at many lengths, without a
// model.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/held_blocks.h"
#include "engine.h"
#include "lessons/08_scheduler/engine.h"
#include "programs/lab.h"
#include "programs/streaming.h"

namespace {

using lesson10::KvCacheGroup;
using lesson10::WindowsEngine;

struct Options {
  kv::GenerateOptions generate;
  bool held = false;
  lesson10::PagedOptions paged;
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

void print_result(kv::Lab& lab, const kv::GenerateResult& found,
                  const kv::GenerateResult& everything) {
  kv::Table table({"", "most blocks", "most bytes", "logits xxh64"});
  const auto add = [&](const char* name, const kv::GenerateResult& result) {
    table.add({name, kv::with_commas(result.counters.named("blocks_in_use")),
               kv::human_bytes(result.counters.kv_bytes_reserved),
               kv::hex64(kv::combined_digest(result.completions))});
  };
  add("lesson 08, all is kept", everything);
  add("in groups, layers forget", found);
  lab.console.print("\n{}", table.to_string());
  lab.report.update({{"max_blocks", found.counters.named("blocks_in_use")},
                     {"max_blocks_without", everything.counters.named("blocks_in_use")},
                     {"max_bytes", found.counters.kv_bytes_reserved},
                     {"max_bytes_without", everything.counters.kv_bytes_reserved}});
}

nlohmann::json json_of(const std::vector<KvCacheGroup>& groups) {
  nlohmann::json all = nlohmann::json::array();
  for (const KvCacheGroup& group : groups) {
    all.push_back({{"window", group.window}, {"layers", group.layers}});
  }
  return all;
}

void generate(kv::Lab& lab, const Options& options) {
  const auto requests = lab.requests();
  const lesson08::ServeOptions serve{.scheduler = {.max_chunk = options.max_chunk}};
  WindowsEngine engine(lab.model(), options.paged, serve);
  lab.title("Lesson 10, windows");
  Tables last;
  kv::StreamPrinter printer(lab.console, lab.tokenizer(), options.generate.prompts, requests);
  const auto result = engine.serve(
      requests, {}, [&](size_t i, int32_t token) { return printer.on_token(i, token); },
      [&](const auto&, const lesson08::SchedulerOutput& output) {
        if (std::ranges::find(output.chunks, 0, &lesson08::Chunk::id) != output.chunks.end()) {
          last = tables_of(*engine.manager(), 0);
        }
        return !kv::interrupted();
      });
  printer.finish();
  lab.console.print("\n");
  print_groups(lab.console, engine.manager()->groups(), last);
  lab.report_result(result.generated);
  lab.report["groups"] = json_of(engine.manager()->groups());
  lab.report["tables"] = last.of_group;
  if (kv::interrupted()) return;
  lesson08::ServingEngine keeps_all(lab.model(), {.block_size = options.paged.block_size}, serve);
  const auto plain = keeps_all.generate(requests);
  print_result(lab, result.generated, plain);
  lab.require_same_bits(
      kv::combined_digest(plain.completions) == kv::combined_digest(result.generated.completions),
      "the bits differ: a layer has forgotten what it needed");
}

/// Gemma 3, 5 layers of 6 with a window of 1,024 tokens, at 4k to 128k tokens.
void print_held(kv::Lab& lab, const Options& options) {
  const kv::KnownModel model = kv::known_model("Gemma 3 27B");
  const kv::ModelConfig config = lesson10::with_windows(model);
  const int chunk = options.max_chunk > 0 ? options.max_chunk : 512;
  const auto groups = lesson10::make_groups(config);
  const int block_size = options.paged.block_size;
  lab.console.print(
      "{}: {} layers, {} of them with a window of {}; {} groups of {} layers, blocks of {}, chunks "
      "of {}\n\n",
      model.name, config.num_layers, model.windowed_layers, kv::count_of(model.window, "token"),
      groups.size(), lesson10::layers_per_group(groups), kv::count_of(block_size, "token"), chunk);
  kv::Records rows;
  for (int tokens = 4096; tokens <= 131'072; tokens *= 2) {
    const auto held = lesson10::held_blocks(config, tokens, block_size, chunk);
    rows.add({{"tokens", kv::counted(tokens), "tokens"},
              {"group 0", kv::counted(held.full), "full_blocks"},
              {"others", kv::counted(held.sliding), "sliding_blocks"},
              {"held", kv::memory(held.bytes), "bytes"},
              {"all layers full", kv::memory(held.all_bytes), "all_bytes"},
              {"share", kv::share(held.bytes, held.all_bytes)},
              {"peak", kv::counted(held.peak), "peak_blocks"}});
    rows.note("all_blocks", held.all);
  }
  lab.report_records("held", rows);
  lab.report.update({{"model", model.name},
                     {"block_size", block_size},
                     {"chunk", chunk},
                     {"groups", json_of(groups)}});
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
  kv::add_pool_options(command, options.paged.block_size, options.paged.num_blocks,
                       "blocks in the pool, each of one group; 0: as many as needed");
  command
      .value("--max-chunk N", options.max_chunk,
             "tokens of one request in one pass; 0: as the budget of 512 allows")
      .between(0, 1 << 20);
  return kv::run_lesson("10", command, options.generate, argc, argv, [&](kv::Lab& lab) {
    options.held ? print_held(lab, options) : generate(lab, options);
  });
}
