// The program of lesson 02: generates text with a flat cache, and shows what the cache costs.

#include <fmt/format.h>

#include <string>
#include <vector>

#include "cli/reservation_arena.h"
#include "engine.h"
#include "programs/lab.h"
#include "qwen3/known_models.h"

namespace {

struct Options {
  kv::GenerateOptions generate;
  int max_seq_len = 1024;
  bool waste = false;
  bool fragmentation = false;
};

/// Prints how much of its slab of max_seq_len slots each sequence of these lengths uses.
void print_slabs(const kv::Console& console, const kv::ModelConfig& config, int64_t element_bytes,
                 int64_t max_seq_len, std::span<const int64_t> lengths) {
  constexpr int kBarWidth = 32;
  const int64_t slab_bytes = lesson02::kv_cache_bytes(config, 1, max_seq_len, element_bytes);
  int64_t used = 0;
  kv::Table table({"sequence", "slots", "used", "KV reserved", "used", "wasted", "wasted"});
  const auto add = [&](const std::string& name, int64_t slots, int64_t tokens) {
    const int64_t per_slot = slab_bytes / max_seq_len;
    table.add({name, kv::with_commas(slots), kv::with_commas(tokens),
               kv::human_bytes(slots * per_slot), kv::human_bytes(tokens * per_slot),
               kv::human_bytes((slots - tokens) * per_slot),
               kv::percent(static_cast<double>(slots - tokens), static_cast<double>(slots))});
  };
  for (size_t i = 0; i < lengths.size(); ++i) {
    add(std::to_string(i), max_seq_len, lengths[i]);
    used += lengths[i];
  }
  const auto batch = static_cast<int64_t>(lengths.size());
  if (batch > 1) add("all", batch * max_seq_len, used);
  console.print("{}\n", table.to_string());
  for (size_t i = 0; i < lengths.size(); ++i) {
    const int full = static_cast<int>(kBarWidth * lengths[i] / max_seq_len);
    std::string slab;
    for (int x = 0; x < kBarWidth; ++x) slab += x < full ? "█" : "░";
    console.print("  {}  {}\n", i, slab);
  }
}

/// The size formula with its numbers filled in, and the result.
std::string formula(const kv::ModelConfig& c, int64_t batch, int64_t max_seq_len,
                    int64_t element_bytes) {
  const int64_t bytes = lesson02::kv_cache_bytes(c, batch, max_seq_len, element_bytes);
  return fmt::format("2 x {} x {} x {} x {} x {} x {} = {} B = {}", batch, max_seq_len,
                     c.num_layers, c.num_kv_heads, c.head_dim, element_bytes,
                     kv::with_commas(bytes), kv::human_bytes(bytes));
}

constexpr const char* kFormula = "2 x batch x seq x layers x KV heads x head_dim x bytes";

void print_waste(const kv::Console& console) {
  const kv::ModelConfig& qwen = kv::known_model("Qwen3-0.6B").config;
  const kv::ModelConfig& llama = kv::known_model("Llama 2 7B").config;
  constexpr int64_t kTwoBytes = 2;
  console.print("KV of one token, 16-bit elements ({})\n\n", kFormula);
  kv::Table table({"model", "layers", "KV heads", "head_dim", "KV per token", "of 1,024 tokens"});
  for (const kv::KnownModel& model : kv::known_models()) {
    const kv::ModelConfig& c = model.config;
    table.add({model.name + (model.windowed_layers > 0 ? " *" : ""), std::to_string(c.num_layers),
               std::to_string(c.num_kv_heads), std::to_string(c.head_dim),
               kv::human_bytes(c.kv_bytes_per_token(kTwoBytes)),
               kv::human_bytes(lesson02::kv_cache_bytes(c, 1, 1024, kTwoBytes))});
  }
  console.write(table.to_string());
  for (const kv::KnownModel& model : kv::known_models()) {
    if (model.windowed_layers == 0) continue;
    console.print("* {} of its {} layers attend to a window only: the formula overstates it.\n",
                  model.windowed_layers, model.config.num_layers);
  }
  console.print("\nFour sequences, 1,024 slots each, Qwen3-0.6B\n\n");
  print_slabs(console, qwen, kTwoBytes, 1024, std::vector<int64_t>{1024, 512, 200, 512});
  console.print("\nA short answer in a long slab, Qwen3-0.6B\n\n");
  print_slabs(console, qwen, kTwoBytes, 2048, std::vector<int64_t>{80});
  console.print("\nA prompt of 4,096 tokens, Llama 2 7B\n\n");
  console.print("one sequence                      {}\n", formula(llama, 1, 4096, kTwoBytes));
  console.print("four that share it, four copies   {}\n", formula(llama, 4, 4096, kTwoBytes));
}

/// A line of `width` columns that shows which slots are taken: a letter for each reservation, '.'
/// for holes.
std::string picture(const lesson02::ReservationArena& arena,
                    std::span<const std::pair<char, lesson02::SlotRange>> named, int64_t width) {
  std::string line(width, '.');
  for (const auto& [name, range] : named) {
    const size_t begin = range.begin * width / arena.capacity();
    const size_t size = range.size * width / arena.capacity();
    line.replace(begin, size, size, name);
  }
  return line;
}

/// Reservations of the exact size: no slot is wasted inside them, but the holes are scattered.
void print_fragmentation(const kv::Console& console) {
  lesson02::ReservationArena arena(4096);
  std::vector<std::pair<char, lesson02::SlotRange>> live;
  const bool narrow = kv::output_columns() < 132;
  const auto show = [&](const std::string& what) {
    const std::string free = kv::with_commas(arena.total_free());
    const std::string hole = kv::with_commas(arena.largest_hole());
    if (narrow) {
      console.write(fmt::format("{:<22} {} {:>5} free, hole {:>5}\n", what,
                                picture(arena, live, 32), free, hole));
    } else {
      console.write(fmt::format("{:<34} {}  {:>5} free, largest hole {:>5}\n", what,
                                picture(arena, live, 64), free, hole));
    }
  };
  console.print("4,096 token slots; each request reserves what it will need, first fit\n\n");
  show("empty");
  constexpr int64_t kSizes[] = {1024, 640, 1024, 512, 896};
  for (size_t i = 0; i < std::size(kSizes); ++i) {
    const char name = static_cast<char>('A' + i);
    live.emplace_back(name, arena.reserve(kSizes[i]).value());
    show(fmt::format("{} reserves {}", name, kv::with_commas(kSizes[i])));
  }
  for (const char name : {'B', 'D'}) {
    const auto found = std::find_if(live.begin(), live.end(),
                                    [&](const auto& entry) { return entry.first == name; });
    arena.release(found->second);
    live.erase(found);
    show(fmt::format("{} is finished", name));
  }
  constexpr int64_t kWanted = 1024;
  const auto refused = arena.reserve(kWanted);
  show(fmt::format("F wants {}: {}", kv::with_commas(kWanted), refused ? "served" : "refused"));
  console.print("\n{} slots are free, F needs {}, and no hole has more than {}.\n",
                kv::with_commas(arena.total_free()), kv::with_commas(kWanted),
                kv::with_commas(arena.largest_hole()));
}

void print_cost(const kv::Console& console, const lesson02::FlatCacheEngine& engine,
                const kv::Model& model, std::span<const kv::Request> requests,
                const kv::GenerateResult& result) {
  console.print("The prompts once, then one token of each sequence\n{}\n",
                kv::passes_chart(result.passes, 16));
  console.write(kv::counters_text(result.counters, kv::num_generated_tokens(result)));
  console.print("rows without a cache      {}\n",
                kv::with_commas(kv::rows_without_cache(requests, result)));
  const lesson02::FlatKvCache* cache = engine.cache();
  if (!cache) return;

  const auto element_bytes =
      static_cast<int64_t>(kv::size_of(kv::activation_dtype(model.device())));
  console.print("\nKV = {}\n", kFormula);
  console.print("by the formula  {}\n",
                formula(model.config(), cache->batch(), cache->max_seq_len(), element_bytes));
  console.print("allocated       {} B\n\n", kv::with_commas(cache->bytes_reserved()));
  std::vector<int64_t> lengths;
  for (int slab = 0; slab < cache->batch(); ++slab) lengths.push_back(cache->position(slab));
  print_slabs(console, model.config(), element_bytes, cache->max_seq_len(), lengths);
}

void run(kv::Lab& lab, const Options& options) {
  if (options.waste) print_waste(lab.console);
  if (options.fragmentation) print_fragmentation(lab.console);
  if (options.waste || options.fragmentation) return;

  const auto requests = lab.requests();
  lab.title("Lesson 02, a flat cache");
  const kv::EngineOptions slabs{.max_seq_len = options.max_seq_len};
  kv::warm_up(*lesson02::make_engine(lab.model(), slabs), requests);
  lesson02::FlatCacheEngine engine(lab.model(), slabs);
  const kv::GenerateResult result = lab.generate(engine, requests);
  lab.report["max_seq_len"] = options.max_seq_len;
  print_cost(lab.console, engine, lab.model(), requests, result);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.generate.prompts = {"Once upon a time"};
  kv::CommandLine command(
      "Lesson 02: generates text with a flat KV cache, and shows what the cache costs.");
  kv::add_generate_options(command, options.generate);
  command.value("--max-seq-len N", options.max_seq_len, "token slots reserved for each sequence")
      .between(1, 1 << 24);
  command
      .flag("--waste", options.waste,
            "print what slabs waste, computed for known models, and nothing else")
      .excludes("--json");
  command
      .flag("--fragmentation", options.fragmentation,
            "print how reservations of unequal size leave useless holes, and nothing else")
      .excludes("--json");
  return kv::run_lesson("02", command, options.generate, argc, argv,
                        [&](kv::Lab& lab) { run(lab, options); });
}
