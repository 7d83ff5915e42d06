#include "workload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>
#include <utility>

#include "common/error.h"
#include "common/json.h"

namespace lesson08 {
namespace {

/// Random numbers that are the same with every standard library.
int below(std::mt19937_64& rng, int n) {
  return static_cast<int>(rng() % static_cast<uint64_t>(std::max(n, 1)));
}

std::vector<int32_t> ordinary_tokens(std::mt19937_64& rng, int count, int vocab_size) {
  const int first = std::min(256, vocab_size / 2);  // after the single bytes
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(first + below(rng, vocab_size - first));
  return tokens;
}

/// One line of a file of requests.
void read_request(const kv::Json& json, const std::string& where, const kv::Tokenizer& tokenizer,
                  const kv::Request& defaults, Workload& workload) {
  const kv::JsonObject object(json, where);
  static constexpr std::array kKeys{"prompt", "max_tokens", "pass", "priority", "seed"};
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(kKeys, key) != kKeys.end()) continue;
    kv::user_error("{}: there is no key \"{}\"; wanted {}", where, key, fmt::join(kKeys, ", "));
  }
  if (object.find("prompt") == nullptr) {
    kv::user_error("{}: key \"prompt\" is missing; wanted a line such as {{\"prompt\": \"Hello\"}}",
                   where);
  }
  const auto integer_or = [&](const char* key, int missing, int64_t low, int64_t high) {
    return object.find(key) ? static_cast<int>(object.integer(key, low, high)) : missing;
  };
  kv::Request request = defaults;
  request.prompt = tokenizer.encode(object.string("prompt"));
  if (request.prompt.empty()) object.wrong("prompt", "at least one character");
  request.prompt = tokenizer.with_special_tokens(std::move(request.prompt));
  request.max_tokens = integer_or("max_tokens", defaults.max_tokens, 0, 1 << 20);
  if (object.find("seed")) {
    request.sampling.seed = static_cast<uint64_t>(object.integer("seed", 0, INT64_MAX));
  }
  workload.arrivals.push_back({.pass = integer_or("pass", 0, 0, 1 << 30),
                               .priority = integer_or("priority", 0, -1000, 1000)});
  workload.requests.push_back(std::move(request));
}

}  // namespace

Workload make_workload(const WorkloadOptions& options, int vocab_size) {
  std::mt19937_64 rng(options.sampling.seed);
  const std::vector<int32_t> system = ordinary_tokens(rng, options.system_tokens, vocab_size);
  Workload workload;
  for (int i = 0; i < options.num_requests; ++i) {
    kv::Request request;
    request.sampling = options.sampling;
    if (below(rng, 3) < 2) request.prompt = system;
    const int own = options.shortest + below(rng, options.longest - options.shortest + 1);
    const std::vector<int32_t> tokens = ordinary_tokens(rng, own, vocab_size);
    request.prompt.insert(request.prompt.end(), tokens.begin(), tokens.end());
    request.max_tokens =
        1 + std::min(below(rng, options.max_tokens), below(rng, options.max_tokens));
    workload.requests.push_back(std::move(request));
    const int burst = i * options.num_bursts / options.num_requests;
    workload.arrivals.push_back(
        {.pass = burst * options.burst_gap + below(rng, 4), .priority = below(rng, 3)});
  }
  return workload;
}

Workload load_workload(const std::filesystem::path& file, const kv::Tokenizer& tokenizer,
                       const kv::Request& defaults) {
  std::ifstream in(file);
  if (!in)
    kv::user_error("{}: cannot read the requests: {}; wanted JSON lines, check the path",
                   file.string(), std::strerror(errno));
  Workload workload;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string name = fmt::format("{}: line {}", file.string(), number);
    read_request(kv::parse_json(line, name), name, tokenizer, defaults, workload);
  }
  if (workload.requests.empty()) {
    kv::user_error("{}: no request in it; wanted a line such as {{\"prompt\": \"Hello\"}}",
                   file.string());
  }
  return workload;
}

Workload workload_of(const std::filesystem::path& file, WorkloadOptions options,
                     const kv::GenerateOptions& generate, const kv::Model& model) {
  options.sampling = generate.sampling;
  if (file.empty()) return make_workload(options, model.config().vocab_size);
  kv::Request defaults;
  defaults.max_tokens = generate.max_tokens;
  defaults.sampling = generate.sampling;
  return load_workload(file, kv::Tokenizer::load(generate.model_dir), defaults);
}

}  // namespace lesson08
