// The memory that K and V of a model take, from configs of Hugging Face's folders.
#include "qwen3/kv_layout.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/files/support.h"
#include "tests/support/shell.h"

using namespace kv;
using namespace kv::testing;
using nlohmann::json;

namespace {

KvLayout parse(const json& config) { return parse_kv_layout(config.dump(), "config.json"); }

json llama3_8b() {
  return json::parse(R"({"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "num_hidden_layers": 32, "max_position_embeddings": 8192,
    "architectures": ["LlamaForCausalLM"]})");
}

json with(json config, const json& changes) {
  config.update(changes);
  return config;
}

json without(json config, const char* key) {
  config.erase(key);
  return config;
}

std::string error_of(const json& config) {
  return user_error_of([&] { parse(config); });
}

struct Shape {
  int layers, kv_heads, head_dim, windowed;
  int64_t window;
};

void check_shape(const json& config, const Shape& wanted) {
  CAPTURE(config.dump());
  const KvLayout layout = parse(config);
  CHECK(layout.num_layers() == wanted.layers);
  CHECK(layout.num_kv_heads == wanted.kv_heads);
  CHECK(layout.head_dim == wanted.head_dim);
  const KvGroup& last = layout.groups.back();
  CHECK((last.window > 0 ? last.num_layers : 0) == wanted.windowed);
  CHECK(last.window == wanted.window);
}

}  // namespace

TEST_CASE("kv_layout: GQA, MHA and MQA") {
  check_shape(llama3_8b(), {32, 8, 128, 0, 0});
  CHECK(parse(llama3_8b()).bytes_per_layer(2) * 32 == 128 << 10);  // as the paper has it
  check_shape(without(llama3_8b(), "num_key_value_heads"), {32, 32, 128, 0, 0});
  check_shape(with(llama3_8b(), {{"num_key_value_heads", nullptr}}), {32, 32, 128, 0, 0});
  check_shape({{"model_type", "gemma"},
               {"num_attention_heads", 8},
               {"num_key_value_heads", 1},
               {"num_hidden_layers", 18}},
              {18, 1, 256, 0, 0});
  check_shape(with(llama3_8b(), {{"model_type", "qwen3"}, {"hidden_size", 1024}}),
              {32, 8, 128, 0, 0});
}

TEST_CASE("kv_layout: windows, as each family says them") {
  check_shape(with(llama3_8b(), {{"model_type", "mistral"}, {"sliding_window", 4096}}),
              {32, 8, 128, 32, 4096});
  check_shape(with(llama3_8b(), {{"model_type", "mistral"}, {"sliding_window", nullptr}}),
              {32, 8, 128, 0, 0});
  const json qwen2 = with(llama3_8b(), {{"model_type", "qwen2"},
                                        {"sliding_window", 1000},
                                        {"max_window_layers", 28},
                                        {"use_sliding_window", true}});
  check_shape(qwen2, {32, 8, 128, 4, 1000});
  check_shape(with(qwen2, {{"use_sliding_window", false}}), {32, 8, 128, 0, 0});
  check_shape(with(qwen2, {{"max_window_layers", 40}}), {32, 8, 128, 0, 0});
  check_shape(with(llama3_8b(), {{"model_type", "gemma2"}, {"num_hidden_layers", 26}}),
              {26, 8, 256, 13, 4096});
  json types = json::array();
  for (int i = 0; i < 32; ++i) types.push_back(i % 4 == 3 ? "full_attention" : "sliding_attention");
  check_shape(with(llama3_8b(), {{"layer_types", types}, {"sliding_window", 128}}),
              {32, 8, 128, 24, 128});
  CHECK(contains(error_of(with(llama3_8b(), {{"layer_types", types}})),
                 "key \"sliding_window\" is missing"));
}

TEST_CASE("kv_layout: Gemma 3 says little, and inside text_config") {
  const json gemma = json::parse(R"({"model_type": "gemma3",
    "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34,
                    "sliding_window": 1024},
    "vision_config": {"num_hidden_layers": 27}})");
  check_shape(gemma, {34, 4, 256, 29, 1024});
  CHECK(parse(gemma).max_position_embeddings == 131072);
  json pattern = gemma;
  pattern["text_config"]["sliding_window_pattern"] = 2;
  check_shape(pattern, {34, 4, 256, 17, 1024});
  const KvLayout known = load_kv_layout("gemma-3-27b");
  CHECK(known.num_layers() == 62);
  CHECK(known.groups[1].num_layers == 52);
  CHECK(known.groups[1].window == 1024);
  CHECK(load_kv_layout("Qwen/qwen3-0.6b").name == "Qwen3-0.6B");
}

