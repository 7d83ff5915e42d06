#include <algorithm>
#include <string>
#include <vector>

#include "engine.h"
#include "lessons/03_paged_blocks/block_table.h"
#include "parts.h"
#include "qwen3/random_weights.h"

namespace bench {
namespace {

/// `count` requests without a common prefix: half of their `tokens` are the prompt's.
std::vector<kv::Request> requests_of(int count, int tokens, int vocab_size, uint64_t seed) {
  std::vector<kv::Request> requests(count);
  uint64_t at = 0;
  for (kv::Request& request : requests) {
    for (int i = 0; i < tokens / 2; ++i) {
      const uint64_t bits = kv::random_bits(seed, at++);
      request.prompt.push_back(static_cast<int32_t>(bits % static_cast<uint64_t>(vocab_size)));
    }
    request.max_tokens = tokens - tokens / 2;
  }
  return requests;
}

struct Served {
  kv::ServeResult result;
  double tokens_per_second = 0;
  double first_token = 0, last_first_token = 0;  // seconds: the median, and the longest wait
};

template <class Engine>
Served serve(kv::Model& model, const std::vector<kv::Request>& requests, int num_blocks) {
  constexpr int kBlockSize = 16;
  const bool cuda = model.device() == kv::Device::kCuda;
  Engine engine(model, {.block_size = kBlockSize, .num_blocks = num_blocks},
                {.scheduler = {.max_tokens_per_pass = cuda ? 8192 : 512,
                               .max_running = static_cast<int>(requests.size())},
                 .choose_on_device = true,
                 .pad_decodes_to = cuda ? 8 : 1});
  Served served{.result = engine.serve(
                    requests, {}, {}, [](const auto&, const auto&) { return !kv::interrupted(); })};
  const auto& result = served.result;
  served.tokens_per_second = static_cast<double>(kv::num_generated_tokens(result.generated)) /
                             std::max(result.generated.counters.seconds, 1e-9);
  std::vector<double> waits;
  for (const kv::RequestTimes& times : result.times) {
    waits.push_back(times.first_token - times.arrived);
  }
  served.first_token = kv::median(waits);
  served.last_first_token = *std::ranges::max_element(waits);
  return served;
}

}  // namespace

void measure_serving(kv::Lab& lab) {
  kv::Model& model = lab.model();
  const bool cuda = model.device() == kv::Device::kCuda;
  const int tokens = cuda ? 2048 : 64;
  lab.console.print(
      "Requests of {} tokens that come at once, on {}; in bf16 the memory holds half\n\n",
      kv::with_commas(tokens), kv::describe(model.device()));
  kv::Records rows;
  const std::vector<int> counts = cuda ? std::vector{256, 512} : std::vector{16};
  for (const int count : counts) {
    const auto requests =
        requests_of(count, tokens, model.config().vocab_size, lab.options.sampling.seed);
    const int num_blocks = count / 2 * lesson03::blocks_for(tokens, 16);
    for (const bool fp8 : {false, true}) {
      if (kv::interrupted()) break;
      model.set_kv_format(fp8 ? kv::KvFormat::kFp8 : kv::KvFormat::kActivations);
      const std::string name = fp8 ? "FP8" : cuda ? "bf16" : "fp32, blocks of bf16";
      const Served s = fp8 ? serve<lesson14::Fp8Engine>(model, requests, num_blocks)
                           : serve<lesson08::ServingEngine>(model, requests, num_blocks);
      const kv::EngineCounters& c = s.result.generated.counters;
      const auto shown = [](double seconds) {
        return kv::Shown(fmt::format("{:.2f} s", seconds), seconds);
      };
      rows.add({{"requests", count, "requests"},
                {"K and V", name, "kv"},
                {"tokens/s", kv::decimal(s.tokens_per_second, 0), "tokens_per_second"},
                {"at once", c.max_sequences, "at_once"},
                {"passes", kv::counted(c.passes), "passes"},
                {"preempted", kv::counted(s.result.num_preemptions), "preemptions"},
                {"first token", shown(s.first_token), "first_token_seconds"},
                {"the last one", shown(s.last_first_token), "last_first_token_seconds"}});
    }
  }
  lab.report_records("rows", rows);
  lab.report["tokens"] = tokens;
}

}  // namespace bench
