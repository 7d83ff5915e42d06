// The program of lesson 01: generates text without a cache and shows what that costs.

#include <fmt/format.h>

#include <bit>
#include <string>
#include <vector>

#include "engine.h"
#include "programs/lab.h"
#include "qwen3/known_models.h"

namespace {

struct Options {
  kv::GenerateOptions generate;
  bool table = false;
  bool order = false;
};

/// The projection to Q, K and V in one step, in one layer, for well-known models.
void print_table(const kv::Console& console) {
  constexpr int kTokens = 512;
  kv::Table table({"model", "hidden", "heads", "KV heads", "head_dim", "QKV width",
                   fmt::format("step {}, no cache", kTokens), "with a cache"});
  for (const kv::KnownModel& model : kv::known_models()) {
    const kv::ModelConfig& c = model.config;
    table.add({model.name, std::to_string(c.hidden_size), std::to_string(c.num_heads),
               std::to_string(c.num_kv_heads), std::to_string(c.head_dim),
               std::to_string(c.qkv_width()),
               fmt::format("[{0}, {1}] x [{1}, {2}]", kTokens, c.hidden_size, c.qkv_width()),
               fmt::format("[1, {0}] x [{0}, {1}]", c.hidden_size, c.qkv_width())});
  }
  console.print("QKV width = (heads + 2 x KV heads) x head_dim\n\n{}\n", table.to_string());
  console.print("{0} rows against 1: {0} times the multiply-adds.\n", kTokens);
}

/// The same numbers, added in three orders.
void print_order(const kv::Console& console) {
  std::vector<float> numbers;
  for (int i = 1; i <= 1000; ++i) numbers.push_back(1.0f / static_cast<float>(i));
  const auto show = [&](const char* how, float sum) {
    console.print("{:<34} {:.7f}   bits {:08x}\n", how, sum, std::bit_cast<uint32_t>(sum));
  };
  float forward = 0.0f;
  for (size_t i = 0; i < numbers.size(); ++i) forward += numbers[i];
  float backward = 0.0f;
  for (size_t i = numbers.size(); i-- > 0;) backward += numbers[i];
  float halves[2] = {0.0f, 0.0f};
  for (size_t i = 0; i < numbers.size(); ++i) halves[i % 2] += numbers[i];
  console.print("1/1 + 1/2 + 1/3 + ... + 1/1000 in 32-bit floats\n");
  show("first to last", forward);
  show("last to first", backward);
  show("two partial sums, odd and even", halves[0] + halves[1]);
}

/// The number of rows if each token ran once. A request's last token never has to run.
int64_t rows_needed(std::span<const kv::Request> requests, const kv::GenerateResult& result) {
  int64_t rows = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const size_t generated = result.completions[i].tokens.size();
    if (generated > 0) rows += static_cast<int64_t>(requests[i].prompt.size() + generated) - 1;
  }
  return rows;
}

void print_cost(const kv::Console& console, std::span<const kv::Request> requests,
                const kv::GenerateResult& result) {
  const int64_t rows = result.counters.kv_rows_computed;
  const int64_t needed = rows_needed(requests, result);
  console.print("Each pass runs every token again\n{}\n", kv::passes_chart(result.passes, 16));
  console.write(kv::counters_text(result.counters, kv::num_generated_tokens(result)));
  console.print("by the formula            {}\n",
                kv::with_commas(kv::rows_without_cache(requests, result)));
  console.print("if computed only once     {}", kv::with_commas(needed));
  if (needed > 0) {
    console.print("  ({:.1f} times fewer)",
                  static_cast<double>(rows) / static_cast<double>(needed));
  }
  console.write("\n");
}

void run(kv::Lab& lab, const Options& options) {
  if (options.table) print_table(lab.console);
  if (options.order) print_order(lab.console);
  if (options.table || options.order) return;

  const auto requests = lab.requests();
  lab.title("Lesson 01, no cache");
  const auto engine = lesson01::make_engine(lab.model(), {});
  const kv::GenerateResult result = lab.generate(*engine, requests);
  print_cost(lab.console, requests, result);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.generate.prompts = {"Once upon a time"};
  kv::CommandLine command(
      "Lesson 01: generates text without a cache, and shows what recomputing costs.");
  kv::add_generate_options(command, options.generate);
  command
      .flag("--table", options.table,
            "print the cost of the QKV projection for known models, and nothing else")
      .excludes("--json");
  command
      .flag("--order", options.order,
            "add the same numbers in three orders, compare the bits, and nothing else")
      .excludes("--json");
  return kv::run_lesson("01", command, options.generate, argc, argv,
                        [&](kv::Lab& lab) { run(lab, options); });
}
