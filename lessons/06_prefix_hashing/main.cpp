// The program of lesson 06: requests that begin alike, with a prefix cache and without, and what
// happens to a cache that trusts its hash.

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/table.h"
#include "common/program/bench.h"
#include "common/program/report.h"
#include "compare_blocks.h"
#include "engine.h"
#include "lessons/02_flat_cache/engine.h"
#include "program/forgery.h"
#include "program/hashers.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  kv::GenerateOptions generate;
  std::string system =
      "Once upon a time there was a little village by a quiet river. In the village lived a clever "
      "crow, a happy dog named Max, and a small girl named Lily. Every morning Lily went to the "
      "river with Max, and the crow flew over them and looked for shiny things. They played by the "
      "water, they ran under the trees, and they shared their bread. In the evening they sat by "
      "the "
      "fire and told stories. One day something new happened.";
  std::string hash = "xxh64";
  int block_size = 16;
  int num_blocks = 512;
  bool attack = false;
  bool hashes = false;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// One request, and the time until its first token.
struct Timed {
  kv::GenerateResult result;
  double first_token = 0;
};

Timed timed(kv::Engine& engine, const kv::Request& request) {
  Timed timed;
  const auto start = Clock::now();
  timed.result = engine.generate({&request, 1}, [&](size_t, int32_t) {
    if (timed.first_token == 0) timed.first_token = seconds_since(start);
    return !kv::interrupted();
  });
  return timed;
}

std::vector<kv::Request> requests_of(const Options& options, const kv::Tokenizer& tokenizer,
                                     const kv::Model& model) {
  kv::GenerateOptions whole = options.generate;
  for (std::string& prompt : whole.prompts) prompt = options.system + prompt;
  return kv::make_requests(whole, tokenizer, model.config());
}

nlohmann::json serve(const kv::Console& console, kv::Model& model, const kv::Tokenizer& tokenizer,
                     const Options& options) {
  const std::vector<kv::Request> requests = requests_of(options, tokenizer, model);
  lesson06::PrefixEngine engine(
      model, {.block_size = options.block_size, .num_blocks = options.num_blocks},
      lesson06::hasher_of(options.hash));
  const auto without = lesson02::make_engine(model, {});
  timed(*without, requests[0]);  // a first pass sets things up; it is not counted

  console.print("Requests one after the other, all with the same {} tokens in front\n\n",
                tokenizer.encode(options.system).size());
  kv::Table table({"request", "prompt", "from the cache", "computed", "first token", "without",
                   "times faster", "same bits"});
  nlohmann::json rows = nlohmann::json::array();
  int64_t tokens_asked = 0, tokens_found = 0;
  for (size_t i = 0; i < requests.size() && !kv::interrupted(); ++i) {
    const Timed plain = timed(*without, requests[i]);
    const Timed cached = timed(engine, requests[i]);
    const int found = engine.num_cached_tokens()[0];
    const auto prompt = static_cast<int>(requests[i].prompt.size());
    tokens_asked += prompt;
    tokens_found += found;
    const bool same =
        plain.result.completions[0].logits_xxh64 == cached.result.completions[0].logits_xxh64;
    table.add({std::to_string(i + 1), std::to_string(prompt), std::to_string(found),
               std::to_string(prompt - found), fmt::format("{:.2f} ms", 1e3 * cached.first_token),
               fmt::format("{:.2f} ms", 1e3 * plain.first_token),
               fmt::format("{:.1f}", plain.first_token / cached.first_token), same ? "yes" : "NO"});
    rows.push_back({{"prompt_tokens", prompt},
                    {"cached_tokens", found},
                    {"first_token_seconds", cached.first_token},
                    {"first_token_seconds_without", plain.first_token},
                    {"same_bits", same}});
  }
  console.write(table.to_string());
  if (!engine.manager()) return rows;  // interrupted before the first one
  console.print("\nhit rate                  {} of {} prompt tokens, {}\n",
                kv::with_commas(tokens_found), kv::with_commas(tokens_asked),
                kv::percent(static_cast<double>(tokens_found), static_cast<double>(tokens_asked)));
  console.print("blocks with a name        {}, none of them in use\n",
                engine.manager()->pool().index().size());
  return rows;
}

/// The tokens before the forged block, two requests that differ in it alone.
struct Victims {
  kv::Request first, second;
};

