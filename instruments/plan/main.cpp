// The memory of a model's K and V: bytes of a token and of a block, and how many sequences fit.
//
//   plan --model "Gemma 3 27B" --memory 24GiB
//   plan --model ~/models/Qwen3-0.6B --memory 8GiB --context 4096 --kv-dtype fp8

#include <charconv>

#include "common/console.h"
#include "common/error.h"
#include "common/json.h"
#include "common/table.h"
#include "programs/options.h"
#include "programs/report.h"
#include "programs/run_main.h"
#include "qwen3/known_models.h"
#include "qwen3/kv_layout.h"

namespace {

using kv::Json;

constexpr int64_t kBlockSizes[] = {1, 8, 16, 32, 64, 128, 256};

struct Options {
  std::string model, memory, json_file;
  std::optional<int> context;
  std::string kv_dtype = "bf16";
};

struct Plan {
  kv::KvLayout layout;
  int64_t memory = 0;
  int64_t context = 0;
  int64_t element_bytes = 0;

  int64_t bytes_per_token(int num_layers) const {
    return num_layers * layout.bytes_per_layer(element_bytes);
  }
  int64_t per_sequence(int64_t block_size) const {
    return layout.bytes_per_sequence(context, block_size, element_bytes);
  }
  /// As if no layer had a window.
  int64_t per_sequence_in_full(int64_t block_size) const {
    const kv::KvGroup all{.num_layers = layout.num_layers()};
    return all.blocks_of(context, block_size) * block_size * bytes_per_token(all.num_layers);
  }
};

/// "24GiB", "1.5 TB", "1000000".
int64_t bytes_of(const std::string& text) {
  static const std::pair<const char*, double> kUnits[] = {
      {"", 1},         {"B", 1},        {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
      {"TiB", 0x1p40}, {"PiB", 0x1p50}, {"EiB", 0x1p60}, {"KB", 1e3},     {"MB", 1e6},
      {"GB", 1e9},     {"TB", 1e12},    {"PB", 1e15},    {"EB", 1e18}};
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  const char* unit = stop;
  while (unit < end && *unit == ' ') ++unit;
  for (const auto& [name, size] : kUnits) {
    if (error != std::errc() || std::string_view(unit, end) != name) continue;
    if (number * size >= 1 && number * size <= 0x1p60) {
      return static_cast<int64_t>(number * size);
    }
  }
  kv::user_error(
      "--memory {}: wanted a size such as 24GiB, 900MB or a number of bytes, 1 B to 1 "
      "EiB in all",
      text);
}

std::string name_of(const kv::KvGroup& group) { return group.window == 0 ? "full" : "windowed"; }

void print_head(const kv::Console& console, const Plan& plan, const std::string& dtype) {
  const kv::KvLayout& layout = plan.layout;
  console.print("{}{}: {}, {} of {} for {}\n", layout.name,
                layout.model_type.empty() ? "" : " (" + layout.model_type + ")",
                kv::count_of(layout.num_layers(), "layer"),
                kv::count_of(layout.num_kv_heads, "KV head"), layout.head_dim,
                kv::count_of(layout.num_heads, "attention head"));
  console.print("K and V in {}: {} a token\n", dtype,
                kv::human_bytes(plan.bytes_per_token(layout.num_layers())));
  for (const kv::KvGroup& group : layout.groups) {
    if (group.window == 0 && layout.groups.size() == 1) continue;
    console.print("  {} of it in {} that attend{} to {}\n",
                  kv::human_bytes(plan.bytes_per_token(group.num_layers)),
                  kv::count_of(group.num_layers, "layer"), group.num_layers == 1 ? "s" : "",
                  group.window == 0 ? "all tokens"
                                    : fmt::format("the last {}", kv::with_commas(group.window)));
  }
  console.print("{} for K and V alone, sequences of {}\n\n", kv::human_bytes(plan.memory),
                kv::count_of(plan.context, "token"));
}

void print_table(const kv::Console& console, const Plan& plan) {
  const bool one = plan.layout.groups.size() == 1;
  std::vector<std::string> header{"block size"};
  for (const kv::KvGroup& group : plan.layout.groups) {
    header.push_back(one ? "a block" : "a block, " + name_of(group));
  }
  if (one) header.push_back("blocks that fit");
  header.insert(header.end(), {"a sequence", "sequences", "wasted"});
  kv::Table table(header);
  for (const int64_t size : kBlockSizes) {
    std::vector<std::string> row{std::to_string(size)};
    for (const kv::KvGroup& group : plan.layout.groups) {
      row.push_back(kv::human_bytes(size * plan.bytes_per_token(group.num_layers)));
    }
    if (one) {
      row.push_back(
          kv::with_commas(plan.memory / (size * plan.bytes_per_token(plan.layout.num_layers()))));
    }
    row.push_back(kv::human_bytes(plan.per_sequence(size)));
    row.push_back(kv::with_commas(plan.memory / plan.per_sequence(size)));
    row.push_back(kv::percent(plan.layout.mean_waste(plan.context, size), 1));
    table.add(row);
  }
  console.write(table.to_string());
}

/// Prints a remark if windows help, or if nothing fits.
void print_remarks(const kv::Console& console, const Plan& plan) {
  constexpr int64_t kUsual = 16;
  const int64_t sequences = plan.memory / plan.per_sequence(kUsual);
  const int64_t in_full = plan.memory / plan.per_sequence_in_full(kUsual);
  if (in_full < sequences) {
    console.print("\nIf every layer kept all tokens, {} would fit in blocks of {}, not {}.\n",
                  kv::count_of(in_full, "sequence"), kUsual, kv::with_commas(sequences));
  }
  if (sequences == 0) {
    console.print("\nNo sequence of {} fits: {} are wanted for one, in blocks of {}.\n",
                  kv::count_of(plan.context, "token"), kv::human_bytes(plan.per_sequence(kUsual)),
                  kUsual);
  }
}

Json json_of(const Plan& plan, const std::string& dtype) {
  Json groups = Json::array(), rows = Json::array();
  for (const kv::KvGroup& group : plan.layout.groups) {
    groups.push_back({{"layers", group.num_layers},
                      {"window", group.window == 0 ? Json() : Json(group.window)},
                      {"bytes_per_token", plan.bytes_per_token(group.num_layers)}});
  }
  for (const int64_t size : kBlockSizes) {
    Json row{{"block_size", size},
             {"bytes_per_block", Json::array()},
             {"blocks_per_sequence", Json::array()},
             {"bytes_per_sequence", plan.per_sequence(size)},
             {"sequences", plan.memory / plan.per_sequence(size)},
             {"mean_waste", plan.layout.mean_waste(plan.context, size)}};
    for (const kv::KvGroup& group : plan.layout.groups) {
      row["bytes_per_block"].push_back(size * plan.bytes_per_token(group.num_layers));
      row["blocks_per_sequence"].push_back(group.blocks_of(plan.context, size));
    }
    if (groups.size() == 1) {
      row["blocks"] = plan.memory / row["bytes_per_block"][0].get<int64_t>();
    }
    rows.push_back(row);
  }
  const kv::KvLayout& layout = plan.layout;
  return {{"model", layout.name},
          {"model_type", layout.model_type.empty() ? Json() : Json(layout.model_type)},
          {"layers", layout.num_layers()},
          {"attention_heads", layout.num_heads},
          {"kv_heads", layout.num_kv_heads},
          {"head_dim", layout.head_dim},
          {"kv_dtype", dtype},
          {"bytes_per_token", plan.bytes_per_token(layout.num_layers())},
          {"memory", plan.memory},
          {"context", plan.context},
          {"groups", groups},
          {"block_sizes", rows}};
}

void run(const Options& options) {
  kv::refuse_same_file("--json", options.json_file, options.model);
  kv::refuse_same_file("--json", options.json_file, options.model + "/config.json");
  Plan plan{.layout = kv::load_kv_layout(options.model), .memory = bytes_of(options.memory)};
  plan.element_bytes = options.kv_dtype == "fp8" ? 1 : 2;
  plan.context = options.context.value_or(plan.layout.max_position_embeddings);
  if (plan.context == 0) {
    kv::user_error("{}: config.json has no max_position_embeddings; give --context N",
                   options.model);
  }
  const kv::Console console(options.json_file);
  print_head(console, plan, options.kv_dtype);
  print_table(console, plan);
  print_remarks(console, plan);
  kv::write_json(options.json_file, json_of(plan, options.kv_dtype));
}

}  // namespace

/// "Qwen3-0.6B", "Gemma 3 27B" and so on.
static std::string known_names() {
  std::string names;
  for (const kv::KnownModel& model : kv::known_models()) {
    names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", model.name);
  }
  return names;
}

int main(int argc, char** argv) {
  Options options;
  kv::CommandLine command(
      "What K and V of a model take: bytes of a token and of a block, blocks and sequences that "
      "fit, and what blocks of a size waste on average: the ends of the last one, and of a "
      "window's "
      "first. A windowed layer is counted with the blocks that its window may touch at once.");
  command
      .value(
          "--model DIR|NAME", options.model,
          "a folder with a config.json of Hugging Face's, such a file, or one of " + known_names())
      .required();
  command
      .value("--memory SIZE", options.memory,
             "for K and V alone, without the weights: 24GiB, 900MB, a number of bytes")
      .required();
  command
      .value("--context N", options.context,
             "tokens of a sequence; by default as many as the model was made for")
      .between(1, 1 << 28);
  command.value("--kv-dtype TYPE", options.kv_dtype, "of K and V in memory: bf16 or fp8")
      .one_of({"bf16", "fp8"});
  command.json_file(options.json_file, "the same");
  return kv::run_main(command, argc, argv, [&] { run(options); });
}
