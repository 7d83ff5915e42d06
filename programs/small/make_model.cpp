// A model folder with random weights, of any shape: for benchmarks and tests, where only the shape
// matters. The weights are made and written piece by piece, so memory stays small.
//
//   make_model --like qwen3-0.6b --out /tmp/qwen3          1.2 GB of bf16
//   make_model --like tiny --heads 4 --shards 2 --out /tmp/t
#include <functional>
#include <limits>
#include <optional>

#include "common/error.h"
#include "common/json.h"
#include "common/parallel.h"
#include "common/table.h"
#include "kernels/attention/contract.h"
#include "programs/generate.h"
#include "programs/report.h"
#include "qwen3/random_weights.h"
#include "qwen3/safetensors.h"

namespace {

using kv::Json;

struct Options {
  std::string like = "tiny";
  // A given option replaces the value of --like.
  std::optional<int> hidden, layers, heads, kv_heads, head_dim, intermediate, vocab, max_positions;
  bool tie = false, no_tie = false;
  std::string dtype = "bf16";
  uint64_t seed = 0;
  int shards = 1;
  std::filesystem::path out;
};

kv::ModelConfig shape_of(const Options& options) {
  kv::ModelConfig c;
  const bool tiny = options.like == "tiny";
  c.hidden_size = tiny ? 128 : 1024;
  c.num_layers = tiny ? 6 : 28;
  c.num_heads = tiny ? 8 : 16;
  c.num_kv_heads = tiny ? 2 : 8;
  c.head_dim = tiny ? 32 : 128;
  c.intermediate_size = tiny ? 384 : 3072;
  c.vocab_size = tiny ? 2048 : 151936;
  c.max_position_embeddings = tiny ? 2048 : 40960;
  c.rope_theta = 1e6;
  c.hidden_size = options.hidden.value_or(c.hidden_size);
  c.num_layers = options.layers.value_or(c.num_layers);
  c.num_heads = options.heads.value_or(c.num_heads);
  c.num_kv_heads = options.kv_heads.value_or(c.num_kv_heads);
  c.head_dim = options.head_dim.value_or(c.head_dim);
  c.intermediate_size = options.intermediate.value_or(c.intermediate_size);
  c.vocab_size = options.vocab.value_or(c.vocab_size);
  c.max_position_embeddings = options.max_positions.value_or(c.max_position_embeddings);
  c.tie_word_embeddings = !options.no_tie;
  return c;
}

Json config_json(const kv::ModelConfig& c, const std::string& dtype) {
  const char* torch = dtype == "bf16" ? "bfloat16" : dtype == "f16" ? "float16" : "float32";
  return {{"architectures", {"Qwen3ForCausalLM"}},
          {"attention_bias", false},
          {"head_dim", c.head_dim},
          {"hidden_act", "silu"},
          {"hidden_size", c.hidden_size},
          {"initializer_range", 0.02},
          {"intermediate_size", c.intermediate_size},
          {"max_position_embeddings", c.max_position_embeddings},
          {"model_type", "qwen3"},
          {"num_attention_heads", c.num_heads},
          {"num_hidden_layers", c.num_layers},
          {"num_key_value_heads", c.num_kv_heads},
          {"rms_norm_eps", 1e-6},
          {"rope_scaling", nullptr},
          {"rope_theta", c.rope_theta},
          {"tie_word_embeddings", c.tie_word_embeddings},
          {"torch_dtype", torch},
          {"use_sliding_window", false},
          {"vocab_size", c.vocab_size}};
}

// Hugging Face's names; a norm's weights are a vector.
std::vector<kv::TensorSpec> tensors_of(const kv::ModelConfig& c, const std::string& dtype) {
  std::vector<kv::TensorSpec> list;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    list.push_back({name + ".weight", dtype, std::move(shape)});
  };
  add("model.embed_tokens", {c.vocab_size, c.hidden_size});
  for (int layer = 0; layer < c.num_layers; ++layer) {
    const std::string at = fmt::format("model.layers.{}.", layer);
    add(at + "input_layernorm", {c.hidden_size});
    add(at + "self_attn.q_proj", {c.q_width(), c.hidden_size});
    add(at + "self_attn.k_proj", {c.kv_width(), c.hidden_size});
    add(at + "self_attn.v_proj", {c.kv_width(), c.hidden_size});
    add(at + "self_attn.q_norm", {c.head_dim});
    add(at + "self_attn.k_norm", {c.head_dim});
    add(at + "self_attn.o_proj", {c.hidden_size, c.q_width()});
    add(at + "post_attention_layernorm", {c.hidden_size});
    add(at + "mlp.gate_proj", {c.intermediate_size, c.hidden_size});
    add(at + "mlp.up_proj", {c.intermediate_size, c.hidden_size});
    add(at + "mlp.down_proj", {c.hidden_size, c.intermediate_size});
  }
  add("model.norm", {c.hidden_size});
  if (!c.tie_word_embeddings) add("lm_head", {c.vocab_size, c.hidden_size});
  return list;
}

