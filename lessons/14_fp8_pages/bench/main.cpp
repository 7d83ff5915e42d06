// On the CPU: how far FP8 moves logits, against other ways to keep K and V, for stories from a
// file, or random tokens for a model with random weights. On CUDA, or with --decode: attention of a
// decode step, in FP8 and in bf16 (on the CPU fp32). With --serve, on either: a server with too
// little memory, in both formats.
//
//   lesson14_bench [--model DIR] [--device NAME] [--stories FILE] [--count N] [--longest TOKENS]
//                  [--decode] [--only TEXT] [--serve] [--json FILE]

#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "cli/rounded_attention.h"
#include "common/error.h"
#include "parts.h"
#include "qwen3/random_weights.h"

namespace {

using lesson14::Distance;
using lesson14::Keep;
using lesson14::RoundedAttention;

constexpr const char* kEnd = "<|endoftext|>";

struct Options {
  kv::BenchOptions bench;
  std::string stories;
  int count = 100;
  bool decode = false;
  std::string only;
  bool serve = false;
};

/// Stories of models/tiny/making/make_stories.py, with the token that ends each.
std::vector<std::vector<int32_t>> read_stories(const Options& options,
                                               const kv::Tokenizer& tokenizer) {
  std::ifstream file(options.stories);
  std::stringstream all;
  all << file.rdbuf();
  if (!file) kv::user_error("--stories {}: cannot be read", options.stories);
  const std::string text = all.str();
  std::vector<std::vector<int32_t>> stories;
  for (size_t begin = 0; std::ssize(stories) < options.count;) {
    const size_t end = text.find(kEnd, begin);
    if (end == std::string::npos) break;
    const std::string story = text.substr(begin, end + std::strlen(kEnd) - begin);
    stories.push_back(tokenizer.encode(story, /*parse_special=*/true));
    begin = end + std::strlen(kEnd) + 1;  // and the end of the line
  }
  if (stories.empty()) kv::user_error("--stories {}: there is no {}", options.stories, kEnd);
  return stories;
}

/// One text of ordinary tokens, drawn from the seed.
std::vector<std::vector<int32_t>> random_text(const Options& options, int vocab_size) {
  std::vector<int32_t> tokens;
  const uint64_t seed = options.bench.model.sampling.seed;
  for (int i = 0; i < options.bench.longest; ++i) {
    const uint64_t bits = kv::random_bits(seed, static_cast<uint64_t>(i));
    tokens.push_back(static_cast<int32_t>(bits % static_cast<uint64_t>(vocab_size)));
  }
  return {tokens};
}

void measure_logits(kv::Lab& lab, const Options& options) {
  kv::Model& model = lab.model();
  const bool has_stories = !options.stories.empty();
  const auto texts = has_stories ? read_stories(options, lab.tokenizer())
                                 : random_text(options, model.config().vocab_size);
  struct Case {
    Case(std::string of, const kv::ModelConfig& config, Keep keep, float factor)
        : name(std::move(of)), attention(config, keep, factor) {}
    std::string name;
    RoundedAttention attention;
    Distance distance = {};
  };
  std::vector<std::unique_ptr<Case>> cases;
  const auto add = [&](const std::string& name, Keep keep, float factor) {
    cases.push_back(std::make_unique<Case>(name, model.config(), keep, factor));
  };
  constexpr float kLarger = 256;
  for (const auto& way : lesson14::ways()) add(way.name, way.keep, 1);
  add("with a K 256 times as large: scale 1", Keep::kOne, kLarger);
  add("and a scale for each token's head", Keep::kTokenAndHead, kLarger);
  RoundedAttention exact_attention(model.config(), Keep::kFp32);
  for (const auto& text : texts) {
    const std::vector<float> exact = lesson14::logits_of(model, exact_attention, text);
    for (const auto& one : cases) {
      one->distance.add(lesson14::logits_of(model, one->attention, text), exact, text);
    }
  }
  lab.console.print("{}, {}; largest magnitudes: {:.1f} in K, {:.1f} in V\n\n",
                    kv::count_of(std::ssize(texts), "text"),
                    kv::count_of(cases[0]->distance.num_tokens, "token"),
                    exact_attention.largest_k(), exact_attention.largest_v());
  kv::Records rows;
  for (const auto& one : cases) {
    const Distance& d = one->distance;
    const double same = static_cast<double>(d.num_same) / static_cast<double>(d.num_tokens);
    const kv::Shown perplexity = kv::decimal(d.perplexity(), 4);
    rows.add(
        {{"K and V", one->name, "keep"},
         {"error of logits", kv::decimal(d.relative_error(), 4), "relative_error"},
         {"same token", {fmt::format("{:.2f} %", 100 * same), same}, "same_token"},
         {"perplexity", {has_stories ? perplexity.text : "-", perplexity.value}, "perplexity"}});
  }
  lab.report_records("ways", rows);
  lab.report.update({{"texts", texts.size()},
                     {"tokens", cases[0]->distance.num_tokens},
                     {"largest_k", exact_attention.largest_k()},
                     {"largest_v", exact_attention.largest_v()}});
}

void run(kv::Lab& lab, const Options& options) {
  if (options.serve) return bench::measure_serving(lab);
  const bool on_cpu = lab.device() == kv::Device::kCpu;
  if (on_cpu && !options.decode) return measure_logits(lab, options);
  if (on_cpu) return bench::measure_cpu_decodes(lab, options.only);
#if KV_HAVE_CUDA
  bench::measure_decodes(lab, options.only);
  bench::measure_prefills(lab, options.only);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  kv::CommandLine command(
      "On the CPU: how far FP8 and other ways to keep K and V move a model's logits.\n"
      "On CUDA: attention of decode steps and prefills over FP8 pages, and in bf16.\n"
      "With --decode, on the CPU: attention of a decode step over FP8 pages, and in fp32.",
      "./course bench 14");
  Options options;
  options.bench.model.device = "cpu";
  options.bench.longest = 256;
  kv::add_bench_options(command, options.bench);
  command.value("--stories FILE", options.stories,
                "of models/tiny/making/make_stories.py; without it, random tokens");
  command.value("--count N", options.count, "stories of the file at most").between(1, 100000);
  command.flag("--decode", options.decode, "attention of a decode step, on the CPU too");
  command.value("--only TEXT", options.only, "only the decode steps that have this in their names");
  command.flag("--serve", options.serve,
               "serves requests from a memory that holds half of them in bf16, in both formats");
  return kv::run_bench("14", command, options.bench.model, argc, argv,
                       [&](kv::Lab& lab) { run(lab, options); });
}
