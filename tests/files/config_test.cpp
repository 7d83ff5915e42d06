// config.json: both generations of it, and everything that can be wrong with it.
#include "qwen3/config.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "tests/files/support.h"

using namespace kv;
using namespace kv::testing;
using nlohmann::json;

namespace {

// As transformers 4 writes it for Qwen3-0.6B.
json qwen3_06b() {
  return json::parse(R"({"architectures": ["Qwen3ForCausalLM"], "attention_bias": false,
    "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128,
    "hidden_act": "silu", "hidden_size": 1024, "initializer_range": 0.02, "intermediate_size": 3072,
    "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3",
    "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8,
    "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null,
    "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.51.0",
    "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})");
}

const char* const kSizes[] = {
    "vocab_size",          "hidden_size",         "intermediate_size", "num_hidden_layers",
    "num_attention_heads", "num_key_value_heads", "head_dim",          "max_position_embeddings"};

ModelConfig parse(const json& config) { return parse_config(config.dump(), "config.json"); }

// The message after `key` has been set to `value`.
std::string error_with(const std::string& key, const json& value) {
  json config = qwen3_06b();
  config[key] = value;
  return user_error_of([&] { parse(config); });
}

std::string error_without(const std::string& key) {
  json config = qwen3_06b();
  config.erase(key);
  return user_error_of([&] { parse(config); });
}

struct Wrong {
  std::string key;
  json value;
  const char* said;
};
void check_refused(const std::vector<Wrong>& all) {
  for (const Wrong& one : all) {
    CAPTURE(one.key);
    CHECK(contains(error_with(one.key, one.value), one.said));
  }
}

}  // namespace

TEST_CASE("config: Qwen3-0.6B is read as transformers 4 writes it, its head_dim as it says") {
  const ModelConfig c = parse(qwen3_06b());
  CHECK(c.vocab_size == 151936);
  CHECK(c.hidden_size == 1024);
  CHECK(c.intermediate_size == 3072);
  CHECK(c.num_layers == 28);
  CHECK(c.num_heads == 16);
  CHECK(c.num_kv_heads == 8);
  CHECK(c.head_dim == 128);  // not hidden_size / num_heads, which is legal
  CHECK(c.rms_norm_eps == 1e-6f);
  CHECK(c.rope_theta == 1e6);
  CHECK(c.tie_word_embeddings);
  CHECK(c.max_position_embeddings == 40960);
  CHECK(c.eos_token_ids == std::vector<int32_t>{151645});
  CHECK(c.qkv_width() == 4096);
  CHECK(c.kv_bytes_per_token(2) == 114'688);
}

TEST_CASE("config: theta is read from rope_parameters, where transformers 5 keeps it") {
  json config = qwen3_06b();
  config.erase("rope_theta");
  config.erase("rope_scaling");
  config["rope_parameters"] = {{"rope_theta", 5e5}, {"rope_type", "default"}};
  config["layer_types"] = std::vector<std::string>(28, "full_attention");
  CHECK(parse(config).rope_theta == 5e5);
  config["rope_theta"] = 5e5;
  CHECK(parse(config).rope_theta == 5e5);
  config["rope_theta"] = 1e6;
  CHECK(contains(user_error_of([&] { parse(config); }),
                 "\"rope_parameters\": \"rope_theta\" is 500000.0"));
}

TEST_CASE("config: what a file leaves out has its default") {
  json config = qwen3_06b();
  for (const char* key : {"head_dim", "rope_theta", "rope_scaling", "rms_norm_eps", "eos_token_id",
                          "tie_word_embeddings", "max_position_embeddings", "hidden_act",
                          "attention_bias", "use_sliding_window", "sliding_window"}) {
    config.erase(key);
  }
  const ModelConfig c = parse(config);
  CHECK(c.head_dim == 128);  // transformers' default, not hidden_size / num_heads
  CHECK(c.rope_theta == 10000.0);
  CHECK(c.rms_norm_eps == 1e-6f);
  CHECK(c.max_position_embeddings == 32768);
  CHECK(!c.tie_word_embeddings);
  CHECK(c.eos_token_ids.empty());
}

TEST_CASE("config: end-of-text ids come from both files, each once") {
  const TempDir dir;
  json config = qwen3_06b();
  config["eos_token_id"] = {7, 5};
  dir.write("config.json", config.dump());
  CHECK(load_config(dir.path()).eos_token_ids == std::vector<int32_t>{7, 5});
  dir.write("generation_config.json", R"({"eos_token_id": [5, 9], "temperature": 0.6})");
  CHECK(load_config(dir.path()).eos_token_ids == std::vector<int32_t>{7, 5, 9});
  dir.write("generation_config.json", R"({"eos_token_id": 11})");
  CHECK(load_config(dir.path()).eos_token_ids == std::vector<int32_t>{7, 5, 11});
  dir.write("generation_config.json", R"({"eos_token_id": "x"})");
  CHECK(contains(user_error_of([&] { load_config(dir.path()); }),
                 "generation_config.json: \"eos_token_id\" is \"x\""));
}

TEST_CASE("config: each setting that changes logits or tokens is used or refused by name") {
  const json settings = json::parse(R"({
    "hidden_act": "gelu", "attention_bias": true, "mlp_bias": true, "use_qk_norm": false,
    "is_causal": false, "use_bidirectional_attention": true, "is_encoder_decoder": true,
    "add_cross_attention": true, "pruned_heads": {"0": [1]}, "partial_rotary_factor": 0.5,
    "final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0, "logit_scale": 0.5,
    "logits_scaling": 8, "embedding_multiplier": 12, "residual_multiplier": 0.2,
    "dual_chunk_attention_config": {"chunk_size": 8}, "attention_chunk_size": 8192,
    "no_rope_layers": [1, 0], "architectures": ["Qwen3ForSequenceClassification"],
    "quantization_config": {"quant_method": "fp8"}, "compression_config": {"quant_method": "x"},
    "rope_scaling": {"rope_type": "yarn", "factor": 4}, "rope_parameters": {"mrope_section": [1]}
  })");
  for (const auto& item : settings.items()) {
    const std::string& key = item.key();
    const json& value = item.value();
    CAPTURE(key);
    CHECK(contains(error_with(key.c_str(), value), "config.json"));
    CHECK(contains(error_with(key.c_str(), value), key == "rope_scaling"      ? "rope_type"
                                                   : key == "rope_parameters" ? "mrope"
                                                                              : key));
    CHECK(error_with(key.c_str(), nullptr) == "no error");
  }
  CHECK(error_with("logit_scale", 1.0) == "no error");
  CHECK(contains(error_with("rope_scaling", {{"factor", 4.0}}), "\"factor\" is 4.0, wanted"));
  json renamed = qwen3_06b();  // transformers 5 takes the old name, too
  renamed.erase("rope_theta");
  renamed["rope_scaling"] = {{"rope_type", "default"}, {"rope_theta", 7e5}};
  CHECK(parse(renamed).rope_theta == 7e5);
}

