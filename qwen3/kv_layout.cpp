#include "qwen3/kv_layout.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "common/error.h"
#include "common/json.h"
#include "common/utf8.h"

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

/// Defaults of a family in transformers' configuration class, for keys that the file leaves out. 0
/// means that the file must have the key.
struct Family {
  const char* model_type;
  Windows windows = Windows::kNone;
  int head_dim = 0;         // 0 means hidden_size / num_attention_heads
  bool kv_is_heads = true;  // num_key_value_heads defaults to the number of attention heads
  int pattern = 0;
  int window = 0;
  int num_heads = 0, num_kv_heads = 0;  // Gemma 3's folders leave them out
  int max_positions = 0;
};

constexpr Family kFamilies[] = {
    {"llama"},
    {"mistral", Windows::kAll, 0, false},
    {"mixtral", Windows::kAll, 0, false},
    {"qwen2", Windows::kUpper, 0, false},
    {"qwen2_moe", Windows::kUpper, 0, false},
    {"qwen3", Windows::kUpper, 128, false},
    {"qwen3_moe", Windows::kUpper, 0, false},
    {"gemma", Windows::kNone, 256, false},
    {"gemma2", Windows::kBetween, 256, false, 2, 4096},
    {"gemma3_text", Windows::kBetween, 256, false, 6, 4096, 8, 4, 131072},
    {"cohere"},
    {"cohere2", Windows::kBetween, 0, true, 4, 4096},
    {"phi3", Windows::kAll},
    {"starcoder2", Windows::kAll, 0, false},
    {"olmo"},
    {"olmo2"},
    {"olmo3", Windows::kBetween, 0, true, 4, 4096},
    {"granite"},
    {"granitemoe"},
    {"stablelm", Windows::kNone, 0, false},
    {"glm", Windows::kNone, 128, false},
    {"glm4", Windows::kNone, 128, false},
    {"gpt_neox"},
    {"gpt_oss", Windows::kBetween, 64, false, 2, 128},
};

const Family* family_of(const std::string& model_type) {
  const auto* const found = std::ranges::find_if(
      kFamilies, [&](const Family& family) { return family.model_type == model_type; });
  return found == std::end(kFamilies) ? nullptr : found;
}

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

const Family& family_or_refuse(const JsonObject& config) {
  const std::string& type = config.string("model_type");
  if (const Family* const family = family_of(type)) return *family;
  std::string known;
  for (const Family& family : kFamilies) {
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

/// New files: an entry for each layer.
int count_windowed_types(const JsonObject& config, int num_layers) {
  const std::vector<Json>& types = config.array("layer_types");
  if (types.size() != static_cast<size_t>(num_layers)) {
    user_error("{}: \"layer_types\" has {} entries, wanted {}, one for each layer", config.where(),
               types.size(), num_layers);
  }
  int windowed = 0;
  for (const Json& type : types) {
    if (type != "full_attention" && type != "sliding_attention") {
      user_error(
          "{}: \"layer_types\" has {}, wanted \"full_attention\" or \"sliding_attention\": only "
          "such layers keep K and V as this program counts them",
          config.where(), describe(type));
    }
    windowed += type == "sliding_attention";
  }
  return windowed;
}

/// Older files: the rule is the family's.
int count_windowed(const JsonObject& config, const Family& family, int num_layers) {
  if (config.find("layer_types") != nullptr) return count_windowed_types(config, num_layers);
  switch (family.windows) {
    case Windows::kNone:
      return 0;
    case Windows::kAll:
      return config.find("sliding_window") != nullptr ? num_layers : 0;
    case Windows::kUpper: {
      if (!config.boolean_or("use_sliding_window", false)) return 0;
      if (config.has("sliding_window") && config.find("sliding_window") == nullptr) return 0;
      const int64_t first = config.integer("max_window_layers", 0, kMaxExtent * kMaxExtent);
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

KvLayout layout_of(const JsonObject& config) {
  refuse_other_caches(config);
  const Family& family = family_or_refuse(config);
  KvLayout layout;
  layout.model_type = family.model_type;
  layout.num_heads = size_or(config, "num_attention_heads", family.num_heads, kMaxExtent);
  layout.num_kv_heads =
      size_or(config, "num_key_value_heads",
              family.kv_is_heads ? layout.num_heads : family.num_kv_heads, kMaxExtent);
  if (layout.num_heads % layout.num_kv_heads != 0) {
    user_error("{}: {} attention heads cannot share {} key/value heads evenly; wanted a divisor",
               config.where(), layout.num_heads, layout.num_kv_heads);
  }
  layout.head_dim = family.head_dim;
  if (family.head_dim == 0 && config.find("head_dim") == nullptr) {
    const int64_t hidden = config.integer("hidden_size", 1, kMaxWidth);
    if (hidden % layout.num_heads != 0 || hidden / layout.num_heads > kMaxExtent) {
      user_error("{}: {} numbers in hidden_size for {} heads, wanted \"head_dim\" or a multiple",
                 config.where(), hidden, layout.num_heads);
    }
    layout.head_dim = static_cast<int>(hidden / layout.num_heads);
  } else {
    layout.head_dim = size_or(config, "head_dim", family.head_dim, kMaxExtent);
  }
  if (config.find("max_position_embeddings") != nullptr || family.max_positions > 0) {
    layout.max_position_embeddings =
        size_or(config, "max_position_embeddings", family.max_positions, kMaxPositions);
  }
  const int layers = size_or(config, "num_hidden_layers", 0, kMaxExtent);
  const int windowed = count_windowed(config, family, layers);
  if (layers > windowed) layout.groups.push_back({.num_layers = layers - windowed});
  if (windowed > 0) {
    layout.groups.push_back({.num_layers = windowed, .window = window_of(config, family)});
  }
  return layout;
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
  return layout_of(config.object("text_config"));
}

KvLayout load_kv_layout(const std::string& model) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::exists(model, error)) {
    const fs::path given(model);
    const fs::path file = fs::is_directory(given, error) ? given / "config.json" : given;
    constexpr size_t kMaxBytes = size_t{16} << 20;
    KvLayout layout = parse_kv_layout(read_file(file, kMaxBytes), file.string());
    layout.name = fs::weakly_canonical(file).parent_path().filename().string();
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
