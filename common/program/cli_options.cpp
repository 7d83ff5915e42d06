#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "common/program/cli.h"

namespace kv {
namespace {

template <typename Number>
bool parses_as(const std::string& text, Number& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

/// A real number in [smallest, largest], or (smallest, largest] if `open`.
CLI::Validator real_between(double smallest, double largest, bool open) {
  const std::string range = fmt::format("{}{} to {}", open ? "over " : "", smallest, largest);
  const auto check = [=](std::string& text) -> std::string {
    double value = 0;
    const bool ok =
        parses_as(text, value) && value <= largest && (open ? value > smallest : value >= smallest);
    return ok ? std::string() : fmt::format("'{}' is not allowed, wanted {}", text, range);
  };
  return {check, range};
}

CLI::Validator not_empty() {
  return {[](std::string& text) {
            return text.empty() ? std::string("is empty, wanted at least one character")
                                : std::string();
          },
          ""};
}

}  // namespace

CLI::Validator between(int64_t smallest, int64_t largest) {
  const std::string range = fmt::format("{} to {}", smallest, largest);
  const auto check = [=](std::string& text) -> std::string {
    int64_t value = 0;
    const bool ok = parses_as(text, value) && value >= smallest && value <= largest;
    return ok ? std::string() : fmt::format("'{}' is not allowed, wanted {}", text, range);
  };
  const bool no_limit = largest >= std::numeric_limits<int32_t>::max();
  return {check, no_limit ? fmt::format("{} or more", smallest) : range};
}

std::filesystem::path default_model_dir() {
  const char* named = std::getenv("KV_MODEL");
  return named && *named ? named : KV_SHIPPED_MODEL_DIR;
}

void add_model_options(CLI::App& app, GenerateOptions& options) {
  if (options.model_dir.empty()) options.model_dir = default_model_dir();
  app.add_option("--model", options.model_dir,
                 "a Hugging Face folder with a Qwen3 model (default: $KV_MODEL, or the model that "
                 "ships with the course)")
      ->type_name("DIR");
  app.add_option("--device", options.device,
                 "where to compute: cpu, cuda, or auto (CUDA if a usable GPU is there)")
      ->type_name("NAME")
      ->check(CLI::Validator(
          [](std::string& name) -> std::string {
            if (name == "cpu" || name == "cuda" || name == "auto") return {};
            return fmt::format("'{}' is not a device, wanted cpu, cuda or auto", name);
          },
          ""))
      ->capture_default_str();
}

void add_generate_options(CLI::App& app, GenerateOptions& options) {
  constexpr int kMost = std::numeric_limits<int32_t>::max();
  SamplingParams& sampling = options.sampling;
  app.add_option("--prompt", options.prompts, "text to continue; repeat it for several at once")
      ->type_name("TEXT")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(not_empty())
      ->capture_default_str();
  app.add_option("--max-tokens", options.max_tokens, "most tokens to generate for each prompt")
      ->type_name("N")
      ->check(between(0, 1 << 20))
      ->capture_default_str();
  add_model_options(app, options);
  app.add_option("--seed", sampling.seed, "the same seed draws the same tokens")
      ->type_name("N")
      ->check(between(0, std::numeric_limits<int64_t>::max()))
      ->capture_default_str();
  app.add_option("--temperature", sampling.temperature, "0 takes the likeliest token every time")
      ->type_name("T")
      ->check(real_between(0, 100, /*open=*/false))
      ->capture_default_str();
  app.add_option("--top-k", sampling.top_k, "draw from the k likeliest tokens; 0: from all")
      ->type_name("K")
      ->check(between(0, kMost))
      ->capture_default_str();
  app.add_option("--top-p", sampling.top_p,
                 "draw from the fewest tokens whose probability reaches this")
      ->type_name("P")
      ->check(real_between(0, 1, /*open=*/true))
      ->capture_default_str();
  app.add_option("--json", options.json_file, "also write results as JSON; - for standard output")
      ->type_name("FILE");
}

}  // namespace kv