TEST_CASE("config: each setting of a generation that is not built is refused by name") {
  const TempDir dir;
  const auto error_in = [&](const char* file, const json& settings) {
    json config = qwen3_06b();
    if (file == std::string("config.json")) config.update(settings);
    dir.write("config.json", config.dump());
    if (file != std::string("config.json")) dir.write(file, settings.dump());
    return user_error_of([&] { load_config(dir.path()); });
  };
  // In folders from before generation_config.json the settings stand in config.json.
  CHECK(contains(error_in("config.json", {{"repetition_penalty", 1.1}}), "config.json: \"rep"));
  const json others = json::parse(R"({
    "repetition_penalty": 1.05, "encoder_repetition_penalty": 1.1, "presence_penalty": 1.5,
    "frequency_penalty": 0.5, "no_repeat_ngram_size": 3, "encoder_no_repeat_ngram_size": 3,
    "min_p": 0.05, "top_h": 0.4, "typical_p": 0.9, "epsilon_cutoff": 3e-4, "eta_cutoff": 3e-4,
    "diversity_penalty": 0.5, "bad_words_ids": [[7]], "force_words_ids": [[7]],
    "constraints": [1], "forced_bos_token_id": 7, "forced_eos_token_id": 7,
    "suppress_tokens": [7], "begin_suppress_tokens": [7], "sequence_bias": [[[7], 1.0]],
    "exponential_decay_length_penalty": [5, 1.1], "guidance_scale": 1.5,
    "watermarking_config": {"bias": 2.5}, "forced_decoder_ids": [[1, 7]], "penalty_alpha": 0.6, "dola_layers": "high",
    "num_beams": 4, "num_beam_groups": 2, "num_return_sequences": 2, "min_length": 5,
    "min_new_tokens": 5, "max_time": 2.5, "token_healing": true,
    "remove_invalid_values": true, "renormalize_logits": true
  })");
  for (const auto& item : others.items()) {
    const std::string& key = item.key();
    const json& value = item.value();
    CAPTURE(key);
    CHECK(contains(error_in("generation_config.json", {{key, value}}),
                   "generation_config.json: \"" + key + "\" is "));
    CHECK(error_in("generation_config.json", {{key, nullptr}}) == "no error");
  }
  CHECK(error_in("generation_config.json", {{"repetition_penalty", 1.0},
                                            {"num_beams", 1},
                                            {"bad_words_ids", json::array()},
                                            {"temperature", 0.6},
                                            {"do_sample", true}}) == "no error");
}

