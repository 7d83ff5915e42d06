// Cost of the CPU's forward pass: a decode step against the memory bandwidth that this very run
// measures, a prefill against a decode step, and resident memory against the weights.
//
//   build/default/bin/make_model --like qwen3-0.6b --out /tmp/qwen3-0.6b
//   build/default/bin/bench_cpu --model /tmp/qwen3-0.6b

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/parallel.h"
#include "common/table.h"
#include "kernels/matmul_cpu.h"
#include "lessons/02_flat_cache/engine.h"
#include "programs/bench.h"
#include "programs/generate.h"
#include "programs/report.h"
#include "qwen3/safetensors.h"

namespace {

struct Options {
  kv::GenerateOptions generate;
  int context = 128;
  int prefill = 512;
  int steps = 24;
};

struct Results {
  double load_seconds = 0;
  double bandwidth = 0;        // bytes per second, best of several reads
  double decode_seconds = 0;   // one token, median
  double decode_bytes = 0;     // weights that one token reads
  double prefill_seconds = 0;  // all its tokens, median
  double prefill_work = 0;     // multiply-adds that it needs
  double multiply_adds = 0;    // per second, best of several runs in registers
  int64_t peak_resident = 0;   // bytes, of the model's passes
  int64_t weight_file_bytes = 0;
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Peak resident memory of this process so far, in bytes.
int64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::stoll(line.substr(6)) * 1024;
  }
  return 0;
}

int64_t weight_files_bytes(const std::filesystem::path& dir) {
  int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (entry.path().extension() == ".safetensors") {
      bytes += static_cast<int64_t>(entry.file_size());
    }
  }
  return bytes;
}

/// Multiply-adds of a prefill of `tokens`: every weight of a layer with every token, the head with
/// the last, and each query with the keys and the values that it sees.
double prefill_work(const kv::ModelConfig& c, double tokens) {
  const double head_rows = 2.0 * c.num_heads + 2.0 * c.num_kv_heads;  // of q, k, v, and o's inputs
  const double layer = (head_rows * c.head_dim + 3.0 * c.intermediate_size) * c.hidden_size;
  const double pairs = tokens * (tokens + 1) / 2;
  return c.num_layers * (tokens * layer + 2.0 * pairs * c.num_heads * c.head_dim) +
         1.0 * c.vocab_size * c.hidden_size;
}

/// The plainest use of the memory: all threads read a buffer as large as the weights, once.
class StreamingRead {
 public:
  explicit StreamingRead(int64_t bytes)
      : words_(bytes / 8), data_(new uint64_t[static_cast<size_t>(bytes) / 8]) {
    kv::parallel_for(words_, kChunk, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) data_.get()[i] = static_cast<uint64_t>(i);
    });
  }
  double bytes_per_second() {
    const double start = now();
    const uint64_t total = kv::read_words({data_.get(), static_cast<size_t>(words_)});
    const double seconds = now() - start;
    const auto n = static_cast<uint64_t>(words_);
    if (total != n * (n - 1) / 2) throw std::logic_error("the streaming read lost words");
    return static_cast<double>(words_ * 8) / seconds;
  }

 private:
  static constexpr int64_t kChunk = 1 << 16;
  int64_t words_;
  std::unique_ptr<uint64_t[]> data_;
};

/// Runs passes of one sequence through a flat cache.
class Runner {
 public:
  Runner(kv::Model& model, int max_tokens)
      : model_(model),
        cache_(model.config(), model.device(), 1, max_tokens),
        attention_(model.config(), cache_) {}

  /// Seconds of a pass over the next `rows` tokens, with logits for the last.
  double pass(int rows) {
    const int computed = cache_.position(0);
    std::vector<int32_t> tokens;
    for (int i = 0; i < computed + rows; ++i)
      tokens.push_back(i * 7919 % model_.config().vocab_size);
    const double start = now();
    kv::PassRows pass;
    pass.add(0, tokens, computed);
    model_.forward(pass, attention_);
    attention_.end_pass(pass);
    return now() - start;
  }
  void restart() { cache_.clear(0); }

 private:
  kv::Model& model_;
  lesson02::FlatKvCache cache_;
  lesson02::FlatAttention attention_;
};

