// The program of lesson 04: generates text with paged attention, compares it with lesson 02's slab
// and lesson 03's gather, and walks over the keys of one query.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/walk.h"
#include "engine.h"
#include "lessons/02_flat_cache/engine.h"
#include "programs/lab.h"

namespace {

struct Options {
  kv::GenerateOptions generate;
  lesson03::PagedOptions paged;
  int context = 512;
  bool walk = false;
  int layer = 0;
  int head = 0;
};

/// One engine of the comparison, and the times of its steps.
struct Contender {
  std::string name;
  std::string how;
  std::unique_ptr<kv::Engine> engine;
  std::vector<double> seconds{};  // of each decode step
  kv::GenerateResult result{};    // of the last run
};

constexpr int kSteps = 24;  // generated tokens in a run; the first few warm up
constexpr int kWarmUp = 4;
constexpr int kRounds = 3;  // the engines take turns, so that all meet the same load

/// The same request through the three caches, in one process.
void print_comparison(kv::Lab& lab, const Options& options) {
  kv::Model& model = lab.model();
  const int room = model.config().max_position_embeddings - kSteps;
  const kv::Request request =
      kv::request_of_length(std::clamp(options.context, 1, std::max(1, room)), kSteps);
  const lesson03::PagedOptions paged{.block_size = options.paged.block_size};
  std::vector<Contender> all;
  all.push_back({"02 flat_cache", "from one slab", lesson02::make_engine(model, {})});
  all.push_back({"03 paged_blocks", "gathered first", lesson03::make_engine(model, paged)});
  all.push_back({"04 paged_attention", "through the table", lesson04::make_engine(model, paged)});
  for (int round = 0; round < kRounds && !kv::interrupted(); ++round) {
    for (Contender& contender : all) {
      contender.result = contender.engine->generate({&request, 1});
      const auto& passes = contender.result.passes;
      for (size_t i = kWarmUp; i < passes.size(); ++i) {
        contender.seconds.push_back(passes[i].seconds);
      }
    }
  }
  if (kv::interrupted()) return;

  lab.console.print("\nOne token more after {} tokens, blocks of {}: the same step three ways\n\n",
                    kv::with_commas(std::ssize(request.prompt)), paged.block_size);
  kv::Table table({"engine", "K and V are read", "KV copied, per token", "time per token",
                   "against 02", "same bits"});
  const double flat = kv::median(all[0].seconds);
  for (const Contender& contender : all) {
    const double seconds = kv::median(contender.seconds);
    const bool same =
        contender.result.completions[0].logits_xxh64 == all[0].result.completions[0].logits_xxh64;
    table.add({contender.name, contender.how,
               kv::human_bytes(contender.result.counters.kv_bytes_copied / kSteps),
               fmt::format("{:.3f} ms", 1e3 * seconds), fmt::format("{:.2f} x", seconds / flat),
               same ? "yes" : "NO"});
  }
  lab.console.write(table.to_string());
}

/// "3 17 8 ... 21", at most four numbers.
std::string ids_text(std::span<const int32_t> ids) {
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids.size() > 4 && i == 3) text += " ..";
    if (ids.size() > 4 && i >= 3 && i + 1 < ids.size()) continue;
    text += fmt::format("{}{}", i == 0 ? "" : " ", ids[i]);
  }
  return text;
}

std::string name_of(const lesson04::WalkStep& step) {
  using Kind = lesson04::WalkStep::Kind;
  switch (step.kind) {
    case Kind::kTile:
      return fmt::format("group {} {} tile {}{}", step.group, step.before.acc.empty() ? "=" : "+",
                         step.tile, step.m_moves() ? ", m moves" : "");
    case Kind::kGroup:
      return fmt::format("  result {} group {}", step.before.acc.empty() ? "=" : "+", step.group);
    case Kind::kDivide:
      return "  out = acc / l";
  }
  return {};
}

