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

// Settings that would change the arithmetic, with the values that don't; null never does. They are
// those that transformers or vLLM read from a config.json of this family.
constexpr const char* kModelSettings = R"({
  "hidden_act": ["silu"], "attention_bias": [false], "mlp_bias": [false], "use_qk_norm": [true],
  "is_causal": [true], "use_bidirectional_attention": [false], "is_encoder_decoder": [false],
  "add_cross_attention": [false], "pruned_heads": [{}], "partial_rotary_factor": [1],
  "final_logit_softcapping": [], "attn_logit_softcapping": [], "logit_scale": [1],
  "logits_scaling": [1], "embedding_multiplier": [1], "residual_multiplier": [1],
  "dual_chunk_attention_config": [], "attention_chunk_size": [], "no_rope_layers": [[]]
})";

// The same for settings of a generation: those that transformers' generate() reads.
constexpr const char* kGenerationSettings = R"({
  "repetition_penalty": [1], "encoder_repetition_penalty": [1], "presence_penalty": [0],
  "frequency_penalty": [0], "no_repeat_ngram_size": [0], "encoder_no_repeat_ngram_size": [0],
  "min_p": [0], "top_h": [], "typical_p": [1], "epsilon_cutoff": [0], "eta_cutoff": [0],
  "diversity_penalty": [0], "bad_words_ids": [[]], "force_words_ids": [[]], "constraints": [[]],
  "forced_bos_token_id": [], "forced_eos_token_id": [], "suppress_tokens": [[]],
  "begin_suppress_tokens": [[]], "sequence_bias": [[], {}], "guidance_scale": [1],
  "exponential_decay_length_penalty": [], "watermarking_config": [], "penalty_alpha": [0],
  "dola_layers": [], "num_beams": [1], "num_beam_groups": [1], "num_return_sequences": [1],
  "min_length": [0], "min_new_tokens": [0], "max_time": [], "token_healing": [false],
  "remove_invalid_values": [false], "renormalize_logits": [false], "forced_decoder_ids": [[]]
})";

void refuse_other_values(const JsonObject& object, const char* values_by_key) {
  const Json all = Json::parse(values_by_key);
  for (const auto& [key, values] : all.items()) {
    const Json* const found = object.find(key);
    if (found == nullptr || std::ranges::find(values, *found) != values.end()) continue;
    object.wrong(key, (values.empty() ? "null" : values[0].dump()) + ": it is not built here");
  }
}

// Refuses by name, and never ignores, a setting that would change the arithmetic and is not built
// here.
void refuse_other_models(const JsonObject& config) {
  if (config.string("model_type") != "qwen3") {
    user_error("{}: \"model_type\" is {}, wanted \"qwen3\": only dense Qwen3 models run here",
               config.where(), describe(config.at("model_type")));
  }
  if (config.find("architectures") != nullptr) {
    const std::vector<Json>& names = config.array("architectures");
    if (!names.empty() && std::ranges::find(names, "Qwen3ForCausalLM") == names.end()) {
      config.wrong("architectures", "\"Qwen3ForCausalLM\": only models that write text run here");
    }
  }
  refuse_other_values(config, kModelSettings);
  for (const char* key : {"quantization_config", "compression_config"}) {
    if (config.find(key) == nullptr) continue;
    user_error(
        "{}: has a \"{}\" ({}), wanted weights in bf16, fp16 or fp32; use the model's folder from "
        "before its quantization",
        config.where(), key, config.object(key).string_or("quant_method", "of no named method"));
  }
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
  const bool named = rope.find("rope_type") != nullptr || rope.find("type") != nullptr;
  if (!named && rope.find("factor")) rope.wrong("factor", "a \"rope_type\" with it, \"default\"");
  for (const char* key : {"full_attention", "sliding_attention", "mrope_section"}) {
    if (rope.has(key)) rope.wrong(key, "no such key: the same values for all layers");
  }
}

double theta_at(const JsonObject& object) {
  const double theta = object.number("rope_theta");
  if (!(theta > 0.0) || !std::isfinite(theta)) object.wrong("rope_theta", "a number above 0");
  return theta;
}

// Two generations of files: theta at the top, or inside "rope_parameters" (transformers 5), which
// may have its old name, "rope_scaling". A scaled variant is declared there, too.
double read_rope_theta(const JsonObject& config) {
  std::optional<double> theta;
  if (config.has("rope_theta")) theta = theta_at(config);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (config.find(key) == nullptr) continue;
    const JsonObject rope = config.object(key);
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

}  // namespace

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

void check_heads(const JsonObject& config, int num_heads, int num_kv_heads) {
  if (num_heads % num_kv_heads == 0) return;
  user_error("{}: {} attention heads cannot share {} key/value heads evenly; wanted a divisor",
             config.where(), num_heads, num_kv_heads);
}

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
  check_heads(config, c.num_heads, c.num_kv_heads);
  if (c.head_dim % 2 != 0) config.wrong("head_dim", "an even number (RoPE rotates pairs)");
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

  const std::filesystem::path generation = generation_file(dir);
  const Json json = load_json(generation, kMaxBytes);
  const JsonObject object(json, generation.string());
  refuse_other_values(object, kGenerationSettings);
  add_eos_ids(object, config.eos_token_ids);
  return config;
}

std::filesystem::path generation_file(const std::filesystem::path& dir) {
  const std::filesystem::path file = dir / "generation_config.json";
  return std::filesystem::exists(file) ? file : dir / "config.json";
}

}  // namespace kv