TEST_CASE("kv_layout: what a file leaves out is its family's default") {
  const auto check = [](const char* family, const Shape& wanted, int heads, int positions) {
    check_shape({{"model_type", family}}, wanted);
    CHECK(parse({{"model_type", family}}).num_heads == heads);
    CHECK(parse({{"model_type", family}}).max_position_embeddings == positions);
  };
  // As transformers' configuration classes have them.
  check("llama", {32, 32, 128, 0, 0}, 32, 2048);
  check("mistral", {32, 8, 128, 32, 4096}, 32, 131072);
  check("mixtral", {32, 8, 128, 0, 0}, 32, 131072);
  check("qwen2", {32, 32, 128, 0, 0}, 32, 32768);
  check("qwen2_moe", {24, 16, 128, 0, 0}, 16, 32768);
  check("qwen3", {32, 32, 128, 0, 0}, 32, 32768);
  check("qwen3_moe", {24, 4, 64, 0, 0}, 32, 32768);
  check("gemma", {28, 16, 256, 0, 0}, 16, 8192);
  check("gemma2", {26, 4, 256, 13, 4096}, 8, 8192);
  check("gemma3_text", {26, 4, 256, 22, 4096}, 8, 131072);
  check("cohere", {40, 64, 128, 0, 0}, 64, 8192);
  check("cohere2", {40, 64, 128, 30, 4096}, 64, 8192);
  check("phi3", {32, 32, 96, 0, 0}, 32, 4096);
  check("starcoder2", {30, 2, 128, 0, 0}, 24, 4096);
  check("olmo3", {32, 32, 128, 24, 4096}, 32, 2048);
  check("stablelm", {32, 32, 80, 0, 0}, 32, 4096);
  check("glm4", {40, 2, 128, 0, 0}, 32, 131072);
  check("gpt_neox", {44, 64, 96, 0, 0}, 64, 2048);
  check("gpt_oss", {36, 8, 64, 18, 128}, 64, 131072);
  // A text_config of a model that sees: Pixtral's way, and LLaVA's, which may not name its family.
  const json pixtral = json::parse(R"({"model_type": "llava",
    "text_config": {"model_type": "mistral", "hidden_size": 5120, "head_dim": 128,
                    "num_hidden_layers": 40, "num_key_value_heads": 8, "sliding_window": null}})");
  check_shape(pixtral, {40, 8, 128, 0, 0});
  CHECK(parse(pixtral).num_heads == 32);
  for (const char* outer : {"llava", "idefics3", "smolvlm", "voxtral", "granite_speech"}) {
    check_shape({{"model_type", outer}, {"text_config", {{"num_hidden_layers", 40}}}},
                {40, 32, 128, 0, 0});
  }
  CHECK(contains(error_of({{"model_type", "new"}, {"text_config", {{"num_hidden_layers", 40}}}}),
                 "key \"model_type\" is missing"));
  check_shape(with(llama3_8b(), {{"model_type", "mistral"}, {"num_key_value_heads", nullptr}}),
              {32, 32, 128, 32, 4096});
  check_shape(with(llama3_8b(), {{"num_hidden_layers", 32.0}}), {32, 8, 128, 0, 0});
}

TEST_CASE("kv_layout: what keeps something else is refused, and nothing is guessed") {
  const auto said = [](const json& changes, const char* what) {
    CAPTURE(changes.dump());
    const std::string error = error_of(with(llama3_8b(), changes));
    CAPTURE(error);
    CHECK(contains(error, what));
  };
  said({{"model_type", "deepseek_v3"}, {"kv_lora_rank", 512}}, "multi-head latent attention (MLA)");
  said({{"model_type", "jamba"}, {"mamba_d_state", 16}}, "a state of fixed size");
  said({{"ssm_" + std::string(100, 'x'), 16}}, "xxx...\" says that layers keep a state");
  said({{"model_type", "qwen3_next"}, {"linear_num_key_heads", 16}}, "a state of fixed size");
  said({{"layer_types", std::vector<std::string>(32, "linear_attention")}},
       "has \"linear_attention\", wanted \"full_attention\" or \"sliding_attention\"");
  said({{"layer_types", std::vector<std::string>(31, "full_attention")}},
       "one entry for each of 32 layers");
  said({{"is_encoder_decoder", true}}, "there is an encoder");
  said({{"num_kv_shared_layers", 10}}, "layers share K and V");
  said({{"model_type", "brand_new"}}, "\"brand_new\", whose K and V this program does not know");
  said({{"text_config", llama3_8b()}, {"is_encoder_decoder", true}}, "there is an encoder");
  said({{"num_key_value_heads", 5}}, "32 attention heads cannot share 5");
  said({{"num_key_value_heads", 0}}, "is 0, wanted an integer from 1 to 1024");
  said({{"num_hidden_layers", "x"}}, "is \"x\", wanted an integer");
  said({{"num_hidden_layers", 1e6}}, "wanted an integer");
  said({{"hidden_size", 4100}}, "4100 numbers in hidden_size for 32 heads");
  said({{"model_type", 7}}, "is 7, wanted a string");
}

