#include "qwen3/kv_layout.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "common/error.h"
#include "common/json.h"
#include "common/utf8.h"
#include "qwen3/config.h"

namespace kv {
namespace {

// Far above any model, and low enough that bytes of a sequence fit in 64 bits.
constexpr int64_t kMaxExtent = 1024;  // layers, heads, head_dim
constexpr int64_t kMaxWidth = int64_t{1} << 20;
constexpr int64_t kMaxPositions = int64_t{1} << 28;

/// Which layers attend to a window, where "layer_types" does not say it.
enum class Windows {
  kNone,
  kAll,      // all, if "sliding_window" is set
  kUpper,    // from "max_window_layers" on, if "use_sliding_window" is true
  kBetween,  // all but each "sliding_window_pattern"-th
};

/// Defaults of a family in transformers' configuration class, for keys that the file leaves out:
/// a file says only what differs from them. 0 means that the class has none.
struct Family {
  const char* model_type;
  int hidden, layers, heads;
  int kv_heads;  // 0 means the number of attention heads
  int max_positions;
  int head_dim = 0;  // 0 means hidden_size / num_attention_heads
  Windows windows = Windows::kNone;
  int window = 0;
  int pattern = 0;
};

constexpr Family kFamilies[] = {
    {"llama", 4096, 32, 32, 0, 2048},
    {"mistral", 4096, 32, 32, 8, 131072, 0, Windows::kAll, 4096},
    {"mixtral", 4096, 32, 32, 8, 131072, 0, Windows::kAll},
    {"qwen2", 4096, 32, 32, 32, 32768, 0, Windows::kUpper, 4096},
    {"qwen2_moe", 2048, 24, 16, 16, 32768, 0, Windows::kUpper, 4096},
    {"qwen3", 4096, 32, 32, 32, 32768, 128, Windows::kUpper, 4096},
    {"qwen3_moe", 2048, 24, 32, 4, 32768, 0, Windows::kUpper, 4096},
    {"gemma", 3072, 28, 16, 16, 8192, 256},
    {"gemma2", 2304, 26, 8, 4, 8192, 256, Windows::kBetween, 4096, 2},
    {"gemma3_text", 2304, 26, 8, 4, 131072, 256, Windows::kBetween, 4096, 6},
    {"cohere", 8192, 40, 64, 0, 8192},
    {"cohere2", 8192, 40, 64, 0, 8192, 0, Windows::kBetween, 4096, 4},
    {"phi3", 3072, 32, 32, 0, 4096, 0, Windows::kAll},
    {"starcoder2", 3072, 30, 24, 2, 4096, 0, Windows::kAll},
    {"olmo", 4096, 32, 32, 0, 2048},
    {"olmo2", 4096, 32, 32, 0, 2048},
    {"olmo3", 4096, 32, 32, 0, 2048, 0, Windows::kBetween, 4096, 4},
    {"granite", 4096, 32, 32, 0, 2048},
    {"granitemoe", 4096, 32, 32, 0, 2048},
    {"stablelm", 2560, 32, 32, 32, 4096},
    {"glm", 4096, 40, 32, 2, 131072, 128},
    {"glm4", 4096, 40, 32, 2, 131072, 128},
    {"gpt_neox", 6144, 44, 64, 0, 2048},
    {"gpt_oss", 2880, 36, 64, 8, 131072, 64, Windows::kBetween, 128, 2},
};
constexpr int kMaxWindowLayers = 28;  // of the families of Windows::kUpper

// Throws UserError for a config whose keys show that the model keeps something other than a row of
// K and V for each token and layer.
void refuse_other_caches(const JsonObject& config) {
  const std::string& where = config.where();
  const auto refuse = [&](const std::string& key, const char* what) {
    user_error("{}: {} says {}; wanted layers that keep K and V of each token", where, quote(key),
               what);
  };
  if (config.find("kv_lora_rank") != nullptr) {
    refuse("kv_lora_rank", "multi-head latent attention (MLA), which keeps a latent, no K and V");
  }
  if (config.boolean_or("is_encoder_decoder", false)) {
    refuse("is_encoder_decoder", "that there is an encoder, whose K and V are kept as well");
  }
  if (const Json* shared = config.find("num_kv_shared_layers"); shared != nullptr && *shared != 0) {
    refuse("num_kv_shared_layers", "that layers share K and V");
  }
  for (const auto& [key, value] : config.value().items()) {
    if (value.is_null()) continue;
    for (const char* start : {"mamba_", "ssm_", "linear_num_", "linear_key_", "rwkv_"}) {
      if (key.starts_with(start)) {
        refuse(key, "that layers keep a state of fixed size (Mamba, linear attention)");
      }
    }
  }
}

/// `missing`: the family if the file does not say it; empty means that it must.
const Family& family_or_refuse(const JsonObject& config, const std::string& missing) {
  const bool says = missing.empty() || config.find("model_type") != nullptr;
  const std::string& type = says ? config.string("model_type") : missing;
  std::string known;
  for (const Family& family : kFamilies) {
    if (family.model_type == type) return family;
    known += (known.empty() ? "" : ", ") + std::string(family.model_type);
  }
  user_error("{}: \"model_type\" is {}, whose K and V this program does not know; wanted one of {}",
             config.where(), describe(config.at("model_type")), known);
}

int size_or(const JsonObject& config, const char* key, int missing, int64_t high) {
  if (config.find(key) == nullptr && missing > 0) return missing;
  return static_cast<int>(config.integer(key, 1, high));
}

int64_t window_of(const JsonObject& config, const Family& family) {
  return size_or(config, "sliding_window", family.window, kMaxPositions);
}

/// Newer files have an entry for each layer, in older ones the rule is the family's.
int count_windowed(const JsonObject& config, const Family& family, int num_layers) {
  if (config.find("layer_types") != nullptr) {
    return static_cast<int>(std::ranges::count(read_layer_types(config, num_layers), true));
  }
  switch (family.windows) {
    case Windows::kNone:
      return 0;
    case Windows::kAll: {
      const bool by_default = !config.has("sliding_window") && family.window > 0;
      return by_default || config.find("sliding_window") != nullptr ? num_layers : 0;
    }
    case Windows::kUpper: {
      if (!config.boolean_or("use_sliding_window", false)) return 0;
      if (config.has("sliding_window") && config.find("sliding_window") == nullptr) return 0;
      const int64_t first = config.find("max_window_layers") == nullptr
                                ? kMaxWindowLayers
                                : config.integer("max_window_layers", 0, kMaxExtent * kMaxExtent);
      return static_cast<int>(num_layers - std::min<int64_t>(first, num_layers));
    }
    case Windows::kBetween: {
      if (config.has("sliding_window") && config.find("sliding_window") == nullptr) return 0;
      const char* const key = config.find("_sliding_window_pattern") != nullptr
                                  ? "_sliding_window_pattern"
                                  : "sliding_window_pattern";
      const int pattern = size_or(config, key, family.pattern, kMaxExtent);
      return num_layers - num_layers / pattern;
    }
  }
  return 0;
}

KvLayout layout_of(const JsonObject& config, const std::string& family_if_missing = {}) {
  refuse_other_caches(config);
  const Family& family = family_or_refuse(config, family_if_missing);
  KvLayout layout;
  layout.model_type = family.model_type;
  layout.num_heads = size_or(config, "num_attention_heads", family.heads, kMaxExtent);
  // A null is what the classes make the number of attention heads of.
  const bool as_heads = family.kv_heads == 0 || config.has("num_key_value_heads");
  layout.num_kv_heads = size_or(config, "num_key_value_heads",
                                as_heads ? layout.num_heads : family.kv_heads, kMaxExtent);
  check_heads(config, layout.num_heads, layout.num_kv_heads);
  layout.head_dim = family.head_dim;
  if (family.head_dim == 0 && config.find("head_dim") == nullptr) {
    const int64_t hidden = size_or(config, "hidden_size", family.hidden, kMaxWidth);
    if (hidden % layout.num_heads != 0 || hidden / layout.num_heads > kMaxExtent) {
      user_error("{}: {} numbers in hidden_size for {} heads, wanted \"head_dim\" or a multiple",
                 config.where(), hidden, layout.num_heads);
    }
    layout.head_dim = static_cast<int>(hidden / layout.num_heads);
  } else {
    layout.head_dim = size_or(config, "head_dim", family.head_dim, kMaxExtent);
  }
  layout.max_position_embeddings =
      size_or(config, "max_position_embeddings", family.max_positions, kMaxPositions);
  const int layers = size_or(config, "num_hidden_layers", family.layers, kMaxExtent);
  const int windowed = count_windowed(config, family, layers);
  if (layers > windowed) layout.groups.push_back({.num_layers = layers - windowed});
  if (windowed > 0) {
    layout.groups.push_back({.num_layers = windowed, .window = window_of(config, family)});
  }
  return layout;
}

/// The family of the language model in a model that also sees, where its "text_config" does not say
/// it; empty if the outer model's class has none.
std::string language_model_of(const JsonObject& config) {
  static constexpr std::pair<const char*, std::string_view> kOuterOf[] = {
      {"llama",
       " llava llava_next llava_next_video vipllava video_llava idefics3 smolvlm voxtral "},
      {"qwen2", " llava_onevision internvl got_ocr2 "},
      {"mistral", " mistral3 idefics2 "},
      {"gemma", " paligemma "},
      {"gemma3_text", " gemma3 "},
      {"cohere2", " aya_vision cohere2_vision "},
      {"granite", " granite_speech "}};
  const std::string type = config.string_or("model_type", "");
  for (const auto& [inner, outer] : kOuterOf) {
    if (outer.find(" " + type + " ") != outer.npos) return inner;
  }
  return {};
}

/// "Gemma 3 27B", "gemma-3-27b" and "google/gemma-3-27b" are one name.
std::string plain(const std::string& name) {
  std::string text;
  for (const char c : name.substr(name.rfind('/') + 1)) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '.') text.push_back(static_cast<char>(std::tolower(byte)));
  }
  return text;
}

