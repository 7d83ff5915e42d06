#pragma once

// Shared parts of the programs that generate text: their options, loading with progress, and the
// requests.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/console.h"
#include "programs/run_main.h"
#include "qwen3/engine.h"
#include "qwen3/model.h"
#include "qwen3/sampling.h"
#include "qwen3/tokenizer.h"

namespace kv {

/// Options of a program that generates text.
struct GenerateOptions {
  std::vector<std::string> prompts;  // as typed: any bytes, never empty
  int max_tokens = 64;
  std::string device = "auto";
  std::string kernel = "fast";
  std::filesystem::path model_dir;
  int window = 0;      // tokens that a layer sees, instead of config.json's; 0 keeps the file's
  int full_every = 6;  // with a window, layers whose number (from 1) this divides see all tokens
  std::string kv_dtype = "auto";
  SamplingParams sampling;
  std::string json_file;  // empty means none; "-" is stdout, and people's output goes to stderr
};

/// Beginnings of six stories, of which no two begin alike.
std::vector<std::string> six_texts();

/// The model folder when none is named: $KV_MODEL, or the model that ships with the course.
std::filesystem::path default_model_dir();

/// --model, --device, --kernel, --window, --full-every and --kv-dtype.
void add_model_options(CommandLine& command, GenerateOptions& options);
/// --seed; `help` says what it seeds.
void add_seed_option(CommandLine& command, GenerateOptions& options, const std::string& help);
/// --json.
void add_json_option(CommandLine& command, GenerateOptions& options);
/// These, and --prompt, --max-tokens, --temperature, --top-k and --top-p. The defaults that help
/// shows are those in `options`.
void add_generate_options(CommandLine& command, GenerateOptions& options);

/// The kernel that --kernel names.
Kernel kernel_of(const GenerateOptions& options);

/// [num_layers], as --window and --full-every mean them.
std::vector<int> windows_of(int window, int full_every, int num_layers);

/// Loads the model of options.model_dir on options.device. Shows progress on standard error after
/// two seconds.
Model load_model(const GenerateOptions& options);

/// One request per prompt: its tokens, and the model's end-of-text ids as stop tokens. Throws
/// UserError for an empty prompt.
std::vector<Request> make_requests(const GenerateOptions& options, const Tokenizer& tokenizer,
                                   const ModelConfig& config);

/// Runs a prompt pass and a decode pass that are not counted: the first passes of a process start
/// its threads and touch the weights. The engine must not be the one that is measured.
void warm_up(Engine& engine, std::span<const Request> requests);

}  // namespace kv
