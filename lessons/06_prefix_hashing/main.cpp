// The program of lesson 06: requests that begin alike, with a prefix cache and without, and what
// happens to a cache that trusts its hash.

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cli/forgery.h"
#include "cli/generate_in.h"
#include "cli/hashers.h"
#include "common/error.h"
#include "compare_blocks.h"
#include "engine.h"
#include "lessons/02_flat_cache/engine.h"
#include "programs/lab.h"

namespace {

struct Options {
  kv::GenerateOptions generate;
  std::string system =
      "Once upon a time there was a little village by a quiet river. In the village lived a clever "
      "crow, a happy dog named Max, and a small girl named Lily. Every morning Lily went to the "
      "river with Max, and the crow flew over them and looked for shiny things. They played by the "
      "water, they ran under the trees, and they shared their bread. In the evening they sat by "
      "the fire and told stories. One day something new happened.";
  std::string hash = "xxh64";
  lesson03::PagedOptions paged{.num_blocks = 512};
  bool attack = false;
  bool hashes = false;
};

/// Runs the request alone, so the seconds until its first token are those of the first pass.
kv::GenerateResult generate(kv::Engine& engine, const kv::Request& request) {
  return engine.generate({&request, 1}, [](size_t, int32_t) { return !kv::interrupted(); });
}

void serve(kv::Lab& lab, const Options& options) {
  kv::Model& model = lab.model();
  const kv::Tokenizer& tokenizer = lab.tokenizer();
  kv::GenerateOptions whole = options.generate;
  for (std::string& prompt : whole.prompts) prompt = options.system + prompt;
  const std::vector<kv::Request> requests = kv::make_requests(whole, tokenizer, model.config());
  lesson06::PrefixEngine engine(model, options.paged, lesson06::hasher_of(options.hash));
  const auto without = lesson02::make_engine(model, {});
  generate(*without, requests[0]);  // a first pass sets things up; it is not counted

  lab.title("Lesson 06, prefix hashing");
  lab.console.print("Requests one after the other, all with the same {} in front\n\n",
                    kv::count_of(std::ssize(tokenizer.encode(options.system)), "token"));
  kv::Records rows;
  int64_t tokens_asked = 0, tokens_found = 0;
  for (size_t i = 0; i < requests.size() && !kv::interrupted(); ++i) {
    const kv::GenerateResult plain = generate(*without, requests[i]);
    const kv::GenerateResult cached = generate(engine, requests[i]);
    const double slow = plain.passes.at(0).seconds, fast = cached.passes.at(0).seconds;
    const int found = engine.num_cached_tokens()[0];
    const auto prompt = static_cast<int>(requests[i].prompt.size());
    tokens_asked += prompt;
    tokens_found += found;
    const bool same = plain.completions[0].logits_xxh64 == cached.completions[0].logits_xxh64;
    rows.add({{"request", i + 1},
              {"prompt", prompt, "prompt_tokens"},
              {"from the cache", found, "cached_tokens"},
              {"computed", prompt - found},
              {"first token", kv::ms(fast, 2), "first_token_seconds"},
              {"without", kv::ms(slow, 2), "first_token_seconds_without"},
              {"times faster", kv::decimal(slow / fast, 1)},
              {"same bits", same, "same_bits"}});
  }
  lab.report_records("requests", rows);
  lab.report["hash"] = options.hash;
  if (!engine.manager()) return;  // interrupted before the first one
  lab.print_hit_rate(tokens_found, tokens_asked);
  lab.console.print("blocks with a name        {}, none of them in use\n",
                    engine.manager()->pool().index().size());
}

/// Requests A and B: the same full blocks of text, then one block of the forged pair each, then a
/// word.
std::array<kv::Request, 2> forge(kv::Lab& lab, const Options& options) {
  const int vocab_size = lab.model().config().vocab_size;
  const kv::Tokenizer& tokenizer = lab.tokenizer();
  const size_t size = options.paged.block_size;
  const auto pair = lesson06::forge_pair(vocab_size, options.paged.block_size);
  if (!pair) {
    kv::user_error("no pair found for a vocabulary of {} in blocks of {}; try --block-size 32",
                   vocab_size, size);
  }
  std::vector<int32_t> text = tokenizer.encode(options.system);
  text.resize(text.size() / size * size);
  if (text.empty()) kv::user_error("--system: wanted a block of text or more");
  std::array<kv::Request, 2> requests;
  for (kv::Request& request : requests) {
    const std::vector<int32_t>& block = &request == &requests[0] ? pair->first : pair->second;
    request.max_tokens = options.generate.max_tokens;
    for (const auto& part : {text, block, tokenizer.encode(" Then")}) {
      request.prompt.insert(request.prompt.end(), part.begin(), part.end());
    }
  }
  return requests;
}

/// Serves A and then B, and compares B's blocks with those of an engine that has seen B alone.
void serve_after(kv::Records& rows, kv::Model& model, const std::array<kv::Request, 2>& ab,
                 const lesson03::PagedOptions& pool, bool exact, uint64_t right) {
  using Check = lesson06::PrefixIndex::Check;
  const auto make_pool = [exact](int num_blocks, int block_size) {
    return std::make_unique<lesson06::BlockPool>(num_blocks, block_size,
                                                 exact ? Check::kExact : Check::kHashOnly);
  };
  lesson06::PrefixEngine engine(model, pool, {}, make_pool);
  lesson06::PrefixEngine alone(model, pool);
  std::vector<int32_t> blocks, right_blocks;
  engine.generate({&ab[0], 1});
  const uint64_t logits = lesson06::generate_in(blocks, engine, ab[1]).completions[0].logits_xxh64;
  lesson06::generate_in(right_blocks, alone, ab[1]);
  const size_t num_full = ab[1].prompt.size() / pool.block_size;
  std::vector<lesson06::BlockPair> pairs;  // the full blocks of B's prompt
  for (size_t i = 0; i < num_full; ++i) pairs.push_back({blocks[i], right_blocks[i]});
  const lesson06::BlockRegions first = lesson05::regions_of(*engine.cache(), model.stream());
  const lesson06::BlockRegions second = lesson05::regions_of(*alone.cache(), model.stream());
  const std::vector<int64_t> differing = lesson06::compare_blocks(
      {.first = &first, .second = &second, .pairs = pairs}, model.stream());
  const int64_t wrong = std::accumulate(differing.begin(), differing.end(), int64_t{0});
  const int64_t all = static_cast<int64_t>(num_full) * alone.cache()->bytes_per_block() /
                      static_cast<int64_t>(size_of(kv::activation_dtype(model.device())));
  const std::string wrong_of_all =
      fmt::format("{} of {}", kv::with_commas(wrong), kv::with_commas(all));
  const char* const verdict = logits == right ? "yes" : "NO: A's K and V";
  rows.add(
      {{"cache", exact ? "tokens and parent must be equal" : "an equal hash is trusted", "cache"},
       {"tokens of B from it", engine.num_cached_tokens()[0], "cached_tokens"},
       {"wrong K and V", {wrong_of_all, wrong}, "wrong_elements"},
       {"logits of B", kv::digest(logits), "logits_xxh64"},
       {"right", {verdict, logits == right}, "right"}});
  rows.note("elements", all);
}

void attack(kv::Lab& lab, const Options& options) {
  const kv::Console& console = lab.console;
  const int block_size = options.paged.block_size;
  const auto start = std::chrono::steady_clock::now();
  const auto ab = forge(lab, options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const size_t size = block_size;
  console.print("Two blocks of {} with one XXH64, found in {:.1f} s\n\n",
                kv::count_of(block_size, "token"), seconds.count());
  for (const auto& request : ab) {
    const auto full = std::span(request.prompt).first(request.prompt.size() / size * size);
    const auto block = full.last(size);
    console.print("{}  {:4} {:4} {:4} {:4} .. {:4} {:4}  hash {}\n", &request == &ab[0] ? "A" : "B",
                  block[0], block[1], block[2], block[3], block[size - 6], block[size - 5],
                  kv::hex64(lesson06::hash_chain(full, block_size, {}).back()));
  }
  const uint64_t right =
      lesson02::make_engine(lab.model(), {})->generate({&ab[1], 1}).completions[0].logits_xxh64;
  console.print("\nA is served first, then B\n\n");
  kv::Records rows;
  rows.add({{"cache", "none"},
            {"tokens of B from it", "-"},
            {"wrong K and V", "-"},
            {"logits of B", kv::digest(right)},
            {"right", "yes"}});
  for (const bool exact : {false, true}) {
    serve_after(rows, lab.model(), ab, options.paged, exact, right);
  }
  lab.report_records("attack", rows);
}

/// The time that one hash of a block takes.
void compare_hashes(kv::Lab& lab, int block_size) {
  constexpr int kHashes = 20'000;
  const size_t size = block_size;
  std::mt19937 rng(1);
  std::vector<int32_t> tokens(size * 64);
  for (int32_t& token : tokens) token = static_cast<int32_t>(rng() % 150'000);
  lab.console.print("One hash of a block of {}, the parent's hash in front\n\n",
                    kv::count_of(block_size, "token"));
  kv::Records rows;
  for (const char* name : {"xxh64", "sha256"}) {
    const lesson06::BlockHasher hasher = lesson06::hasher_of(name);
    uint64_t last = 0;
    const double seconds = kv::median_seconds([&] {
                             for (size_t i = 0; i < kHashes; ++i) {
                               last =
                                   hasher(last, std::span(tokens).subspan(i % 64 * size, size), {});
                             }
                           }) /
                           kHashes;
    const bool strong = std::string(name) == "sha256";
    rows.add({{"hash", name, "hash"},
              {"bits", strong ? "64 of 256" : "64"},
              {"time", kv::ns(seconds, 0), "seconds"},
              {"made to resist an attacker", strong ? "yes" : "no"}});
  }
  lab.report_records("hashes", rows);
}

void run(kv::Lab& lab, const Options& options) {
  const int block_size = options.paged.block_size;
  lesson06::hasher_of(options.hash);  // refuses a wrong name before the model is loaded
  lab.report["block_size"] = block_size;
  if (options.hashes) return compare_hashes(lab, block_size);
  if (!options.attack) return serve(lab, options);
  if (block_size < 16) kv::user_error("--attack: block size {}, wanted 16 or more", block_size);
  attack(lab, options);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.generate.prompts = {" A red kite fell from the sky.", " The crow found a golden key.",
                              " Max was gone.", " A little boat came down the river."};
  options.generate.max_tokens = 24;
  kv::CommandLine command("Lesson 06: requests that begin alike, with a prefix cache and without.");
  kv::add_generate_options(command, options.generate);
  command.value("--system TEXT", options.system, "the text in front of every prompt");
  command.value("--hash NAME", options.hash,
                "xxh64, sha256, or a number of bits of xxh64, 0 to 64");
  kv::add_pool_options(command, options.paged.block_size, options.paged.num_blocks);
  command.flag("--attack", options.attack,
               "forge two blocks with one hash, and serve both (--block-size 32)");
  command.flag("--hashes", options.hashes, "print what the hashes cost, and nothing else");
  return kv::run_lesson("06", command, options.generate, argc, argv,
                        [&](kv::Lab& lab) { run(lab, options); });
}
