#pragma once

// What the programs share: options, how a program starts and ends, and loading with progress.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/model/engine.h"
#include "common/model/model.h"
#include "common/model/sampling.h"
#include "common/model/tokenizer.h"
#include "common/program/cli_output.h"

namespace kv {

/// Exit codes of every program.
enum ExitCode : int {
  kExitOk = 0,
  kExitInternal = 1,  // one of our own rules is broken
  kExitUser = 2,      // wrong input, or the device failed; one line on standard error says what
  kExitInterrupted = 130,  // Ctrl-C
};

/// What can be asked of a program that generates text.
struct GenerateOptions {
  std::vector<std::string> prompts;  // as typed: any bytes, never empty
  int max_tokens = 64;
  std::string device = "auto";
  std::filesystem::path model_dir;
  SamplingParams sampling;
  std::string json_file;  // empty: none; "-": standard output, and people's output goes to stderr
};

/// The model folder when none is named: $KV_MODEL, or the model that ships with the course.
std::filesystem::path default_model_dir();

/// --model and --device.
void add_model_options(CLI::App& app, GenerateOptions& options);
/// These, and --prompt, --max-tokens, --seed, --temperature, --top-k, --top-p, --json. The defaults
/// that help shows are those in `options`.
void add_generate_options(CLI::App& app, GenerateOptions& options);

/// Check for an integer option: "--x: 99 is not allowed, wanted 1 to 8". Numbers too large for any
/// integer type get the same line.
CLI::Validator between(int64_t smallest, int64_t largest);

/// Parses the command line, runs the body, and turns every way to end into an exit code:
/// wrong options, UserError, DeviceError -> 2; any other exception -> 1; Ctrl-C -> 130. Each error
/// is one line on standard error. A closed or full standard output is an error too (2).
int run_main(CLI::App& app, int argc, char** argv, const std::function<void()>& body);

/// True after Ctrl-C. Programs finish what they print and return; a second Ctrl-C ends at once.
bool interrupted();

/// Loads the model of options.model_dir on options.device. What takes over two seconds shows
/// progress on standard error.
Model load_model(const GenerateOptions& options);

/// One request per prompt: its tokens, and the model's end-of-text ids as stop tokens. Throws
/// UserError for an empty prompt.
std::vector<Request> make_requests(const GenerateOptions& options, const Tokenizer& tokenizer,
                                   const ModelConfig& config);

/// Generates for all requests and shows the texts as they come. Ctrl-C cancels what is left.
GenerateResult generate_and_print(const Console& console, Engine& engine,
                                  const Tokenizer& tokenizer, const GenerateOptions& options,
                                  std::span<const Request> requests);

}  // namespace kv