Victims forge(const kv::Model& model, const kv::Tokenizer& tokenizer, const Options& options) {
  const auto pair = lesson06::forge_pair(model.config().vocab_size, options.block_size);
  if (!pair) {
    kv::user_error("no pair found for a vocabulary of {} in blocks of {}; try --block-size 32",
                   model.config().vocab_size, options.block_size);
  }
  Victims victims;
  victims.first.prompt = tokenizer.encode(options.system);
  victims.first.prompt.resize(victims.first.prompt.size() /
                              static_cast<size_t>(options.block_size) *
                              static_cast<size_t>(options.block_size));
  if (victims.first.prompt.empty()) kv::user_error("--system: wanted a block of text or more");
  victims.first.max_tokens = options.generate.max_tokens;
  victims.second = victims.first;
  const auto add = [&](kv::Request& request, const std::vector<int32_t>& block) {
    request.prompt.insert(request.prompt.end(), block.begin(), block.end());
    const std::vector<int32_t> end = tokenizer.encode(" Then");
    request.prompt.insert(request.prompt.end(), end.begin(), end.end());
  };
  add(victims.first, pair->first);
  add(victims.second, pair->second);
  return victims;
}

/// B, served after A.
struct Served {
  std::string cache;
  int num_found = 0;  // tokens of B that came from the cache
  uint64_t logits = 0;
  int64_t wrong_elements = 0;  // of K and V in the full blocks of B's prompt
  int64_t elements = 0;
};

/// Serves A and then B, and compares B's blocks with those of an engine that has seen B only.
Served serve_after(kv::Model& model, const Victims& victims, const Options& options,
                   lesson06::PrefixIndex::Check check) {
  const lesson03::PagedOptions pool{.block_size = options.block_size,
                                    .num_blocks = options.num_blocks};
  lesson06::PrefixEngine engine(model, pool, {}, check), alone(model, pool);
  engine.generate({&victims.first, 1});
  const auto result = engine.generate({&victims.second, 1});
  alone.generate({&victims.second, 1});
  const size_t num_full = victims.second.prompt.size() / static_cast<size_t>(options.block_size);
  std::vector<lesson06::BlockPair> pairs;
  for (size_t i = 0; i < num_full; ++i) {
    pairs.push_back({engine.blocks()[0][i], alone.blocks()[0][i]});
  }
  const bool exact = check == lesson06::PrefixIndex::Check::kExact;
  Served row{.cache = exact ? "tokens and parent must be equal" : "an equal hash is trusted",
             .num_found = engine.num_cached_tokens()[0],
             .logits = result.completions[0].logits_xxh64};
  for (const int64_t differing : lesson06::compare_blocks(
           {.first = engine.cache(), .second = alone.cache(), .pairs = pairs}, model.stream())) {
    row.wrong_elements += differing;
  }
  const auto element_bytes = static_cast<int64_t>(size_of(kv::activation_dtype(model.device())));
  row.elements =
      static_cast<int64_t>(pairs.size()) * alone.cache()->bytes_per_block() / element_bytes;
  return row;
}

nlohmann::json attack(const kv::Console& console, kv::Model& model, const kv::Tokenizer& tokenizer,
                      const Options& options) {
  const auto start = Clock::now();
  const Victims victims = forge(model, tokenizer, options);
  console.print("Two blocks of {} tokens with one XXH64, found in {:.1f} s\n\n", options.block_size,
                seconds_since(start));
  const auto size = static_cast<size_t>(options.block_size);
  const auto begin = victims.first.prompt.size() / size * size - size;
  for (const auto* request : {&victims.first, &victims.second}) {
    const auto block = std::span(request->prompt).subspan(begin, size);
    const auto parent =
        lesson06::hash_chain(std::span(request->prompt).first(begin), options.block_size, {});
    console.print("{}  {} .. {}  hash {}\n", request == &victims.first ? "A" : "B",
                  fmt::format("{:4} {:4} {:4} {:4}", block[0], block[1], block[2], block[3]),
                  fmt::format("{:4} {:4}", block[size - 6], block[size - 5]),
                  kv::hex64(lesson06::xxh64_block(parent.back(), block)));
  }
  const uint64_t right =
      lesson02::make_engine(model, {})->generate({&victims.second, 1}).completions[0].logits_xxh64;
  console.print("\nA is served first, then B\n\n");
  kv::Table table({"cache", "tokens of B from it", "wrong K and V", "logits of B", "right"});
  table.add({"none", "-", "-", kv::hex64(right), "yes"});
  nlohmann::json rows = nlohmann::json::array();
  for (const auto check :
       {lesson06::PrefixIndex::Check::kHashOnly, lesson06::PrefixIndex::Check::kExact}) {
    const Served row = serve_after(model, victims, options, check);
    table.add({row.cache, std::to_string(row.num_found),
               fmt::format("{} of {}", kv::with_commas(row.wrong_elements),
                           kv::with_commas(row.elements)),
               kv::hex64(row.logits), row.logits == right ? "yes" : "NO: A's K and V"});
    rows.push_back({{"cache", row.cache},
                    {"cached_tokens", row.num_found},
                    {"wrong_elements", row.wrong_elements},
                    {"elements", row.elements},
                    {"logits_xxh64", kv::hex64(row.logits)},
                    {"right", row.logits == right}});
  }
  console.write(table.to_string());
  return rows;
}

