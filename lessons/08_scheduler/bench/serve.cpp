#include "serve.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "engine.h"
#include "programs/measure_gpu.h"

namespace bench {
namespace {

using lesson08::Chunk;
using lesson08::Scheduler;

/// `count` requests that share no prefix, with prompts and answers of 100 to 1,024 tokens, or of 16
/// to 128 if `small`.
std::vector<kv::Request> busy_requests(int count, int vocab_size, bool small, uint64_t seed) {
  std::mt19937_64 rng(seed);
  const int longest = small ? 128 : 1024;
  const int shortest = small ? 16 : 100;
  const auto length = [&] {
    return shortest + static_cast<int>(rng() % static_cast<uint64_t>(longest - shortest + 1));
  };
  std::vector<kv::Request> requests(count);
  for (kv::Request& request : requests) {
    request.prompt.resize(length());
    for (int32_t& token : request.prompt) {
      token = static_cast<int32_t>(rng() % static_cast<uint64_t>(vocab_size));
    }
    request.max_tokens = length();
  }
  return requests;
}

struct Served {
  double tokens_per_second = 0;
  double decode_share = 0;  // shortest reading time / time of passes of decodes
  double host_share = 0;    // the host's time / time of these passes
  double decode_microseconds = 0, host_microseconds = 0;  // median
  int64_t decodes = 0, replays = 0;
};

lesson08::ServingEngine make_server(kv::Model& model, bool caching) {
  const bool cuda = model.device() == kv::Device::kCuda;
  return lesson08::ServingEngine(
      model, {},
      {.scheduler = {.max_tokens_per_pass = cuda ? 8192 : 512, .max_running = 256},
       .caching = caching,
       .choose_on_device = true,
       .pad_decodes_to = cuda ? 8 : 1});
}

/// Serves the requests once with an empty cache. A server that has run before has captured its
/// graphs.
Served serve_once(kv::Model& model, lesson08::ServingEngine& server,
                  const std::vector<kv::Request>& requests, double bandwidth) {
  const int64_t replays = model.graph_replays();
  server.reset_prefix_cache();
  std::vector<int64_t> bytes;  // that each pass must read
  std::vector<bool> is_decode;
  std::vector<double> host_seconds;  // of each pass
  const auto note_host = [&] { host_seconds.push_back(server.server()->chooser().host_seconds()); };
  const int64_t token_bytes = model.config().kv_bytes_per_token(
      static_cast<int64_t>(size_of(kv::activation_dtype(model.device()))));
  const auto on_pass = [&](const Scheduler& scheduler, const lesson08::SchedulerOutput& output) {
    if (!bytes.empty()) note_host();  // of the pass before
    int64_t tokens = 0;
    bool decode = true;
    for (const Chunk& chunk : output.chunks) {
      tokens += scheduler.request(chunk.id).num_computed + chunk.num_tokens;
      decode = decode && chunk.num_tokens == 1;
    }
    bytes.push_back(model.weight_bytes() + tokens * token_bytes);
    is_decode.push_back(decode);
    return !kv::interrupted();
  };
  const auto result = server.serve(requests, {}, {}, on_pass);
  note_host();
  Served served;
  const auto& passes = result.generated.passes;
  double at_least = 0, seconds = 0, host = 0;
  std::vector<double> all, hosts;
  for (size_t i = 0; i < passes.size(); ++i) {
    if (!is_decode[i]) continue;
    ++served.decodes;
    if (bandwidth > 0) at_least += static_cast<double>(bytes[i]) / bandwidth;
    seconds += passes[i].seconds;
    host += host_seconds[i];
    all.push_back(passes[i].seconds);
    hosts.push_back(host_seconds[i]);
  }
  served.tokens_per_second = static_cast<double>(kv::num_generated_tokens(result.generated)) /
                             result.generated.counters.seconds;
  served.decode_share = at_least / seconds;
  served.host_share = host / seconds;
  served.decode_microseconds = 1e6 * kv::median(all);
  served.host_microseconds = 1e6 * kv::median(hosts);
  served.replays = model.graph_replays() - replays;
  return served;
}

/// Serves the requests once to warm up and three times more. Returns the passes of the last time,
/// with the median rate of the three.
Served serve_busily(kv::Model& model, lesson08::ServingEngine& server,
                    const std::vector<kv::Request>& requests, double bandwidth) {
  Served served = serve_once(model, server, requests, bandwidth);
  std::vector<double> rates;
  for (int round = 0; round < 3 && !kv::interrupted(); ++round) {
    served = serve_once(model, server, requests, bandwidth);
    rates.push_back(served.tokens_per_second);
  }
  if (!rates.empty()) served.tokens_per_second = kv::median(rates);
  return served;
}

/// Writes the requests as OpenAI's API has them, one on each line, so that a server can be measured
/// with the same ones.
void write_requests(const std::filesystem::path& folder, const std::string& name,
                    const std::vector<kv::Request>& requests) {
  if (folder.empty()) return;
  std::string lines;
  for (const kv::Request& request : requests) {
    const nlohmann::json line = {{"prompt", request.prompt},
                                 {"max_tokens", request.max_tokens},
                                 {"temperature", 0},
                                 {"ignore_eos", true}};
    lines += line.dump() + "\n";
  }
  std::filesystem::create_directories(folder);
  kv::write_text((folder / (name + ".jsonl")).string(), lines);
}

/// Median seconds from a request's arrival to its first token, on an idle server.
double first_token_seconds(lesson08::ServingEngine& server, const kv::Request& request) {
  std::vector<double> seconds;
  for (int round = 0; round < 9; ++round) {
    server.reset_prefix_cache();
    const auto start = std::chrono::steady_clock::now();
    server.serve({&request, 1}, {});
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return kv::median(seconds);
}

/// Lower bound of first_token_seconds(): for each product the longer of reading its weights and
/// multiplying.
double first_token_floor(const kv::ModelConfig& config, int num_tokens, double bandwidth) {
  constexpr double kPeak = 989e12;  // dense bf16 of the data sheet, operations a second
  const auto product = [&](double outputs, double inputs, double rows) {
    return std::max(2 * outputs * inputs / bandwidth, 2 * outputs * inputs * rows / kPeak);
  };
  const int hidden = config.hidden_size, wide = config.intermediate_size;
  const double layer = product(config.qkv_width(), hidden, num_tokens) +
                       product(hidden, config.q_width(), num_tokens) +
                       product(2 * wide, hidden, num_tokens) + product(hidden, wide, num_tokens);
  return config.num_layers * layer + product(config.vocab_size, hidden, 1);
}

/// The cost of a cache that finds nothing: the ratio of the rates with and without caching,
/// measured in turn.
double caching_ratio(kv::Model& model, lesson08::ServingEngine& with,
                     const std::vector<kv::Request>& requests) {
  auto without = make_server(model, false);
  serve_once(model, without, requests, 0);  // warm
  std::vector<double> ratios;
  for (int round = 0; round < 3 && !kv::interrupted(); ++round) {
    const double alone = serve_once(model, without, requests, 0).tokens_per_second;
    ratios.push_back(serve_once(model, with, requests, 0).tokens_per_second / alone);
  }
  return kv::median(ratios);
}

}  // namespace

void measure_serving(kv::Lab& lab, const std::filesystem::path& folder) {
  const kv::Console& console = lab.console;
  kv::Model model = kv::load_model(lab.options);
  const bool cuda = model.device() == kv::Device::kCuda;
  double bandwidth = 0;
#if KV_HAVE_CUDA
  if (cuda) bandwidth = kv::copy_bandwidth();
#endif
  console.print("\nServing requests that come at once on {}\n\n", kv::describe(model.device()));
  auto server = make_server(model, true);
  const uint64_t seed = lab.options.sampling.seed;
  const auto requests = [&](int count) {
    return busy_requests(count, model.config().vocab_size, !cuda, seed);
  };
  kv::Records rows;
  const std::vector<int> counts = cuda ? std::vector{32, 64, 256} : std::vector{32};
  for (const int count : counts) {
    if (kv::interrupted()) break;
    write_requests(folder, fmt::format("requests_{}", count), requests(count));
    const Served s = serve_busily(model, server, requests(count), bandwidth);
    const kv::Shown floor = kv::percent_of_one(s.decode_share);
    rows.add({{"requests", count, "requests"},
              {"tokens/s", kv::decimal(s.tokens_per_second, 0), "tokens_per_second"},
              {"passes of decodes", s.decodes, "decode_passes"},
              {"from a graph", s.replays, "graph_replays"},
              {"us", kv::decimal(s.decode_microseconds, 0), "decode_microseconds"},
              {"host us", kv::decimal(s.host_microseconds, 0), "host_microseconds"},
              {"host", kv::percent_of_one(s.host_share), "host_share"},
              {"share of the floor",
               {bandwidth > 0 ? floor.text : "-", floor.value},
               "share_of_floor"}});
  }
  console.write(rows.table());
  const double ratio = caching_ratio(model, server, requests(counts.front()));
  console.print("\nprefix caching without a hit changes tokens/s of {} requests by {:+.1f} %\n",
                counts.front(), 100 * (ratio - 1));
  nlohmann::json& json = lab.report["serving"];
  json = {{"rows", rows.json()},
          {"caching_ratio", ratio},
          {"bandwidth", bandwidth},
          {"device", kv::describe(model.device())}};
  kv::Request prompt = requests(1)[0];
  prompt.prompt.resize(512, 1);
  prompt.max_tokens = 1;
  write_requests(folder, "first_token", {prompt});
  const double first = first_token_seconds(server, prompt);
  json["first_token_seconds"] = first;
  if (bandwidth == 0) {
    console.print("first token of a prompt of 512, nothing else to do: {:.2f} ms\n", 1e3 * first);
    return;
  }
  const double floor = first_token_floor(model.config(), 512, bandwidth);
  console.print(
      "floor: reading weights, K and V at {:.0f} GB/s\n"
      "first token of a prompt of 512, nothing else to do: {:.2f} ms; at least {:.2f} ms\n",
      bandwidth / 1e9, 1e3 * first, 1e3 * floor);
  json["first_token_floor_seconds"] = floor;
}

}  // namespace bench
