#include "workload.h"

#include <algorithm>
#include <iterator>

#include "qwen3/generation.h"

namespace ladder {
namespace {

const std::vector<std::string> kSimple = {
    "Once upon a time",
    "One day, a little fox found a red kite in the forest.",
    "Once upon a time, there was a little boat. The boat was blue, and it lived on a quiet river.",
    "The old owl was sad.",
};

// The system prompt with which most requests begin.
const std::string kVillage =
    "Once upon a time, there was a small village between a forest and a river. Everybody in the "
    "village was kind. When somebody lost a thing, the others searched for it. When a thing was "
    "broken, somebody knew how to mend it. When a friend was sad, a friend came by and helped. In "
    "the evening, when the stars came out, they all sat by the river and told what had happened on "
    "that day. This is one of their stories.\n\n";
// A document that one request asks about, and later another one.
const std::string kLake =
    "Long ago, a turtle and a duck lived by the same lake. The duck could fly over the hills, and "
    "the turtle could swim down to the bottom of the lake. \"What is beyond the hills?\" asked the "
    "turtle. \"What is at the bottom of the lake?\" asked the duck. So each of them went, and "
    "looked, and came back, and told the other one everything.\n\n";

struct Spoken {
  std::string before;  // shared with others
  std::string text;
  int max_tokens = 0;
  int samples = 1;
};

const std::vector<Spoken> kServer = {
    {kVillage, "In the village lived a girl named Mia. Mia had a red balloon.", 64},
    {kVillage, "In the village lived a snail named Nils. Nils had a pink kite.", 24},
    {kLake, "One day, the duck had a new idea.", 72},
    {kVillage, "In the village lived a little fox. One day, the fox found a map.", 40, 4},
    {kVillage, "In the village lived a dragon who had a golden crown.", 64},
    {"", "Once upon a time, there was a little boat. The boat was blue.", 96},
    {kVillage, "In the village lived a girl named Zoe. Zoe loved to bake.", 64},
};
// They come when all others have ended.
const std::vector<Spoken> kLate = {
    {kVillage, "In the village lived a clever crow. The crow had a drum.", 32},
    {kLake, "The next day, the turtle found a golden bell.", 32},
};

}  // namespace

Requests server_requests(const kv::GenerateOptions& options, const kv::Tokenizer& tokenizer,
                         const kv::ModelConfig& config) {
  Requests all;
  const auto add = [&](const Spoken& spoken) {
    kv::Request request{.prompt = tokenizer.encode(spoken.before + spoken.text),
                        .max_tokens = std::min(spoken.max_tokens, options.max_tokens),
                        .sampling = options.sampling,
                        .stop_token_ids = tokenizer.with_eos_token(config.eos_token_ids)};
    if (spoken.samples > 1 && request.sampling.temperature == 0) {
      request.sampling.temperature = 0.8f;
    }
    std::ranges::move(kv::samples_of(request, spoken.samples),
                      std::back_inserter(all.workload.requests));
    all.texts.resize(all.workload.requests.size(), spoken.text);
  };
  for (const Spoken& spoken : kServer) add(spoken);
  const size_t num_first = all.texts.size();
  for (const Spoken& spoken : kLate) add(spoken);
  all.workload.num_late = all.texts.size() - num_first;
  return all;
}

Requests simple_requests(const kv::GenerateOptions& options, const kv::Tokenizer& tokenizer,
                         const kv::ModelConfig& config) {
  kv::GenerateOptions with_prompts = options;
  if (with_prompts.prompts.empty()) with_prompts.prompts = kSimple;
  return {.texts = with_prompts.prompts,
          .workload = {.requests = kv::make_requests(with_prompts, tokenizer, config)}};
}

}  // namespace ladder