// Block by block: which of them hold a token that the next ones attend to.
TEST_CASE("kv_layout: blocks and waste are what counting every block gives") {
  for (const int64_t size : {1, 2, 5, 16}) {
    for (const int64_t window : {0, 1, 2, 7, 16, 40, 300}) {
      const KvGroup group{.num_layers = 1, .window = window};
      const bool whole = window == 0 || window == 300;  // every token is attended to
      int64_t most = 0;
      double slots = 0;
      const int64_t from = 100;
      for (int64_t len = from; len < from + size; ++len) {
        int64_t blocks = 0;
        for (int64_t begin = 0; begin < len; begin += size) {
          blocks += window == 0 || begin + size > len - window;
        }
        most = std::max(most, blocks);
        slots += static_cast<double>(blocks * size) / static_cast<double>(size);
        if (whole) CHECK(group.blocks_of(len, size) == blocks);
      }
      CAPTURE(size);
      CAPTURE(window);
      if (!whole) CHECK(group.blocks_of(from, size) == most);
      // The lengths are from .. from + size - 1 here: their mean is so much longer.
      const double longer = whole ? static_cast<double>(size - 1) / 2 : 0;
      const int64_t needed = window == 0 ? from : std::min(from, window);
      CHECK(group.slots_needed(from) == static_cast<double>(needed));
      CHECK(group.mean_slots(from, size) + longer == doctest::Approx(slots));
      CHECK(group.blocks_of(1, size) == 1);
    }
  }
}

TEST_CASE("plan: a table, the same as JSON, and one line for what is wrong") {
  const kvtest::Outcome table = kvtest::shell("$B/plan --model 'llama 3 70b' --memory 20GiB");
  CHECK(table.code == 0);
  CHECK(table.err.empty());
  CHECK(contains(table.out, "320 KiB a token"));
  const kvtest::Outcome out =
      kvtest::shell("$B/plan --model $S/models/tiny --memory 1.5GiB --context 100 --json -");
  REQUIRE(out.code == 0);
  const json plan = json::parse(out.out);
  CHECK(plan["bytes_per_token"] == 1536);  // 6 layers, K and V, 2 heads of 32, 2 bytes
  CHECK(plan["memory"] == 1610612736);
  const json& row = plan["block_sizes"][2];
  CHECK(row["block_size"] == 16);
  CHECK(row["bytes_per_block"][0] == 24576);
  CHECK(row["blocks"] == 65536);
  CHECK(row["blocks_per_sequence"][0] == 7);
  CHECK(row["sequences"] == 9362);
  const kvtest::Outcome fp8 = kvtest::shell(
      "$B/plan --model $S/models/tiny/config.json --memory '2 MB' --kv-dtype fp8 --json -");
  REQUIRE(fp8.code == 0);
  CHECK(json::parse(fp8.out)["bytes_per_token"] == 768);
  CHECK(json::parse(fp8.out)["memory"] == 2'000'000);
  CHECK(json::parse(fp8.out)["context"] == 2048);  // as config.json says
  const auto refused = [](const std::string& options, const std::string& what) {
    kvtest::check_refused(kvtest::shell("$B/plan " + options), what);
  };
  refused("--model $S/models/tiny --memory 0", "--memory 0: wanted a size such as 24GiB");
  refused("--model $S/models/tiny --memory -1GiB", "wanted a size");
  refused("--model $S/models/tiny --memory 24gigs", "wanted a size");
  refused("--model $S/models/tiny --memory nan", "wanted a size");
  refused("--model $S/models/tiny --memory 1GiB --context 0", "'0' is not allowed");
  refused("--model $S/models/tiny --memory 1GiB --kv-dtype int4", "wanted bf16 or fp8");
  refused("--model $S/models --memory 1GiB", "models/config.json: no such file");
  refused("--model GPT-9 --memory 1GiB", "no folder, and no model that is known by name");
  refused("--memory 1GiB", "--model is required");
  const auto most = kvtest::shell("$B/plan --model $S/models/tiny --memory 1EiB");
  CHECK(contains(most.out, "\n1 EiB for K and V alone, sequences of 2,048 tokens\n"));
  refused("--model $S/models/tiny --memory 1025PiB", "1 B to 1 EiB in all");
  const auto nothing_fits = kvtest::shell("$B/plan --model 'Gemma 3 27B' --memory 24");
  CHECK(nothing_fits.code == 0);
  CHECK(nothing_fits.out.find("No sequence of 131,072 tokens fits") != std::string::npos);
  CHECK(nothing_fits.out.find("If every layer") == std::string::npos);
  kvtest::check_refused(kvtest::shell("cp $S/models/tiny/config.json $T && "
                                      "$B/plan --model $T --memory 1GiB --json $T/config.json"),
                        "would replace");
}