template <typename T, typename Convert>
void fill(std::vector<std::byte>& bytes, int64_t first, int64_t count, bool norm, uint64_t seed,
          const Convert& convert) {
  bytes.resize(static_cast<size_t>(count) * sizeof(T));
  T* out = reinterpret_cast<T*>(bytes.data());
  kv::parallel_for(count, 1 << 14, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const uint64_t bits = kv::random_bits(seed, static_cast<uint64_t>(first + i));
      out[i] = convert(norm ? 1.0f : kv::random_weight(bits));
    }
  });
}

using Wrote = std::function<void(uint64_t bytes)>;  // bytes written since the last call

// `index`: the tensor's place in the model, so that its weights do not depend on the shards.
void write_tensor(kv::SafetensorsWriter& writer, const kv::TensorSpec& tensor, size_t index,
                  uint64_t seed, const Wrote& wrote) {
  constexpr int64_t kPiece = int64_t{1} << 23;  // elements
  int64_t count = 1;
  for (const int64_t extent : tensor.shape) count *= extent;
  const bool norm = tensor.shape.size() == 1;
  const uint64_t tensor_seed = kv::random_bits(seed, index);
  std::vector<std::byte> bytes;
  for (int64_t first = 0; first < count; first += kPiece) {
    const int64_t n = std::min(kPiece, count - first);
    if (tensor.dtype == "BF16") {
      fill<kv::BFloat16>(bytes, first, n, norm, tensor_seed, kv::to_bfloat16);
    } else if (tensor.dtype == "F16") {
      fill<kv::Half>(bytes, first, n, norm, tensor_seed, kv::to_half);
    } else {
      fill<float>(bytes, first, n, norm, tensor_seed, [](float x) { return x; });
    }
    writer.write(bytes.data(), bytes.size());
    wrote(bytes.size());
    if (kv::interrupted()) kv::user_error("interrupted; the model is incomplete");
  }
}

struct Shard {
  size_t first = 0;  // tensors [first, last)
  size_t last = 0;
};

// At most `count` shards of about equal size, in order; a tensor is never cut.
std::vector<Shard> split(const std::vector<uint64_t>& sizes, uint64_t all, int count) {
  std::vector<Shard> shards;
  uint64_t begin = 0;
  uint64_t current = UINT64_MAX;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto wanted =
        static_cast<uint64_t>(static_cast<double>(begin) / static_cast<double>(all) * count);
    if (wanted != current) shards.push_back({i, i});
    current = wanted;
    shards.back().last = i + 1;
    begin += sizes[i];
  }
  return shards;
}

void write_weights(const Options& options, const std::vector<kv::TensorSpec>& tensors) {
  std::vector<uint64_t> sizes;
  uint64_t all = 0;
  for (const auto& t : tensors) {
    sizes.push_back(kv::tensor_bytes(t.dtype, t.shape, t.name));
    all += sizes.back();
  }
  const std::vector<Shard> shards = split(sizes, all, options.shards);
  kv::ProgressLine progress("writing");
  uint64_t done = 0;
  const Wrote wrote = [&](uint64_t bytes) {
    progress.show(static_cast<int64_t>(done += bytes), static_cast<int64_t>(all));
  };
  Json map = Json::object();
  for (size_t s = 0; s < shards.size(); ++s) {
    const auto [first, last] = shards[s];
    const std::string file =
        options.shards == 1 ? "model.safetensors"
                            : fmt::format("model-{:05}-of-{:05}.safetensors", s + 1, shards.size());
    kv::SafetensorsWriter writer(options.out / file,
                                 {tensors.begin() + static_cast<std::ptrdiff_t>(first),
                                  tensors.begin() + static_cast<std::ptrdiff_t>(last)});
    for (size_t i = first; i < last; ++i) {
      write_tensor(writer, tensors[i], i, options.seed, wrote);
      map[tensors[i].name] = file;
    }
    writer.finish();
  }
  if (options.shards > 1) {
    kv::write_json((options.out / "model.safetensors.index.json").string(),
                   {{"metadata", {{"total_size", all}}}, {"weight_map", map}});
  }
}

