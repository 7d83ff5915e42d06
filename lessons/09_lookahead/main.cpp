// The program of lesson 09: text with guesses. It shows the guesses of each pass and the number of
// right ones. It compares bits, passes and time with a run without guesses.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/model_drafter.h"
#include "engine.h"
#include "programs/lab.h"
#include "programs/streaming.h"

namespace {

using lesson09::LookaheadEngine;
using lesson09::LookaheadScheduler;
using lesson09::SchedulerOutput;

struct Options {
  kv::GenerateOptions generate;
  lesson09::LookaheadOptions lookahead;
  lesson09::NgramOptions ngram;
  std::string draft_dir;  // empty means n-grams
  lesson09::PagedOptions paged;
  int max_lines = 16;
};

/// The guesses that ran in one pass.
struct Guessed {
  int64_t pass = 0;
  size_t request = 0;
  size_t known = 0;  // tokens before them
  std::vector<int32_t> tokens;
};

/// The number of guesses that were generated then.
int num_right(const Guessed& guessed, const kv::Request& request,
              const kv::Completion& completion) {
  const auto& text = completion.tokens;
  const auto first =
      text.begin() + static_cast<std::ptrdiff_t>(guessed.known - request.prompt.size());
  const auto [end, _] =
      std::mismatch(guessed.tokens.begin(), guessed.tokens.end(), first, text.end());
  return static_cast<int>(end - guessed.tokens.begin());
}

std::string quoted(const kv::Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  return "\"" + tokenizer.shown(tokens) + "\"";
}

void print_guesses(kv::Lab& lab, const std::vector<Guessed>& all,
                   std::span<const kv::Request> requests, const kv::GenerateResult& result,
                   int max_lines) {
  const kv::Console& console = lab.console;
  kv::Table table({"pass", "request", "guessed", "drawn", "right"});
  int lines = 0;
  for (const Guessed& guessed : all) {
    const kv::Completion& completion = result.completions[guessed.request];
    const size_t step = guessed.known - requests[guessed.request].prompt.size();
    if (step >= completion.tokens.size() || ++lines > max_lines) continue;
    const int right = num_right(guessed, requests[guessed.request], completion);
    const auto drawn = std::span(completion.tokens).subspan(step);
    const auto num_drawn = std::min(drawn.size(), static_cast<size_t>(right) + 1);
    table.add({std::to_string(guessed.pass), std::to_string(guessed.request + 1),
               quoted(lab.tokenizer(), guessed.tokens),
               quoted(lab.tokenizer(), drawn.first(num_drawn)),
               fmt::format("{} of {}", right, guessed.tokens.size())});
  }
  if (lines == 0) return console.print("nothing was guessed: no last tokens had come before\n\n");
  console.write(table.to_string());
  if (lines > max_lines) console.print("... and {} more\n", lines - max_lines);
  console.print("\n");
}

void print_result(kv::Lab& lab, const kv::GenerateResult& found, const kv::GenerateResult& plain) {
  const int64_t tokens = kv::num_generated_tokens(found);
  const kv::EngineCounters& c = found.counters;
  const int64_t proposed = c.named("guesses_proposed"), accepted = c.named("guesses_accepted");
  const auto per_pass = [&](const kv::EngineCounters& counters) {
    return counters.passes > 0 ? static_cast<double>(tokens) / static_cast<double>(counters.passes)
                               : 0.0;
  };
  const auto rate = [&](const kv::EngineCounters& counters) {
    return counters.seconds > 0 ? static_cast<double>(tokens) / counters.seconds : 0.0;
  };
  kv::Table table({"", "passes", "tokens a pass", "rows", "tokens/s", "logits xxh64"});
  const auto add = [&](const char* name, const kv::GenerateResult& result) {
    const auto& counters = result.counters;
    table.add({name, kv::with_commas(counters.passes), fmt::format("{:.2f}", per_pass(counters)),
               kv::with_commas(counters.kv_rows_computed), fmt::format("{:.0f}", rate(counters)),
               kv::hex64(kv::combined_digest(result.completions))});
  };
  add("lesson 08, no guesses", plain);
  add("with guesses", found);
  lab.console.write(table.to_string());
  lab.console.print("\nguesses                   {} of {} right, {}\n", kv::with_commas(accepted),
                    kv::with_commas(proposed), kv::share(accepted, proposed).text);
  lab.report.update({{"tokens", tokens},
                     {"passes", c.passes},
                     {"passes_without", plain.counters.passes},
                     {"tokens_per_pass", per_pass(c)},
                     {"rows", c.kv_rows_computed},
                     {"rows_without", plain.counters.kv_rows_computed},
                     {"guesses_proposed", proposed},
                     {"guesses_accepted", accepted},
                     {"tokens_per_second", rate(c)},
                     {"tokens_per_second_without", rate(plain.counters)}});
}

std::unique_ptr<lesson09::Drafter> drafter_of(const Options& options, const kv::Model& model,
                                              std::span<const kv::Request> requests) {
  if (options.draft_dir.empty()) return std::make_unique<lesson09::NgramDrafter>(options.ngram);
  kv::GenerateOptions draft = options.generate;
  draft.model_dir = options.draft_dir;
  draft.window = 0;
  int64_t slots = 0;
  for (const kv::Request& request : requests) {
    slots += std::ssize(request.prompt) + request.max_tokens + lesson09::ModelDrafter::kBlockSize;
  }
  return std::make_unique<lesson09::ModelDrafter>(kv::load_model(draft), model.config(), slots);
}

void run(kv::Lab& lab, const Options& options) {
  const auto requests = lab.requests();
  LookaheadEngine engine(lab.model(), options.paged, lesson09::default_serve_options(),
                         options.lookahead, drafter_of(options, lab.model(), requests));
  lab.title("Lesson 09, lookahead");
  std::vector<Guessed> guessed;
  int64_t pass = 0;
  kv::StreamPrinter printer(lab.console, lab.tokenizer(), options.generate.prompts, requests);
  const auto result = engine.serve(
      requests, {}, [&](size_t i, int32_t token) { return printer.on_token(i, token); },
      [&](const LookaheadScheduler& scheduler, const SchedulerOutput& output) {
        ++pass;
        for (const auto& chunk : output.chunks) {
          const auto guesses = scheduler.guesses(chunk.id);
          if (guesses.empty()) continue;
          guessed.push_back({pass,
                             static_cast<size_t>(chunk.id),
                             scheduler.request(chunk.id).tokens.size(),
                             {guesses.begin(), guesses.end()}});
        }
        return !kv::interrupted();
      });
  printer.finish();
  lab.console.print("\n");
  print_guesses(lab, guessed, requests, result.generated, options.max_lines);
  lab.report_result(result.generated);
  if (kv::interrupted()) return;
  const auto plain = lesson08::ServingEngine(lab.model(), options.paged).generate(requests);
  print_result(lab, result.generated, plain);
  lab.require_same_bits(
      kv::combined_digest(plain.completions) == kv::combined_digest(result.generated.completions),
      "the bits differ: a guess has changed the math");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.generate.prompts = {
      // a story, and the beginning of the same story
      "Once upon a time, there was a little robot. The little robot lived in a cozy cottage by the "
      "river. The little robot had a green drum, and she took it everywhere.\n\nOne day, the green "
      "drum was gone. She looked under the bridge, but it was not there. The little robot was "
      "sad.\n\nOnce upon a time, there was a little robot."};
  kv::CommandLine command("Lesson 09: guesses several tokens and checks them in one pass.");
  kv::add_generate_options(command, options.generate);
  command
      .value("--guesses N", options.lookahead.num_guesses,
             "most guesses of a request in one pass; 0 means none, as in lesson 08")
      .between(0, 256);
  command
      .value("--ngram-min N", options.ngram.shortest,
             "tokens of the shortest n-gram that is looked for")
      .between(1, 64);
  command.value("--ngram-max N", options.ngram.longest, "tokens of the longest one").between(1, 64);
  command.value("--draft DIR", options.draft_dir,
                "a smaller model of the same vocabulary guesses, instead of n-grams");
  kv::add_pool_options(command, options.paged.block_size, options.paged.num_blocks);
  command.value("--lines N", options.max_lines, "lines of guesses to print at most")
      .between(0, 1'000'000);
  return kv::run_lesson("09", command, options.generate, argc, argv,
                        [&](kv::Lab& lab) { run(lab, options); });
}
