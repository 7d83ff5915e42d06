// The program of lesson 05: several continuations of one prompt over shared blocks.

#include <fmt/format.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine.h"
#include "programs/lab.h"
#include "programs/streaming.h"

namespace {

struct Options {
  kv::GenerateOptions generate;
  int n = 4;
  std::optional<int> beams;  // no value: samples
  double length_penalty = 1.0;
  lesson03::PagedOptions paged;
  bool arithmetic = false;
};

/// Adds the blocks of `count` sequences that share a prompt and then diverge, as the manager counts
/// them.
void add_example(kv::Table& table, int prompt, int count, int new_tokens, int block_size) {
  const int blocks = count * lesson05::blocks_for(prompt + new_tokens, block_size);
  lesson05::BlockManager manager(blocks, block_size);
  const auto append = [&](std::span<const lesson05::Growth> growths) {
    if (!manager.append(growths)) throw std::logic_error("the pool is large enough");
  };
  std::vector<lesson05::Growth> growths{{.seq = manager.add_sequence(), .num_tokens = prompt}};
  append(growths);
  for (int i = 1; i < count; ++i) growths.push_back({.seq = manager.fork(growths[0].seq)});
  for (lesson05::Growth& growth : growths) growth.num_tokens = new_tokens;
  if (new_tokens > 0) append(growths);
  const int64_t copied = manager.pool().num_references();
  const int64_t shared = manager.pool().num_used();
  table.add({kv::with_commas(prompt), std::to_string(count), std::to_string(new_tokens),
             kv::with_commas(shared), kv::with_commas(copied),
             kv::percent(static_cast<double>(copied - shared), static_cast<double>(copied)),
             std::to_string(manager.num_copies())});
}

void print_arithmetic(const kv::Console& console, int block_size) {
  console.print("Blocks of {}, counted by the manager\n\n", kv::count_of(block_size, "token"));
  kv::Table table({"prompt", "sequences", "new tokens each", "blocks", "as copies", "saved",
                   "copied on write"});
  add_example(table, 256, 4, 0, block_size);
  add_example(table, 64, 4, 10, block_size);
  add_example(table, 64, 4, 20, block_size);
  add_example(table, 70, 4, 10, block_size);
  add_example(table, 4096, 4, 100, block_size);
  console.write(table.to_string());
}

void print_blocks(const kv::Console& console, const lesson05::SharingEngine& engine,
                  const kv::EngineCounters& counters) {
  const int64_t copies = counters.named("blocks_as_copies");
  console.print("blocks in use             {} at most, {} of them shared at most\n",
                kv::with_commas(counters.named("blocks_in_use")),
                kv::with_commas(counters.named("blocks_shared")));
  console.print("blocks as copies          {} at most; sharing saves {}\n", kv::with_commas(copies),
                kv::percent(static_cast<double>(copies - counters.named("blocks_in_use")),
                            static_cast<double>(copies)));
  console.print("copied on write           {}, {}\n",
                kv::count_of(engine.manager()->num_copies(), "block"),
                kv::human_bytes(counters.kv_bytes_copied));
}

nlohmann::json run_samples(kv::Lab& lab, lesson05::SharingEngine& engine, const Options& options,
                           const kv::Request& request, const std::string& prompt) {
  const std::vector<std::string> prompts(options.n, prompt);
  const std::vector<kv::Request> requests = kv::samples_of(request, options.n);
  kv::StreamPrinter printer(lab.console, lab.tokenizer(), prompts, requests);
  const kv::GenerateResult result = engine.generate(
      requests, [&](size_t sample, int32_t token) { return printer.on_token(sample, token); });
  printer.finish();
  lab.console.print("The prompt once, then one token of each sample\n{}\n",
                    kv::passes_chart(result.passes, 16));
  lab.console.write(kv::counters_text(result.counters, kv::num_generated_tokens(result)));
  print_blocks(lab.console, engine, result.counters);
  return kv::json_of(result, lab.tokenizer(), prompts);
}

nlohmann::json run_beams(kv::Lab& lab, lesson05::SharingEngine& engine, const Options& options,
                         const kv::Request& request, const std::string& prompt) {
  const kv::BeamSearchResult result = engine.beam_search(
      request, {.num_beams = *options.beams, .length_penalty = options.length_penalty},
      [](std::span<const kv::Beam>) { return !kv::interrupted(); });
  kv::Records beams;
  int64_t num_tokens = 0;
  for (size_t i = 0; i < result.beams.size(); ++i) {
    const kv::Beam& beam = result.beams[i];
    num_tokens += static_cast<int64_t>(beam.tokens.size());
    beams.add({{"hypothesis", i + 1},
               {"score", kv::decimal(beam.score, 4), "score"},
               {"log prob", kv::decimal(beam.log_prob, 4), "log_prob"},
               {"tokens", {std::to_string(beam.tokens.size()), beam.tokens}, "tokens"},
               {"end", {beam.finished ? "stop" : "length", beam.finished}, "finished"}});
    beams.note("text", kv::text_of(beam.tokens, lab.tokenizer()));
  }
  const std::vector<std::string> prompts(result.beams.size(), prompt);
  const std::vector<kv::Request> requests(prompts.size(), request);
  kv::StreamPrinter printer(lab.console, lab.tokenizer(), prompts, requests);
  for (size_t i = 0; i < result.beams.size(); ++i) {
    for (const int32_t token : result.beams[i].tokens) printer.on_token(i, token);
  }
  printer.finish();
  lab.console.print("{}\n", beams.table());
  lab.console.write(kv::counters_text(result.counters, num_tokens));
  print_blocks(lab.console, engine, result.counters);
  return {{"prompt", prompt}, {"counters", kv::json_of(result.counters)}, {"beams", beams.json()}};
}

void run(kv::Lab& lab, const Options& options) {
  if (options.arithmetic) return print_arithmetic(lab.console, options.paged.block_size);

  const auto requests = lab.requests();
  lab.title("Lesson 05, shared blocks");
  lesson05::SharingEngine engine(lab.model(), options.paged);
  lab.report["block_size"] = options.paged.block_size;
  nlohmann::json& runs = lab.report["runs"] = nlohmann::json::array();
  for (size_t i = 0; i < requests.size() && !kv::interrupted(); ++i) {
    const std::string& prompt = options.generate.prompts[i];
    runs.push_back(options.beams ? run_beams(lab, engine, options, requests[i], prompt)
                                 : run_samples(lab, engine, options, requests[i], prompt));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.generate.prompts = {
      "One day, a little fox found a red kite in the forest. The kite was torn, and the fox was "
      "sad. "
      "Then an old owl came by, and the owl said"};
  options.generate.sampling.temperature = 0.8f;
  kv::CommandLine command(
      "Lesson 05: n samples or a beam search of one prompt, over shared blocks.");
  kv::add_generate_options(command, options.generate);
  command.value("--n N", options.n, "samples of each prompt; each draws tokens of its own")
      .between(1, 1024);
  command.value("--beams N", options.beams, "beam search with N beams, instead of samples")
      .between(1, 1024)
      .excludes("--n");
  command
      .value("--length-penalty X", options.length_penalty,
             "score = log probability / tokens ^ penalty; 0: the sum itself")
      .real_between(0, 100)
      .needs("--beams");
  kv::add_pool_options(command, options.paged.block_size, options.paged.num_blocks);
  command
      .flag("--arithmetic", options.arithmetic,
            "print blocks shared and copied for a few examples, and nothing else")
      .excludes("--json");
  return kv::run_lesson("05", command, options.generate, argc, argv,
                        [&](kv::Lab& lab) { run(lab, options); });
}
