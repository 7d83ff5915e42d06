#include "qwen3/config.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "common/error.h"
#include "common/json.h"
#include "common/table.h"
#include "kernels/attention/contract.h"

namespace kv {
namespace {

// Caps far above any model, and low enough that products of them fit in 64 bits and sums in 32.
constexpr int64_t kMaxVocab = int64_t{1} << 24;
constexpr int64_t kMaxWidth = int64_t{1} << 20;
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxPositions = int64_t{1} << 28;
constexpr int kDefaultHeadDim = 128;  // transformers' Qwen3Config

int size_at(const JsonObject& config, const char* key, int64_t high) {
  return static_cast<int>(config.integer(key, 1, high));
}

// Refuses by name, and never ignores, a setting that would change the arithmetic and is not built
// here.
void refuse_other_models(const JsonObject& config) {
  if (config.string("model_type") != "qwen3") {
    user_error("{}: \"model_type\" is {}, wanted \"qwen3\": only dense Qwen3 models run here",
               config.where(), describe(config.at("model_type")));
  }
  if (config.string_or("hidden_act", "silu") != "silu") config.wrong("hidden_act", "\"silu\"");
  if (config.boolean_or("attention_bias", false)) {
    config.wrong("attention_bias", "false (projections without bias)");
  }
  if (config.find("quantization_config") != nullptr) {
    user_error(
        "{}: has a \"quantization_config\" ({}), wanted weights in bf16, fp16 or fp32; use the "
        "model's folder from before its quantization",
        config.where(),
        config.object("quantization_config").string_or("quant_method", "of no named method"));
  }
}

// New files name the type of each layer.
std::vector<bool> read_layer_types(const JsonObject& config, int num_layers) {
  const std::vector<Json>& types = config.array("layer_types");
  if (types.size() != static_cast<size_t>(num_layers)) {
    config.wrong("layer_types", "one entry for each of " + count_of(num_layers, "layer"));
  }
  std::vector<bool> sliding;
  for (const Json& type : types) {
    if (type != "full_attention" && type != "sliding_attention") {
      user_error("{}: \"layer_types\" has {}, wanted \"full_attention\" or \"sliding_attention\"",
                 config.where(), describe(type));
    }
    sliding.push_back(type == "sliding_attention");
  }
  return sliding;
}

// As transformers' Qwen3Config: the window counts only if it is switched on. Files without
// "layer_types" have it in the last layers, from max_window_layers on.
std::vector<int> read_windows(const JsonObject& config, int num_layers) {
  const bool is_null = config.has("sliding_window") && !config.find("sliding_window");
  const bool on = config.boolean_or("use_sliding_window", false) && !is_null;
  std::vector<bool> sliding(static_cast<size_t>(num_layers));
  if (config.find("layer_types")) {
    sliding = read_layer_types(config, num_layers);
  } else if (on) {
    const int64_t first = config.has("max_window_layers")
                              ? config.integer("max_window_layers", 0, kMaxLayers)
                              : 28;  // transformers' default
    for (int64_t layer = first; layer < num_layers; ++layer) {
      sliding[static_cast<size_t>(layer)] = true;
    }
  }
  if (std::ranges::find(sliding, true) == sliding.end()) return {};
  if (!on) {
    user_error(
        "{}: \"layer_types\" has \"sliding_attention\", wanted \"use_sliding_window\": true and a "
        "\"sliding_window\" with it",
        config.where());
  }
  const int window = config.has("sliding_window") ? size_at(config, "sliding_window", kMaxPositions)
                                                  : 4096;  // transformers' default
  std::vector<int> windows;
  for (const bool slides : sliding) windows.push_back(slides ? window : 0);
  return windows;
}

void refuse_scaled_rope(const JsonObject& rope) {
  for (const char* key : {"rope_type", "type"}) {
    if (rope.string_or(key, "default") != "default") rope.wrong(key, "\"default\"");
  }
  if (rope.has("partial_rotary_factor") && rope.number("partial_rotary_factor") != 1.0) {
    rope.wrong("partial_rotary_factor", "1 (every dimension rotates)");
  }
  for (const char* key : {"full_attention", "sliding_attention"}) {
    if (rope.has(key)) rope.wrong(key, "no such key: the same values for all layers");
  }
}

double theta_at(const JsonObject& object) {
  const double theta = object.number("rope_theta");
  if (!(theta > 0.0) || !std::isfinite(theta)) object.wrong("rope_theta", "a number above 0");
  return theta;
}

// Two generations of files: theta at the top, or inside "rope_parameters" (transformers 5). A
// scaled variant is declared in "rope_scaling" (old) or "rope_parameters" (new).
double read_rope_theta(const JsonObject& config) {
  if (config.find("rope_scaling")) refuse_scaled_rope(config.object("rope_scaling"));
  std::optional<double> theta;
  if (config.has("rope_theta")) theta = theta_at(config);
  if (config.find("rope_parameters")) {
    const JsonObject rope = config.object("rope_parameters");
    refuse_scaled_rope(rope);
    if (rope.has("rope_theta")) {
      const double inner = theta_at(rope);
      if (theta && *theta != inner) {
        rope.wrong("rope_theta", fmt::format("{} as at the top of the file", *theta));
      }
      theta = inner;
    }
  }
  return theta.value_or(10000.0);  // transformers' default
}

// "eos_token_id": 5, or [5, 7], or null.
void add_eos_ids(const JsonObject& object, std::vector<int32_t>& ids) {
  const Json* value = object.find("eos_token_id");
  if (value == nullptr) return;
  const auto add = [&](const Json& id) {
    const std::string where = object.where() + ": \"eos_token_id\"";
    const auto checked = static_cast<int32_t>(json_integer(id, where, 0, kMaxVocab - 1));
    if (std::ranges::find(ids, checked) == ids.end()) ids.push_back(checked);
  };
  if (value->is_array()) {
    for (const Json& id : *value) add(id);
  } else {
    add(*value);
  }
}

void check_heads(const JsonObject& config, const ModelConfig& c) {
  if (c.num_heads % c.num_kv_heads != 0) {
    user_error("{}: {} attention heads cannot share {} key/value heads evenly; wanted a divisor",
               config.where(), c.num_heads, c.num_kv_heads);
  }
  if (c.head_dim % 2 != 0) {
    config.wrong("head_dim", "an even number (RoPE rotates pairs)");
  }
}

}  // namespace

ModelConfig parse_config(std::string_view text, const std::string& name) {
  const Json json = parse_json(text, name);
  const JsonObject config(json, name);
  refuse_other_models(config);

  ModelConfig c;
  c.vocab_size = size_at(config, "vocab_size", kMaxVocab);
  c.hidden_size = size_at(config, "hidden_size", kMaxWidth);
  c.intermediate_size = size_at(config, "intermediate_size", kMaxWidth);
  c.num_layers = size_at(config, "num_hidden_layers", kMaxLayers);
  c.num_heads = size_at(config, "num_attention_heads", kMaxHeads);
  c.num_kv_heads = size_at(config, "num_key_value_heads", kMaxHeads);
  c.head_dim = config.has("head_dim") ? size_at(config, "head_dim", attention::kMaxHeadDim)
                                      : kDefaultHeadDim;
  check_heads(config, c);
  c.windows = read_windows(config, c.num_layers);

  if (config.has("rms_norm_eps")) {
    const double eps = config.number("rms_norm_eps");
    if (!(eps >= 0.0 && eps < 1.0)) config.wrong("rms_norm_eps", "a number from 0 to 1");
    c.rms_norm_eps = static_cast<float>(eps);
  }
  c.rope_theta = read_rope_theta(config);
  c.tie_word_embeddings = config.boolean_or("tie_word_embeddings", false);
  c.max_position_embeddings = config.has("max_position_embeddings")
                                  ? size_at(config, "max_position_embeddings", kMaxPositions)
                                  : 32768;  // transformers' default
  add_eos_ids(config, c.eos_token_ids);
  return c;
}

ModelConfig load_config(const std::filesystem::path& dir) {
  constexpr size_t kMaxBytes = size_t{16} << 20;
  const std::filesystem::path path = dir / "config.json";
  std::error_code error;
  if (!std::filesystem::exists(dir, error)) {
    const char* const named = std::getenv("KV_MODEL");
    const bool by_environment = named != nullptr && dir == named;
    user_error("{}{}: no such folder; wanted one with a model's config.json",
               by_environment ? "KV_MODEL=" : "--model ", dir.string());
  }
  if (!std::filesystem::is_directory(dir, error)) {
    const std::filesystem::path folder = dir.has_parent_path() ? dir.parent_path() : ".";
    const bool is_model = std::filesystem::exists(folder / "config.json", error);
    user_error("{}: found a file, wanted a model's folder, with config.json{}", dir.string(),
               is_model ? "; try --model " + folder.string() : "");
  }
  if (!std::filesystem::exists(path, error)) {
    user_error("{}: no such file; wanted a Qwen3 in a Hugging Face folder", path.string());
  }
  ModelConfig config = parse_config(read_file(path, kMaxBytes), path.string());

  const std::filesystem::path generation = dir / "generation_config.json";
  if (std::filesystem::exists(generation, error)) {
    const Json json = load_json(generation, kMaxBytes);
    add_eos_ids(JsonObject(json, generation.string()), config.eos_token_ids);
  }
  return config;
}

}  // namespace kv