TEST_CASE("config: a missing key is refused by name") {
  for (const std::string key :
       {"model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "num_key_value_heads"}) {
    CAPTURE(key);
    CHECK(contains(error_without(key), "config.json: key \"" + key + "\" is missing"));
  }
}

TEST_CASE("config: a wrong type is refused, and so is null") {
  for (const std::string key : kSizes) {
    for (const json& value : {json("1024"), json(1024.5), json(true), json(nullptr),
                              json::array({1024}), json::object()}) {
      CAPTURE(key);
      CAPTURE(value.dump());
      CHECK(contains(error_with(key, value), "config.json: \"" + key + "\" is "));
    }
  }
  check_refused({{"rms_norm_eps", "1e-6", "\"rms_norm_eps\" is \"1e-6\", wanted a number"},
                 {"rms_norm_eps", nullptr, "\"rms_norm_eps\" is null, wanted a number"},
                 {"rope_theta", json::array(), "\"rope_theta\" is an array"},
                 {"rope_theta", nullptr, "\"rope_theta\" is null, wanted a number"},
                 {"rope_parameters", {{"rope_theta", nullptr}}, "\"rope_theta\" is null, wanted a"},
                 {"tie_word_embeddings", 1, "\"tie_word_embeddings\" is 1, wanted true or false"},
                 {"eos_token_id", json::array({"a"}), "\"eos_token_id\" is \"a\""},
                 {"model_type", 3, "\"model_type\" is 3"}});
  CHECK(contains(user_error_of([] { parse_config("[1]", "config.json"); }),
                 "found an array of 1 value"));
}

TEST_CASE("config: absurd sizes are refused") {
  for (const std::string key : kSizes) {
    for (const json& value : {json(0), json(-1), json(1'000'000'000'000), json(2'147'483'648),
                              json(18'446'744'073'709'551'615u)}) {
      CAPTURE(key);
      CAPTURE(value.dump());
      CHECK(contains(error_with(key, value), "wanted an integer from 1 to"));
    }
  }
  check_refused({{"rms_norm_eps", -1e-6, "\"rms_norm_eps\""},
                 {"rope_theta", 0, "wanted a number above 0"},
                 {"eos_token_id", -1, "wanted an integer from 0"}});
}

TEST_CASE("config: heads that do not divide are refused") {
  check_refused({{"num_key_value_heads", 3, "16 attention heads cannot share 3 key/value heads"},
                 {"num_key_value_heads", 32, "16 attention heads cannot share 32"},
                 {"head_dim", 127, "\"head_dim\" is 127, wanted an even number"},
                 {"head_dim", 258, "wanted an integer from 1 to 256"}});
}

TEST_CASE("config: what is not built here is refused by name") {
  check_refused(
      {{"model_type", "llama", "\"model_type\" is \"llama\", wanted \"qwen3\": only dense"},
       {"model_type", "qwen3_moe", "\"model_type\" is \"qwen3_moe\""},
       {"quantization_config", {{"bits", 4}}, "\"quantization_config\" (of no named method)"},
       {"quantization_config", {{"quant_method", "fp8"}}, "(fp8), wanted weights in bf16, fp16 or"},
       {"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}}, "\"rope_type\" is \"yarn\""},
       {"rope_scaling", {{"type", "linear"}}, "\"type\" is \"linear\""},
       {"rope_parameters", {{"rope_type", "llama3"}}, "\"rope_type\" is \"llama3\""},
       {"rope_parameters", {{"partial_rotary_factor", 0.5}}, "\"partial_rotary_factor\" is 0.5"},
       {"rope_parameters",
        {{"full_attention", {{"rope_type", "default"}}}},
        "\"full_attention\" is an object of 1 key, wanted no such key"}});
}

TEST_CASE("config: sliding windows are those of transformers' Qwen3Config") {
  const auto with = [](const json& keys) {
    json config = qwen3_06b();
    config["num_hidden_layers"] = 4;
    config.update(keys);
    return config;
  };
  const auto windows = [&](const json& keys) {
    const ModelConfig config = parse(with(keys));
    std::vector<int> all;
    for (int layer = 0; layer < 4; ++layer) all.push_back(config.window_of(layer));
    return all;
  };
  using Windows = std::vector<int>;
  const json mixed = {"sliding_attention", "full_attention", "sliding_attention", "full_attention"};
  CHECK(windows({{"use_sliding_window", true}, {"sliding_window", 7}, {"layer_types", mixed}}) ==
        Windows{7, 0, 7, 0});
  // Without "layer_types": from max_window_layers on, which is 28 if the file does not say it.
  CHECK(windows({{"use_sliding_window", true}, {"sliding_window", 7}, {"max_window_layers", 3}}) ==
        Windows{0, 0, 0, 7});
  json config = with({{"use_sliding_window", true}, {"sliding_window", 7}});
  config.erase("max_window_layers");
  CHECK(parse(config).windows.empty());
  config["max_window_layers"] = 0;
  config.erase("sliding_window");
  CHECK(parse(config).windows == Windows{4096, 4096, 4096, 4096});
  // Switched off, or none: ignored.
  CHECK(windows({{"sliding_window", 7}, {"max_window_layers", 0}}) == Windows{0, 0, 0, 0});
  CHECK(windows({{"use_sliding_window", true}, {"max_window_layers", 0}}) == Windows{0, 0, 0, 0});
  const json full = std::vector<std::string>(4, "full_attention");
  CHECK(windows({{"use_sliding_window", true}, {"sliding_window", 7}, {"layer_types", full}}) ==
        Windows{0, 0, 0, 0});
}

TEST_CASE("config: a sliding window that cannot be is refused") {
  json types = std::vector<std::string>(28, "full_attention");
  CHECK(error_with("layer_types", types) == "no error");
  types[3] = "sliding_attention";
  CHECK(contains(error_with("layer_types", types),
                 "has \"sliding_attention\", wanted \"use_sliding_window\": true and a"));
  json config = qwen3_06b();
  config["layer_types"] = types;
  config["use_sliding_window"] = true;
  CHECK(
      contains(user_error_of([&] { parse(config); }), "wanted \"use_sliding_window\": true and a"));
  for (const json& window : {json(0), json(-1), json("7"), json(7.5), json(1'000'000'000'000)}) {
    CAPTURE(window.dump());
    config["sliding_window"] = window;
    CHECK(
        contains(user_error_of([&] { parse(config); }), "\"sliding_window\" is " + window.dump()));
  }
  types[3] = "chunked_attention";
  CHECK(contains(error_with("layer_types", types),
                 "\"layer_types\" has \"chunked_attention\", wanted \"full_attention\" or"));
  types.erase(3);
  CHECK(contains(error_with("layer_types", types), "one entry for each of 28 layers"));
  check_refused({{"use_sliding_window", 1, "\"use_sliding_window\" is 1, wanted true or false"},
                 {"layer_types", "full_attention", "\"layer_types\" is \"full_attention\""}});
}

TEST_CASE("config: a folder without config.json is refused") {
  const TempDir dir;
  CHECK(contains(user_error_of([&] { load_config(dir.path()); }),
                 "config.json: no such file; wanted a Qwen3"));
  const std::filesystem::path none = dir.path() / "none";
  CHECK(user_error_of([&] { load_config(none); }).starts_with("--model " + none.string()));
  ::setenv("KV_MODEL", none.c_str(), 1);
  CHECK(user_error_of([&] { load_config(none); }).starts_with("KV_MODEL=" + none.string()));
  ::unsetenv("KV_MODEL");
}

TEST_CASE("config: a key that occurs twice in the text of the file is refused") {
  const std::string twice = R"({"model_type": "qwen3", "model_type": "qwen3"})";
  CHECK(contains(user_error_of([&] { parse_config(twice, "config.json"); }), "occurs twice"));
}