KvLayout layout_of(const KnownModel& model) {
  KvLayout layout{.name = model.name,
                  .model_type = {},
                  .num_heads = model.config.num_heads,
                  .num_kv_heads = model.config.num_kv_heads,
                  .head_dim = model.config.head_dim,
                  .max_position_embeddings = model.config.max_position_embeddings,
                  .groups = {}};
  layout.groups.push_back({.num_layers = model.config.num_layers - model.windowed_layers});
  if (model.windowed_layers > 0) {
    layout.groups.push_back({.num_layers = model.windowed_layers, .window = model.window});
  }
  return layout;
}

}  // namespace

int64_t KvGroup::blocks_of(int64_t seq_len, int64_t block_size) const {
  const int64_t all = (seq_len + block_size - 1) / block_size;
  if (window == 0) return all;
  return std::min(all, (window - 1 + block_size - 1) / block_size + 1);
}

double KvGroup::mean_slots(int64_t seq_len, int64_t block_size) const {
  const auto size = static_cast<double>(block_size);
  // Open at one end, or, once the window has moved on, at both.
  if (window == 0 || seq_len <= window) return static_cast<double>(seq_len) + (size - 1) / 2;
  return static_cast<double>(window) + size - 1;
}

double KvGroup::slots_needed(int64_t seq_len) const {
  return static_cast<double>(window == 0 ? seq_len : std::min(seq_len, window));
}

