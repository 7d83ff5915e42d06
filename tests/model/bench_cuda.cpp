// Cost of the forward pass on a GPU: a decode step, replayed as a CUDA graph, against the time
// that reading the weights takes at the speed of a copy in the same run; its products alone; and
// the rates of a prefill's products and attention against the tensor cores' peak. Beside each
// product cuBLAS, if it is here. With --by-rows only the products, of 1 to 8,192 rows.
//
//   build/default/bin/make_model --like qwen3-0.6b --out /tmp/qwen3-0.6b
//   build/default/bin/bench_cuda --model /tmp/qwen3-0.6b

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "common/table.h"
#include "programs/bench.h"
#include "programs/generate.h"
#include "programs/report.h"

#if KV_HAVE_CUDA
#include "kernels/argmax.h"
#include "lessons/02_flat_cache/decode_attention.h"
#include "lessons/04_paged_attention/paged_cache_attention.h"
#include "programs/measure_gpu.h"
#include "qwen3/model_internal.h"
#include "tests/model/products.h"
#endif

namespace {

struct Options {
  kv::GenerateOptions generate;
  int context = 128;
  int rows = 2048;
  double peak = 989;  // TFLOP/s
  bool by_rows = false;
};

struct ProductRate {
  std::string name;
  double seconds = 0;  // median
  double flops = 0;
  double cublas_seconds = 0;  // of the product alone, median; 0 without cuBLAS
};

constexpr std::array kProducts{"qkv", "o", "gate and up", "down", "head"};

/// Attention of one sequence, all of whose tokens are queries.
struct AttentionRate {
  int tokens = 0, heads = 0, kv_heads = 0, head_dim = 0;
  double seconds = 0, flops = 0;
};

/// The times of every product with `rows` input rows.
struct ProductRow {
  int rows = 0;
  std::array<double, kProducts.size()> seconds{}, cublas_seconds{};  // 0 means not measured
  double norm_seconds = 0;  // 0 if it is part of the products
};

struct Results {
  double bandwidth = 0;  // bytes per second of a copy, read and written
  double load_seconds = 0;
  double step_seconds = 0;  // decode, median
  ProductRate step_products{.name = "its products alone"};
  double step_bytes = 0;       // weights that a step reads
  double prefill_seconds = 0;  // whole model, median
  int64_t replays = 0;
  std::vector<ProductRate> prefill;  // one layer's products
  double norm_seconds = 0;           // of one of a layer's two norms
  std::vector<AttentionRate> attention;
  std::string cublas;  // its version; empty if it is not here
  std::vector<ProductRow> by_rows;
};

#if KV_HAVE_CUDA

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Median seconds of one call, which only queues work: calls are timed in groups, so that neither
/// the host's part nor the wait at the end counts.
double median_seconds(const kv::Stream& stream, const std::function<void()>& call, int groups = 15,
                      int calls = 20) {
  for (int i = 0; i < 3; ++i) call();
  std::vector<double> seconds;
  for (int group = 0; group < groups; ++group) {
    stream.synchronize();
    const double start = now();
    for (int i = 0; i < calls; ++i) call();
    stream.synchronize();
    seconds.push_back((now() - start) / calls);
  }
  return kv::median(seconds);
}

/// The model's passes over a paged cache.
void measure_model(const Options& options, Results& r) {
  const double start = now();
  kv::Model model = kv::load_model(options.generate);
  model.stream().synchronize();
  r.load_seconds = now() - start;
  r.step_bytes = static_cast<double>(model.weight_bytes());

  const int room = std::max(options.rows, options.context + 1);
  constexpr int kBlockSize = 16;
  const int num_blocks = lesson03::blocks_for(room, kBlockSize);
  lesson03::PagedKvCache cache(model.config(), model.stream(), num_blocks, kBlockSize);
  lesson03::BlockTable table(kBlockSize);
  const std::span<int32_t> block_ids = table.extend(room);
  std::iota(block_ids.begin(), block_ids.end(), 0);
  lesson04::PagedCacheAttention attention(model.config(), cache);
  kv::DeviceBuffer token(model.device(), sizeof(int32_t));
  std::vector<int32_t> tokens;
  for (int i = 0; i < room; ++i) tokens.push_back(i * 7919 % model.config().vocab_size);
  const auto pass = [&](int num_rows, int computed = 0) {
    kv::PassRows rows;
    rows.add(0, std::span(tokens).first(static_cast<size_t>(computed + num_rows)), computed);
    attention.set_tables({&table});
    model.launch(rows, attention);
    kv::argmax({model.device_logits(), 1, model.config().vocab_size, token.as<int32_t>()},
               model.stream());
  };
  r.prefill_seconds = kv::median_seconds(
      [&] {
        pass(options.rows);
        model.stream().synchronize();
      },
      9);
  pass(options.context);
  r.step_seconds = median_seconds(model.stream(), [&] { pass(1, options.context); });
  r.replays = model.graph_replays();
}

/// Of n tokens; half of the scores are visible. K and V stay the same, as arithmetic is the limit.
AttentionRate attention_of(int n, const kv::ModelConfig& config) {
  const kv::Stream stream(kv::Device::kCuda);
  const auto rows = [&](int heads) {
    const auto elements = static_cast<size_t>(n) * static_cast<size_t>(heads * config.head_dim);
    return kv::DeviceBuffer(kv::Device::kCuda, elements * 2);
  };
  const auto q = rows(config.num_heads), out = rows(config.num_heads);
  const auto k = rows(config.num_kv_heads), v = rows(config.num_kv_heads);
  uint32_t seed = 1;
  for (const kv::DeviceBuffer* buffer : {&q, &k, &v}) kv::fill_random(*buffer, seed++, stream);
  const auto first_row = kv::to_device<int32_t>(std::vector<int32_t>{0, n}, stream);
  const auto seq_len = kv::to_device<int32_t>(std::vector<int32_t>{n}, stream);
  const auto slab_begin = kv::to_device<int64_t>(std::vector<int64_t>{0}, stream);
  const lesson02::DecodeAttentionArgs args{.q = q.data(),
                                           .k_cache = k.data(),
                                           .v_cache = v.data(),
                                           .out = out.data(),
                                           .first_row = first_row.as<int32_t>(),
                                           .seq_len = seq_len.as<int32_t>(),
                                           .slab_begin = slab_begin.as<int64_t>(),
                                           .num_slots = n,
                                           .num_seqs = 1,
                                           .num_rows = n,
                                           .max_rows_per_seq = n,
                                           .max_seq_len = n,
                                           .num_heads = config.num_heads,
                                           .num_kv_heads = config.num_kv_heads,
                                           .head_dim = config.head_dim};
  const double pairs = 0.5 * n * (n + 1.0) * config.num_heads;
  const auto attend = [&] { lesson02::fast_decode_attention(args, stream); };
  return {.tokens = n,
          .heads = config.num_heads,
          .kv_heads = config.num_kv_heads,
          .head_dim = config.head_dim,
          .seconds = median_seconds(stream, attend, 9, 10),
          .flops = 4 * pairs * config.head_dim};
}

void measure_products(const Options& options, const kv::ModelConfig& config, Results& r) {
  const kv::Stream stream(kv::Device::kCuda);
  Products products(config, options.rows, 1, stream);
  const Cublas cublas(stream);
  if (cublas.found()) r.cublas = cublas.name();
  const auto ours = [&](size_t i, int rows) { products.run(i, rows); };
  const auto theirs = [&](size_t i, int rows) { products.run(i, rows, cublas); };

  kv::PassGraphs graphs;
  const auto step_seconds = [&](uint64_t key, const auto& run) {
    return median_seconds(stream, [&] {
      graphs.run(key, stream, [&] {
        for (size_t i = 0; i < products.size(); ++i) run(i, 1);
      });
    });
  };
  for (size_t i = 0; i < products.size(); ++i) r.step_products.flops += products.flops(i, 1);
  r.step_products.seconds = step_seconds(1, ours);
  if (cublas.found()) r.step_products.cublas_seconds = step_seconds(2, theirs);

  for (size_t kind = 0; kind < 4; ++kind) {
    const auto seconds = [&](const auto& run) {
      const double all_layers = median_seconds(stream, [&] {
        for (size_t i = kind; i + 1 < products.size(); i += 4) run(i, options.rows);
      });
      return all_layers / config.num_layers;
    };
    r.prefill.push_back({fmt::format("  {}", kProducts[kind]), seconds(ours),
                         products.flops(kind, options.rows), cublas.found() ? seconds(theirs) : 0});
  }
  r.norm_seconds = median_seconds(stream, [&] { products.norm(options.rows); });
  r.attention.push_back(attention_of(options.rows, config));
  if (options.rows != 8192) r.attention.push_back(attention_of(8192, config));
}

/// Each product from a graph: those of a kind, every layer's own weights, one after the other.
void measure_by_rows(const kv::ModelConfig& config, Results& r) {
  constexpr int kMaxRows = 8192, kMaxHeadRows = 512;
  const kv::Stream stream(kv::Device::kCuda);
  const Products products(config, kMaxRows, kMaxHeadRows, stream);
  const Cublas cublas(stream);
  if (cublas.found()) r.cublas = cublas.name();
  kv::PassGraphs graphs;
  uint64_t key = 0;
  const size_t head = products.size() - 1;
  const auto seconds = [&](size_t kind, const auto& run) {
    const size_t begin = kind == 4 ? head : kind, end = kind == 4 ? head + 1 : head;
    ++key;
    const double all = median_seconds(
        stream,
        [&] {
          graphs.run(key, stream, [&] {
            for (size_t i = begin; i < end; i += 4) run(i);
          });
        },
        7, 3);
    return kind == 4 ? all : all / config.num_layers;
  };
  for (const int rows : {1, 8, 16, 32, 64, 128, 256, 512, 2048, kMaxRows}) {
    if (kv::interrupted()) break;
    ProductRow& row = r.by_rows.emplace_back(ProductRow{.rows = rows});
    for (size_t kind = 0; kind < kProducts.size(); ++kind) {
      if (kind == 4 && rows > kMaxHeadRows) continue;  // no pass wants more rows of logits
      row.seconds[kind] = seconds(kind, [&](size_t i) { products.run(i, rows); });
      if (!cublas.found()) continue;
      row.cublas_seconds[kind] = seconds(kind, [&](size_t i) { products.run(i, rows, cublas); });
    }
    if (rows > 8) row.norm_seconds = seconds(0, [&](size_t) { products.norm(rows); });
  }
}

Results measure(const Options& options, const kv::Console& console) {
  Results r;
  kv::resolve_device("cuda");
  console.print("{}\n", kv::describe(kv::Device::kCuda));
  r.bandwidth = kv::copy_bandwidth();
  if (options.by_rows) {
    measure_by_rows(kv::load_config(options.generate.model_dir), r);
    return r;
  }
  measure_model(options, r);
  measure_products(options, kv::load_config(options.generate.model_dir), r);
  return r;
}

#else

Results measure(const Options&, const kv::Console&) {
  kv::resolve_device("cuda");  // says why there is none
  return {};
}

#endif

std::string microseconds(double seconds) { return fmt::format("{:.0f} us", seconds * 1e6); }

nlohmann::json json_of(const ProductRate& p) {
  return {{"name", p.name},
          {"seconds", p.seconds},
          {"tflops", p.flops / p.seconds / 1e12},
          {"cublas_seconds", p.cublas_seconds}};
}

/// Microseconds of each product; beside cuBLAS's, and how many times as long ours takes.
void report_by_rows(const Options& options, const Results& r, const kv::Console& console) {
  std::vector<std::string> header{"rows"};
  header.insert(header.end(), kProducts.begin(), kProducts.end());
  header.emplace_back("a norm");
  kv::Table table(header);
  nlohmann::json rows = nlohmann::json::array();
  for (const ProductRow& row : r.by_rows) {
    std::vector<std::string> cells{kv::with_commas(row.rows)};
    nlohmann::json json{{"rows", row.rows}};
    for (size_t i = 0; i < kProducts.size(); ++i) {
      const double ours = row.seconds[i], theirs = row.cublas_seconds[i];
      json[kProducts[i]] = {{"seconds", ours}, {"cublas_seconds", theirs}};
      cells.push_back(ours == 0     ? "-"
                      : theirs == 0 ? fmt::format("{:.1f}", ours * 1e6)
                                    : fmt::format("{:.1f} / {:.1f} = {:.2f}", ours * 1e6,
                                                  theirs * 1e6, ours / theirs));
    }
    cells.push_back(row.norm_seconds == 0 ? "-" : fmt::format("{:.1f}", row.norm_seconds * 1e6));
    json["norm"] = row.norm_seconds;
    table.add(cells);
    rows.push_back(json);
  }
  console.print("microseconds{}\n\n{}", r.cublas.empty() ? "" : " / those of " + r.cublas,
                table.to_string());
  kv::write_json(options.generate.json_file, {{"by_rows", rows}, {"cublas", r.cublas}});
}

void report(const Options& options, const Results& r, const kv::Console& console) {
  if (options.by_rows) return report_by_rows(options, r, console);
  const double floor = r.step_bytes / r.bandwidth;
  std::vector<std::string> header{"what", "measured", "share"};
  if (!r.cublas.empty()) header.insert(header.end(), {r.cublas, "ours / cuBLAS"});
  kv::Table table(header);
  const auto add = [&](std::vector<std::string> row) {
    row.resize(header.size());
    table.add(row);
  };
  const auto add_product = [&](const ProductRate& p, double floor_seconds, const auto& text) {
    add({p.name, text(p.seconds), kv::percent(floor_seconds, p.seconds), text(p.cublas_seconds),
         kv::percent(p.cublas_seconds, p.seconds)});
  };
  add({"load", fmt::format("{:.2f} s", r.load_seconds)});
  add({"copy on the GPU", fmt::format("{:.0f} GB/s", r.bandwidth / 1e9)});
  add({"floor: the weights at that speed", microseconds(floor)});
  add({fmt::format("decode step after {} tokens", options.context), microseconds(r.step_seconds),
       kv::percent(floor, r.step_seconds)});
  add_product(r.step_products, floor, microseconds);
  add({fmt::format("prefill of {}", options.rows),
       fmt::format("{:.2f} ms", r.prefill_seconds * 1e3)});
  const auto add_rate = [&](const ProductRate& p) {
    add_product(p, p.flops / (options.peak * 1e12), [&](double seconds) {
      return fmt::format("{:.0f} TFLOP/s", p.flops / seconds / 1e12);
    });
  };
  ProductRate all{.name = "  all products of a layer"};
  nlohmann::json products = nlohmann::json::array(), attention = nlohmann::json::array();
  for (const ProductRate& p : r.prefill) {
    all.seconds += p.seconds;
    all.flops += p.flops;
    all.cublas_seconds += p.cublas_seconds;
    add_rate(p);
    products.push_back(json_of(p));
  }
  add_rate(all);
  add({"  a norm", microseconds(r.norm_seconds)});
  for (const AttentionRate& a : r.attention) {
    const double tflops = a.flops / a.seconds / 1e12;
    add({fmt::format("  attention, {} tokens", kv::with_commas(a.tokens)),
         fmt::format("{:.0f} TFLOP/s", tflops), kv::percent(tflops, options.peak)});
    attention.push_back({{"tokens", a.tokens},
                         {"heads", a.heads},
                         {"kv_heads", a.kv_heads},
                         {"head_dim", a.head_dim},
                         {"seconds", a.seconds},
                         {"tflops", tflops}});
  }
  console.print("\n{}", table.to_string());
  console.print("{} passes were replayed from a graph\n", r.replays);
  if (r.cublas.empty()) {
    console.print(
        "cuBLAS is not here: with libcublas.so.13 or .12 on LD_LIBRARY_PATH, its rates "
        "stand beside these.\n");
  }

  kv::write_json(options.generate.json_file, {{"context", options.context},
                                              {"rows", options.rows},
                                              {"bandwidth_gb_per_second", r.bandwidth / 1e9},
                                              {"peak_tflops", options.peak},
                                              {"load_seconds", r.load_seconds},
                                              {"floor_seconds", floor},
                                              {"decode_step_seconds", r.step_seconds},
                                              {"decode_share", floor / r.step_seconds},
                                              {"step_products", json_of(r.step_products)},
                                              {"graph_replays", r.replays},
                                              {"prefill_seconds", r.prefill_seconds},
                                              {"prefill_products", products},
                                              {"norm_seconds", r.norm_seconds},
                                              {"prefill_attention", attention},
                                              {"layer_products", json_of(all)},
                                              {"cublas", r.cublas}});
}

}  // namespace

int main(int argc, char** argv) {
  kv::CommandLine command(
      "Measures the forward pass on a GPU. The shape of the model decides, not its weights: "
      "make_model --like qwen3-0.6b --out DIR makes one.");
  Options options;
  options.generate.device = "cuda";
  command.value("--model DIR", options.generate.model_dir, "a model folder").required();
  command.value("--context N", options.context, "tokens in the cache when decoding")
      .between(1, 1 << 20);
  command.value("--rows N", options.rows, "rows of the prefill").between(1, 1 << 20);
  command.value("--peak X", options.peak, "dense bf16 rate of the datasheet, TFLOP/s").over(0, 1e6);
  command.flag("--by-rows", options.by_rows, "only the products, of 1 to 8,192 rows");
  kv::add_json_option(command, options.generate);
  return kv::run_main(command, argc, argv, [&] {
    const kv::Console console(options.generate.json_file);
    report(options, measure(options, console), console);
  });
}
