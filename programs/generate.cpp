#include "programs/generate.h"

#include <cstdlib>
#include <limits>

#include "common/error.h"

namespace kv {

std::vector<std::string> six_texts() {
  return {"Once upon a time there was a little fox who lived in a dark forest with her mother.",
          "One day, a boy named Tom found a big red box under the old tree in the garden.",
          "Lily and Ben went to the park with their dog. They wanted to play with the ball.",
          "The sun was warm, and the cat was asleep on the soft mat next to the window.",
          "A small bird wanted to fly over the mountain, but the wind was cold and strong.",
          "Mia had a boat made of paper. She put it on the water and watched it go away."};
}

std::filesystem::path default_model_dir() {
  const char* named = std::getenv("KV_MODEL");
  return named && *named ? named : KV_SHIPPED_MODEL_DIR;
}

void add_model_options(CommandLine& command, GenerateOptions& options) {
  if (options.model_dir.empty()) options.model_dir = default_model_dir();
  command.value("--model DIR", options.model_dir,
                "a Hugging Face folder with a Qwen3 model (default: $KV_MODEL, or the model that "
                "ships with the course)");
  command
      .value("--device NAME", options.device,
             "where to compute: cpu, cuda, or auto (CUDA if a usable GPU is there)")
      .one_of({"cpu", "cuda", "auto"}, "; a GPU is called cuda");
  command
      .value("--kernel NAME", options.kernel,
             "of attention: fast, or plain, the one that the lessons' texts walk through")
      .one_of({"fast", "plain"});
  command
      .value("--window N", options.window,
             "another model with the same weights: its layers see the last N tokens; 0: what the "
             "model's config.json says")
      .between(0, std::numeric_limits<int32_t>::max());
  command
      .value("--full-every N", options.full_every, "each N-th layer sees all tokens; 0: none does")
      .between(0, std::numeric_limits<int32_t>::max())
      .needs("--window");
  command
      .value("--kv-dtype NAME", options.kv_dtype,
             "of K and V: auto (fp32 on the CPU, bf16 on CUDA), or fp8, through which each row is "
             "rounded")
      .one_of({"auto", "fp8"});
}

void add_seed_option(CommandLine& command, GenerateOptions& options, const std::string& help) {
  command.value("--seed N", options.sampling.seed, help)
      .between(0, std::numeric_limits<int64_t>::max());
}

void add_json_option(CommandLine& command, GenerateOptions& options) {
  command.json_file(options.json_file, "the results");
}

void add_generate_options(CommandLine& command, GenerateOptions& options) {
  constexpr int kMax = std::numeric_limits<int32_t>::max();
  SamplingParams& sampling = options.sampling;
  command.list("--prompt TEXT", options.prompts, "text to continue; repeat it for several at once")
      .not_empty();
  command.value("--max-tokens N", options.max_tokens, "most tokens to generate for each prompt")
      .between(1, 1 << 20);
  add_model_options(command, options);
  add_seed_option(command, options, "the same seed draws the same tokens");
  command.value("--temperature T", sampling.temperature, "0 takes the likeliest token every time")
      .real_between(0, 100);
  command.value("--top-k K", sampling.top_k, "draw from the k likeliest tokens; 0: from all")
      .between(0, kMax);
  command
      .value("--top-p P", sampling.top_p,
             "draw from the fewest tokens whose probability reaches this")
      .over(0, 1);
  add_json_option(command, options);
}

Kernel kernel_of(const GenerateOptions& options) {
  return options.kernel == "plain" ? Kernel::kPlain : Kernel::kFast;
}

std::vector<int> windows_of(int window, int full_every, int num_layers) {
  std::vector<int> windows;
  for (int layer = 1; layer <= num_layers; ++layer) {
    const bool full = full_every > 0 && layer % full_every == 0;
    windows.push_back(full ? 0 : window);
  }
  return windows;
}

Model load_model(const GenerateOptions& options) {
  const Device device = resolve_device(options.device);
  ProgressLine progress("loading the model");
  Model model = Model::load(options.model_dir, device,
                            [&](int64_t done, int64_t all) { progress.show(done, all); });
  model.set_kernel(kernel_of(options));
  if (options.window > 0) {
    model.set_windows(windows_of(options.window, options.full_every, model.config().num_layers));
  }
  if (options.kv_dtype == "fp8") model.set_kv_format(KvFormat::kFp8);
  return model;
}

std::vector<Request> make_requests(const GenerateOptions& options, const Tokenizer& tokenizer,
                                   const ModelConfig& config) {
  validate(options.sampling);
  std::vector<Request> requests;
  for (const std::string& prompt : options.prompts) {
    if (prompt.empty()) user_error("--prompt is empty: give at least one character");
    Request request{.prompt = tokenizer.with_special_tokens(tokenizer.encode(prompt)),
                    .max_tokens = options.max_tokens,
                    .sampling = options.sampling,
                    .stop_token_ids = tokenizer.with_eos_token(config.eos_token_ids)};
    requests.push_back(std::move(request));
  }
  return requests;
}

void warm_up(Engine& engine, std::span<const Request> requests) {
  std::vector<int> num_tokens(requests.size());
  engine.generate(requests, [&](size_t i, int32_t) { return ++num_tokens[i] < 2; });
}

}  // namespace kv