int KvLayout::num_layers() const {
  return std::accumulate(groups.begin(), groups.end(), 0,
                         [](int sum, const KvGroup& group) { return sum + group.num_layers; });
}

int64_t KvLayout::bytes_per_sequence(int64_t seq_len, int64_t block_size,
                                     int64_t element_bytes) const {
  int64_t slots = 0;
  for (const KvGroup& group : groups) {
    slots += group.num_layers * group.blocks_of(seq_len, block_size) * block_size;
  }
  return slots * bytes_per_layer(element_bytes);
}

double KvLayout::mean_waste(int64_t seq_len, int64_t block_size) const {
  double held = 0, needed = 0;
  for (const KvGroup& group : groups) {
    held += group.num_layers * group.mean_slots(seq_len, block_size);
    needed += group.num_layers * group.slots_needed(seq_len);
  }
  return 1 - needed / held;
}

KvLayout parse_kv_layout(std::string_view text, const std::string& name) {
  const Json json = parse_json(text, name);
  const JsonObject config(json, name);
  // A model that also sees or hears keeps what its language model is like in "text_config".
  if (config.find("text_config") == nullptr) return layout_of(config);
  refuse_other_caches(config);
  return layout_of(config.object("text_config"), language_model_of(config));
}

KvLayout load_kv_layout(const std::string& model) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::exists(model, error)) {
    const fs::path given(model);
    const fs::path file = fs::is_directory(given, error) ? given / "config.json" : given;
    constexpr size_t kMaxBytes = size_t{16} << 20;
    KvLayout layout = parse_kv_layout(read_file(file, kMaxBytes), file.string());
    layout.name = printable(fs::weakly_canonical(file).parent_path().filename().string());
    return layout;
  }
  std::string names;
  for (const KnownModel& known : known_models()) {
    if (plain(known.name) == plain(model)) return layout_of(known);
    names += (names.empty() ? "\"" : ", \"") + known.name + '"';
  }
  user_error(
      "--model {}: no folder, and no model that is known by name; wanted one of {}, or a folder "
      "with the config.json of any other",
      model, names);
}

}  // namespace kv