void print_steps(const kv::Console& console, const lesson04::ModelWalk& walk) {
  kv::Table table({"step", "tokens", "blocks", "largest", "m", "l", "acc 0", "acc 1", "acc 2"});
  for (const lesson04::WalkStep& step : walk.steps) {
    const bool divide = step.kind == lesson04::WalkStep::Kind::kDivide;
    const bool tile = step.kind == lesson04::WalkStep::Kind::kTile;
    const std::vector<float>& acc = divide ? step.out : step.after.acc;
    std::vector<std::string> row{
        name_of(step),
        fmt::format("{}-{}", step.first_token, step.first_token + step.num_tokens - 1),
        tile ? ids_text(step.block_ids) : "",
        tile ? fmt::format("{:.4f}", *std::ranges::max_element(step.scores)) : "",
        divide ? "" : fmt::format("{:.4f}", step.after.m),
        divide ? "" : fmt::format("{:.4f}", step.after.l)};
    for (size_t i = 0; i < 3; ++i) {
      row.push_back(i < acc.size() ? fmt::format("{:.4f}", acc[i]) : "");
    }
    table.add(row);
  }
  console.write(table.to_string());
}

/// Generates until the context is full, one story after the other, and walks with the last token.
void print_walk(kv::Lab& lab, const Options& options) {
  kv::Request request = lab.requests().at(0);
  request.stop_token_ids.clear();
  request.max_tokens = std::max(0, options.context - static_cast<int>(request.prompt.size()));
  const int block_size = options.paged.block_size;
  const auto engine = lesson04::make_engine(lab.model(), {.block_size = block_size});
  const auto result = engine->generate({&request, 1});
  std::vector<int32_t> tokens = request.prompt;
  tokens.insert(tokens.end(), result.completions[0].tokens.begin(),
                result.completions[0].tokens.end());
  const lesson04::ModelWalk walk =
      lesson04::walk_prompt(lab.model(), tokens, block_size, options.layer, options.head);
  lab.console.print(
      "The last of {} tokens attends to all of them: layer {}, query head {}, blocks of {}\n\n",
      tokens.size(), options.layer, options.head, block_size);
  print_steps(lab.console, walk);
}

void print_cost(const kv::Console& console, const kv::GenerateResult& result) {
  console.print("The prompts once, then one token of each sequence\n{}\n",
                kv::passes_chart(result.passes, 16));
  console.write(kv::counters_text(result.counters, kv::num_generated_tokens(result)));
  console.print("K and V copied            {}\n", kv::human_bytes(result.counters.kv_bytes_copied));
}

void run(kv::Lab& lab, Options& options) {
  if (options.walk && options.generate.device == "auto") options.generate.device = "cpu";
  if (options.walk) return print_walk(lab, options);

  const auto requests = lab.requests();
  lab.title("Lesson 04, paged attention");
  kv::warm_up(*lesson04::make_engine(lab.model(), options.paged), requests);
  const auto engine = lesson04::make_engine(lab.model(), options.paged);
  const kv::GenerateResult result = lab.generate(*engine, requests);
  lab.report["block_size"] = options.paged.block_size;
  print_cost(lab.console, result);
  if (options.context > 0 && !kv::interrupted()) print_comparison(lab, options);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.generate.prompts = {"Once upon a time"};
  kv::CommandLine command(
      "Lesson 04: generates text with attention that reads through the block table, and compares\n"
      "it with the slab of lesson 02 and the gather of lesson 03.");
  kv::add_generate_options(command, options.generate);
  kv::add_pool_options(command, options.paged.block_size, options.paged.num_blocks);
  command
      .value("--context N", options.context,
             "tokens before the compared step, or of the walk; 0: no comparison")
      .between(0, 1 << 20);
  command
      .flag("--walk", options.walk,
            "print one query's way over its keys, tile by tile, and nothing else")
      .excludes("--json");
  command.value("--layer N", options.layer, "of the walk").between(0, 1 << 10).needs("--walk");
  command.value("--head N", options.head, "query head of the walk")
      .between(0, 1 << 10)
      .needs("--walk");
  return kv::run_lesson("04", command, options.generate, argc, argv,
                        [&](kv::Lab& lab) { run(lab, options); });
}