// The course's tokenizer, if its ids fit the model.
bool copy_tokenizer(const Options& options, const kv::ModelConfig& config) {
  const std::filesystem::path source = kv::default_model_dir();
  std::error_code error;
  if (!std::filesystem::exists(source / "tokenizer.json", error) ||
      kv::Tokenizer::load(source).vocab_size() > config.vocab_size) {
    return false;
  }
  return std::filesystem::copy_file(source / "tokenizer.json", options.out / "tokenizer.json",
                                    error);
}

void run(const Options& options) {
  const kv::ModelConfig config = shape_of(options);
  const Json json = config_json(config, options.dtype);
  kv::parse_config(json.dump(), "the model asked for");  // refuses what the reader would refuse
  const std::string dtype = options.dtype == "bf16"  ? "BF16"
                            : options.dtype == "f16" ? "F16"
                                                     : "F32";

  std::error_code error;
  std::filesystem::create_directories(options.out, error);
  if (error || !std::filesystem::is_empty(options.out, error) || error) {
    kv::user_error("--out {}: {}, wanted a new or an empty folder", options.out.string(),
                   error ? error.message() : "there are files in it");
  }
  write_weights(options, tensors_of(config, dtype));
  kv::write_json((options.out / "config.json").string(), json);  // last: a folder with it is whole
  const bool text = copy_tokenizer(options, config);
  kv::Console("").print("{}: {}, hidden {}, vocabulary {}, {}{}\n", options.out.string(),
                        kv::count_of(config.num_layers, "layer"), config.hidden_size,
                        config.vocab_size, options.dtype,
                        text ? "" : "; no tokenizer.json, so it takes token ids only");
}

void add_options(kv::CommandLine& command, Options& options) {
  const auto size = [&](const char* name, std::optional<int>& value, const char* help, int most) {
    command.value(name, value, help).between(1, most);
  };
  command.value("--like NAME", options.like, "the shape to start from: tiny or qwen3-0.6b")
      .one_of({"tiny", "qwen3-0.6b"});
  size("--hidden N", options.hidden, "width of the residual stream", 1 << 20);
  size("--layers N", options.layers, "number of layers", 4096);
  size("--heads N", options.heads, "query heads", 4096);
  size("--kv-heads N", options.kv_heads, "key/value heads; a divisor of --heads", 4096);
  size("--head-dim N", options.head_dim, "width of a head; even", kv::attention::kMaxHeadDim);
  size("--intermediate N", options.intermediate, "width of the MLP", 1 << 20);
  size("--vocab N", options.vocab, "number of tokens", 1 << 24);
  size("--max-positions N", options.max_positions, "longest sequence, as config.json says it",
       1 << 28);
  command.flag("--tie", options.tie, "the output head is the embedding");
  command.flag("--no-tie", options.no_tie, "the output head has weights of its own")
      .excludes("--tie");
  command.value("--dtype NAME", options.dtype, "of the weights: bf16, f16 or f32")
      .one_of({"bf16", "f16", "f32"});
  command.value("--seed N", options.seed, "same seed, same weights")
      .between(0, std::numeric_limits<int64_t>::max());
  command.value("--shards N", options.shards, "at most this many files; more than 1 get an index")
      .between(1, 1000);
  command.value("--out DIR", options.out, "the folder to make").required();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  kv::CommandLine command(
      "Writes a Qwen3 model folder with random weights (normal, std 0.02; norms 1): config.json,\n"
      "model.safetensors or shards with an index, and the course's tokenizer if the vocabulary "
      "holds it.");
  add_options(command, options);
  return kv::run_main(command, argc, argv, [&] { run(options); });
}