Results measure(const Options& options, const kv::Console& console) {
  Results r;
  const double start = now();
  kv::Model model = kv::load_model(options.generate);
  r.load_seconds = now() - start;
  r.weight_file_bytes = weight_files_bytes(options.generate.model_dir);
  const kv::ModelConfig& config = model.config();

  Runner runner(model, std::max(options.prefill, options.context + options.steps));
  console.print("{}\nprefill of {} tokens ...\n", kv::describe(model.device()), options.prefill);
  runner.pass(std::min(8, options.prefill));  // reads the file into memory
  std::vector<double> prefills;
  for (int i = 0; i < 3; ++i) {
    runner.restart();
    r.multiply_adds = std::max(r.multiply_adds, kv::multiply_adds_per_second());
    prefills.push_back(runner.pass(options.prefill));
  }
  r.prefill_seconds = kv::median(prefills);
  r.prefill_work = prefill_work(config, options.prefill);

  console.print("decode of {} tokens after {} ...\n", options.steps, options.context);
  runner.restart();
  runner.pass(options.context);
  std::vector<double> steps;
  for (int i = 0; i < options.steps; ++i) steps.push_back(runner.pass(1));
  r.decode_seconds = kv::median(steps);
  r.peak_resident = peak_resident_bytes();

  r.decode_bytes = static_cast<double>(model.weight_bytes());
  if (!config.tie_word_embeddings) {  // then the embedding is looked up, not read
    const kv::Weights files = kv::Weights::open(options.generate.model_dir);
    const kv::TensorView* table = files.find("model.embed_tokens.weight");
    if (table != nullptr) r.decode_bytes -= static_cast<double>(table->bytes);
  }
  console.print("streaming read of {} ...\n", kv::human_bytes(model.weight_bytes()));
  StreamingRead stream(model.weight_bytes());
  for (int i = 0; i < 5; ++i) r.bandwidth = std::max(r.bandwidth, stream.bytes_per_second());
  return r;
}

void report(const Options& options, const Results& r, const kv::Console& console) {
  const double rate = r.decode_bytes / r.decode_seconds;
  const double prefill_token = r.prefill_seconds / options.prefill;
  kv::Table table({"what", "measured", "wanted"});
  table.add({"load", fmt::format("{:.3f} s", r.load_seconds), ""});
  table.add({"streaming read, best of 5", fmt::format("{:.1f} GB/s", r.bandwidth / 1e9), ""});
  table.add({"decode, median", fmt::format("{:.1f} ms", r.decode_seconds * 1e3), ""});
  table.add({"decode, tokens per second", fmt::format("{:.1f}", 1 / r.decode_seconds), ""});
  table.add({"decode, weights read", fmt::format("{:.1f} GB/s", rate / 1e9), ""});
  table.add({"share of the streaming read", kv::percent(rate, r.bandwidth), ">= 70 %"});
  table.add({fmt::format("prefill of {}, median", options.prefill),
             fmt::format("{:.0f} ms", r.prefill_seconds * 1e3), ""});
  table.add({"multiply-adds in registers, best of 3",
             fmt::format("{:.0f} GFLOP/s", 2 * r.multiply_adds / 1e9), ""});
  table.add({"prefill, multiply-adds",
             fmt::format("{:.0f} GFLOP/s", 2 * r.prefill_work / r.prefill_seconds / 1e9), ""});
  table.add({"share of the multiply-adds in registers",
             kv::percent(r.prefill_work / r.prefill_seconds, r.multiply_adds), ">= 50 %"});
  table.add({"prefill, per token", fmt::format("{:.2f} ms", prefill_token * 1e3), ""});
  table.add({"prefill against decode, per token",
             fmt::format("{:.1f} x", r.decode_seconds / prefill_token), ">= 8 x"});
  table.add({"weight files", kv::human_bytes(r.weight_file_bytes), ""});
  table.add({"peak resident memory", kv::human_bytes(r.peak_resident), ""});
  table.add({"resident against files",
             fmt::format("{:.2f} x", static_cast<double>(r.peak_resident) /
                                         static_cast<double>(r.weight_file_bytes)),
             "< 1.3 x"});
  console.print("\n{}", table.to_string());

  kv::write_json(options.generate.json_file,
                 {{"cpu", kv::describe(kv::Device::kCpu)},
                  {"threads", kv::num_threads()},
                  {"context", options.context},
                  {"prefill_tokens", options.prefill},
                  {"load_seconds", r.load_seconds},
                  {"streaming_read_bytes_per_second", r.bandwidth},
                  {"decode_seconds_median", r.decode_seconds},
                  {"decode_bytes_per_second", rate},
                  {"decode_share", rate / r.bandwidth},
                  {"prefill_seconds", r.prefill_seconds},
                  {"multiply_adds_per_second", r.multiply_adds},
                  {"prefill_share", r.prefill_work / r.prefill_seconds / r.multiply_adds},
                  {"prefill_speedup_per_token", r.decode_seconds / prefill_token},
                  {"weight_file_bytes", r.weight_file_bytes},
                  {"peak_resident_bytes", r.peak_resident}});
}

}  // namespace

int main(int argc, char** argv) {
  kv::CommandLine command(
      "Measures the CPU's forward pass. For numbers that mean something the weights should not fit "
      "in a cache: make_model --like qwen3-0.6b --out DIR makes such a model.");
  Options options;
  options.generate.device = "cpu";
  command.value("--model DIR", options.generate.model_dir, "a model folder").required();
  command.value("--context N", options.context, "tokens in the cache when decoding starts")
      .between(1, 1 << 20);
  command.value("--prefill N", options.prefill, "tokens of the prefill").between(1, 1 << 20);
  command.value("--steps N", options.steps, "decode steps").between(1, 1 << 20);
  kv::add_json_option(command, options.generate);
  return kv::run_main(command, argc, argv, [&] {
    const kv::Console console(options.generate.json_file);
    report(options, measure(options, console), console);
  });
}