/// What one hash of a block costs.
nlohmann::json compare_hashes(const kv::Console& console, int block_size) {
  constexpr int kHashes = 20'000;
  std::mt19937 rng(1);
  std::vector<int32_t> tokens(static_cast<size_t>(block_size) * 64);
  for (int32_t& token : tokens) token = static_cast<int32_t>(rng() % 150'000);
  console.print("One hash of a block of {} tokens, the parent's hash in front\n\n", block_size);
  kv::Table table({"hash", "bits", "time", "made to resist an attacker"});
  nlohmann::json rows = nlohmann::json::array();
  for (const char* name : {"xxh64", "sha256"}) {
    const lesson06::BlockHasher hasher = lesson06::hasher_of(name);
    std::vector<double> rounds;
    uint64_t last = 0;
    for (int round = 0; round < 9; ++round) {
      const auto start = Clock::now();
      for (int i = 0; i < kHashes; ++i) {
        const auto at = static_cast<size_t>(i % 64) * static_cast<size_t>(block_size);
        last = hasher(last, std::span(tokens).subspan(at, static_cast<size_t>(block_size)), {});
      }
      rounds.push_back(seconds_since(start) / kHashes);
    }
    const bool strong = std::string(name) == "sha256";
    table.add({name, strong ? "64 of 256" : "64",
               fmt::format("{:.0f} ns", 1e9 * kv::median(rounds)), strong ? "yes" : "no"});
    rows.push_back({{"hash", name}, {"seconds", kv::median(rounds)}});
  }
  console.write(table.to_string());
  return rows;
}

void run(Options& options) {
  kv::GenerateOptions& generate = options.generate;
  const kv::Console console(generate.json_file);
  if (generate.max_tokens < 1) kv::user_error("--max-tokens: found 0, wanted 1 or more");
  lesson06::hasher_of(options.hash);  // refuses a wrong name before the model is loaded
  nlohmann::json document{{"lesson", "06"}, {"block_size", options.block_size}};
  if (options.hashes) {
    document["hashes"] = compare_hashes(console, options.block_size);
    return kv::write_json(generate.json_file, document);
  }
  if (options.attack && options.block_size < 16) {
    kv::user_error("--attack: block size {}, wanted 16 or more", options.block_size);
  }
  kv::Model model = kv::load_model(generate);
  const auto tokenizer = kv::Tokenizer::load(generate.model_dir);
  document["device"] = kv::name_of(model.device());
  if (options.attack) {
    document["attack"] = attack(console, model, tokenizer, options);
  } else {
    console.print("Lesson 06, prefix hashing, on {}\n\n", kv::describe(model.device()));
    document["hash"] = options.hash;
    document["requests"] = serve(console, model, tokenizer, options);
  }
  kv::write_json(generate.json_file, document);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.generate.prompts = {" A red kite fell from the sky.",
                              " A little boat came down the river.",
                              " The crow found a golden key.", " Max was gone."};
  options.generate.max_tokens = 24;
  kv::CommandLine command("Lesson 06: requests that begin alike, with a prefix cache and without.");
  kv::add_generate_options(command, options.generate);
  command.value("--system TEXT", options.system, "the text in front of every prompt");
  command.value("--hash NAME", options.hash,
                "xxh64, sha256, or a number of bits of xxh64, 0 to 64");
  command.value("--block-size N", options.block_size, "tokens per KV block, a power of two")
      .between(1, 256);
  command.value("--num-blocks N", options.num_blocks, "blocks in the pool; 0: as many as needed")
      .between(0, 1 << 24);
  command.flag("--attack", options.attack,
               "forge two blocks with one hash, and serve both (--block-size 32)");
  command.flag("--hashes", options.hashes, "print what the hashes cost, and nothing else");
  return kv::run_main(command, argc, argv, [&] { run(options); });
}
