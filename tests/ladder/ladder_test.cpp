// The promise, as a test: every lesson, equal bits.
#include "ladder.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/parallel.h"
#include "prompts.h"
#include "qwen3/generation.h"
#include "qwen3/tokenizer.h"
#include "tests/support/same_bits.h"
#include "tests/support/shell.h"
#include "tests/support/shipped_model.h"
#include "tests/support/windowed_model.h"
#include "workload.h"

namespace {

const std::filesystem::path kTiny = KV_SOURCE_DIR "/models/tiny";

/// The requests that ./course run serves, with answers of at most max_tokens tokens.
ladder::Workload server_workload(int max_tokens, const kv::Model& model) {
  kv::GenerateOptions options;
  options.max_tokens = max_tokens;
  return ladder::server_requests(options, kv::Tokenizer::load(kTiny), model.config()).workload;
}

}  // namespace

TEST_CASE("every lesson gives the same bits on the CPU, fast and plain, and each kernel its own" *
          doctest::test_suite("sweep")) {
  kv::Model model = kv::Model::load(kTiny, kv::Device::kCpu);
  const ladder::Workload workload{kvtest::some_requests()};
  const auto fast = ladder::climb(model, workload, ladder::lessons());
  REQUIRE(fast.size() == ladder::lessons().size());
  REQUIRE(fast.size() >= 2);
  CHECK(ladder::first_mismatch(fast) == std::nullopt);
  for (const auto& rung : fast) CHECK(rung.tokens == 20 + 7 + 3 + 1);
  model.set_kernel(kv::Kernel::kPlain);
  const auto plain = ladder::climb(model, workload, ladder::lessons());
  CHECK(ladder::first_mismatch(plain) == std::nullopt);
  CHECK(plain[0].digest != fast[0].digest);
}

TEST_CASE("every lesson gives the same bits in a model with sliding windows, fast and plain" *
          doctest::test_suite("sweep")) {
  std::vector<int> windows{17, 1, 64, 1000};
  windows.resize(static_cast<size_t>(kvtest::number_from("KV_WINDOWS", 4)), 1000);
  constexpr int kPrompts = 40;
  const ladder::Workload workload{kvtest::some_requests()};
  kv::Model without = kv::Model::load(kTiny, kv::Device::kCpu);
  for (const int window : windows) {
    CAPTURE(window);
    const kvtest::WindowedModel windowed(window);
    kv::Model model = kv::Model::load(windowed.folder(), kv::Device::kCpu);
    for (const auto kernel : {kv::Kernel::kFast, kv::Kernel::kPlain}) {
      model.set_kernel(kernel);
      without.set_kernel(kernel);
      const auto rungs = ladder::climb(model, workload, ladder::lessons());
      CHECK(ladder::first_mismatch(rungs) == std::nullopt);
      const auto one = [&] {
        return ladder::climb(without, workload, std::span(ladder::lessons()).subspan(3, 1))[0];
      };
      CHECK((one().digest == rungs[0].digest) == (window == 1000));
      without.set_windows(model.config().windows);  // what --window does
      CHECK(one().digest == rungs[0].digest);
      without.set_windows({});
      if (window == 17) ladder::check_prompts(model, kPrompts, 1);
    }
  }
}

TEST_CASE("each lesson after the second is better than the one before, at equal bits") {
  kv::Model model = kv::Model::load(kTiny, kv::Device::kCpu);
  const auto server = server_workload(96, model);
  // Lesson 01, which computes 70,000 rows for it, is compared with fewer tokens (below).
  const auto rungs = ladder::climb(model, server, std::span(ladder::lessons()).subspan(1),
                                   {256, ladder::kServerKvTokens});
  CHECK(ladder::first_mismatch(rungs) == std::nullopt);

  using Counter = int64_t kv::EngineCounters::*;
  constexpr Counter kRows = &kv::EngineCounters::kv_rows_computed;
  constexpr Counter kAtOnce = &kv::EngineCounters::max_sequences;
  struct Gain {
    std::string lesson;
    Counter less, more = nullptr;
  };
  const std::vector<Gain> gains{{"03", &kv::EngineCounters::passes, kAtOnce},
                                {"04", &kv::EngineCounters::kv_bytes_copied},
                                {"05", kRows, kAtOnce},
                                {"06", kRows},
                                {"07", kRows},
                                {"08", &kv::EngineCounters::passes, kAtOnce},
                                {"09", &kv::EngineCounters::passes}};
  REQUIRE(gains.size() + 6 == rungs.size());
  for (size_t i = 0; i < gains.size(); ++i) {
    CAPTURE(gains[i].lesson);
    const kv::EngineCounters& before = rungs[i].counters;
    const kv::EngineCounters& now = rungs[i + 1].counters;
    CHECK(rungs[i + 1].number == gains[i].lesson);
    CHECK(now.*gains[i].less < before.*gains[i].less);
    if (gains[i].more) CHECK(now.*gains[i].more > before.*gains[i].more);
  }
  // Without windows lesson 10 is lesson 08.
  CHECK(rungs[8].number == "10");
  CHECK(rungs[8].counters.passes == rungs[6].counters.passes);
  CHECK(rungs[8].counters.by_name == rungs[6].counters.by_name);
  // As long as nothing that is evicted comes again, so are lessons 11 and 12. Lesson 13 is two
  // servers in turn: the second one has computed nothing, and computes no more than one server.
  // Lesson 14 without FP8 is lesson 08.
  CHECK(rungs.back().number == "14");
  for (const size_t i : {9u, 10u, 11u, 12u}) {
    CHECK(rungs[i].counters.passes == rungs[6].counters.passes);
    CHECK(rungs[i].counters.kv_rows_computed == rungs[6].counters.kv_rows_computed);
  }
  // Slabs waste what blocks do not, and no lesson takes more memory than there is.
  const auto waste = [&](size_t i) {
    const kv::EngineCounters& c = rungs[i].counters;
    return 1 - static_cast<double>(c.kv_bytes_used) / static_cast<double>(c.kv_bytes_reserved);
  };
  CHECK(waste(1) < waste(0) / 2);
  const auto slot = model.config().kv_bytes_per_token(sizeof(float));
  for (const auto& rung : rungs) {
    CHECK(rung.counters.kv_bytes_reserved <= ladder::kServerKvTokens * slot);
  }
}

TEST_CASE("where layers have windows lesson 10 holds less than 08 and 09") {
  const kvtest::WindowedModel windowed(32);
  kv::Model model = kv::Model::load(windowed.folder(), kv::Device::kCpu);
  const auto last = std::span(ladder::lessons()).subspan(7, 3);
  const auto rungs = ladder::climb(model, server_workload(96, model), last, {256});
  REQUIRE(rungs.back().number == "10");
  CHECK(ladder::first_mismatch(rungs) == std::nullopt);
  for (const size_t before : {0u, 1u}) {
    CHECK(rungs[2].counters.kv_bytes_reserved < rungs[before].counters.kv_bytes_reserved * 3 / 4);
  }
}

TEST_CASE("in FP8 all lessons give the same bits, other ones") {
  kv::Model model = kv::Model::load(kTiny, kv::Device::kCpu);
  const ladder::Workload few{kvtest::some_requests()};
  const auto exact = ladder::climb(model, few, std::span(ladder::lessons()).first(1));
  model.set_kv_format(kv::KvFormat::kFp8);
  for (const auto kernel : {kv::Kernel::kPlain, kv::Kernel::kFast}) {
    model.set_kernel(kernel);
    const auto rungs = ladder::climb(model, few, ladder::lessons());
    CHECK(ladder::first_mismatch(rungs) == std::nullopt);
    CHECK(rungs[0].digest != exact[0].digest);
  }
}

TEST_CASE("turns, samples and latecomers do not change a request's bits") {
  kv::Model model = kv::Model::load(kTiny, kv::Device::kCpu);
  const auto server = server_workload(6, model);
  const auto in_turns = ladder::climb(model, server, ladder::lessons(), {256, 512});
  CHECK(ladder::first_mismatch(in_turns) == std::nullopt);
  CHECK(in_turns[1].counters.kv_rows_computed < in_turns[0].counters.kv_rows_computed);
  const auto together =
      ladder::climb(model, {.requests = server.requests}, std::span(ladder::lessons()).first(1));
  CHECK(together[0].digest == in_turns[0].digest);
}

TEST_CASE(
    "samples of one prompt fit the slots that their lesson asks for, each in its own number") {
  kv::Model model = kv::Model::load(kTiny, kv::Device::kCpu);
  for (const int prompt_tokens : {32, 33}) {  // whole blocks, and one token more
    CAPTURE(prompt_tokens);
    kv::Request request = kvtest::request_of(prompt_tokens, 20);
    request.sampling.temperature = 1;
    const auto requests = kv::samples_of(request, 4);
    std::vector<int64_t> slots;
    uint64_t wanted = 0;
    for (const auto& lesson : ladder::lessons()) {
      CAPTURE(lesson.number);
      slots.push_back(lesson.make_engine(model, {})->slots_to_start(requests));
      const ladder::Options just_these{.kv_slots = static_cast<int>(slots.back())};
      const auto result = lesson.make_engine(model, just_these)->generate(requests);
      const uint64_t digest = kv::combined_digest(result.completions);
      if (wanted == 0) wanted = digest;
      CHECK(digest == wanted);
    }
    // 52 tokens each but the last one's K and V: 4 blocks. 2 of the prompt are shared by forks; the
    // last token of a prompt is never found.
    const int64_t found = prompt_tokens == 32 ? 1 : 2;
    CHECK(slots == std::vector<int64_t>{0, 4 * (prompt_tokens + 19), 256, 256, 16 * (16 - 3 * 2),
                                        16 * (16 - 3 * found), 16 * (16 - 3 * found), 0, 0, 0, 0, 0,
                                        0, 0});
  }
}

TEST_CASE("the bits do not depend on the batch or the number of threads") {
  kv::Model model = kv::Model::load(kTiny, kv::Device::kCpu);
  auto requests = kvtest::some_requests();
  for (auto& r : requests) {  // one of them greedy, and sampled text as well
    if (&r != requests.data()) r.sampling = {.temperature = 0.9f, .top_k = 40, .top_p = 0.95f};
  }
  const int threads = kv::num_threads();
  std::vector<kv::Completion> wanted;  // of lesson 01
  for (const auto& lesson : ladder::lessons()) {
    CAPTURE(lesson.number);
    const auto together = lesson.make_engine(model, {})->generate(requests).completions;
    if (wanted.empty()) wanted = together;
    for (size_t i = 0; i < requests.size(); ++i) {
      CAPTURE(i);
      kv::set_num_threads(1 + static_cast<int>(i));
      const auto alone = lesson.make_engine(model, {})->generate({&requests[i], 1}).completions[0];
      CHECK(alone.tokens == together[i].tokens);
      CHECK(alone.logits_xxh64 == together[i].logits_xxh64);
      CHECK(together[i].logits_xxh64 == wanted[i].logits_xxh64);
    }
    kv::set_num_threads(threads);
  }
}

TEST_CASE("a lesson with other bits is reported by name") {
  std::vector<ladder::Rung> rungs(3);
  for (int i = 0; i < 3; ++i) {
    rungs[static_cast<size_t>(i)].number = "0" + std::to_string(i + 1);
    rungs[static_cast<size_t>(i)].digest = 5;
    rungs[static_cast<size_t>(i)].completions.resize(1);
  }
  CHECK(ladder::first_mismatch(rungs) == std::nullopt);
  rungs[2].digest = 6;
  REQUIRE(ladder::first_mismatch(rungs).has_value());
  CHECK(ladder::first_mismatch(rungs)->find("lesson 03 gives other bits than lesson 01") == 0);
  rungs[2].digest = 5;
  rungs[1].completions[0].tokens = {1};
  CHECK(ladder::first_mismatch(rungs)->find("lesson 02 gives other tokens") == 0);
}

TEST_CASE("the ladder program prints its table as JSON") {
  const kvtest::Outcome run = kvtest::shell("$B/ladder --device cpu --max-tokens 4 --json -");
  REQUIRE(run.code == 0);
  const auto json = nlohmann::json::parse(run.out);
  REQUIRE(json.at("lessons").size() == ladder::lessons().size());
  for (const auto& rung : json.at("lessons")) {
    CHECK(rung.at("device") == "cpu");
    CHECK(rung.at("tokens") == 12 * 4);
    CHECK(rung.at("logits_xxh64") == json["lessons"][0]["logits_xxh64"]);
    CHECK(rung.at("kv_rows_computed") > 0);
    CHECK(rung.at("kv_bytes_reserved") >= rung.at("kv_bytes_used"));
    CHECK(rung.at("first_token_seconds") > 0.0);
    CHECK(rung.at("seconds") > 0.0);
  }
}

// Other digests are another arithmetic: a block file of before must be refused from now on, too
// (kArithmetic of qwen3/fingerprint.cpp grows).
TEST_CASE("four plain prompts have the same digests on every CPU, fast and plain") {
  for (const auto& [options, digest] :
       {std::pair{"--kernel fast", "8ab553808417db56"},
        std::pair{"--kernel plain", "e5b1ee4b6897cdcd"},
        std::pair{"--kernel fast --kv-dtype fp8", "86f576fb28614710"},
        std::pair{"--kernel plain --kv-dtype fp8", "4b0b302a14313d6b"}}) {
    const kvtest::Outcome run = kvtest::shell(
        std::string("$B/ladder --device cpu --workload simple --lessons 2,08,9,14 --json - ") +
        options);
    REQUIRE(run.code == 0);
    const auto lessons = nlohmann::json::parse(run.out).at("lessons");
    REQUIRE(lessons.size() == 4);
    CHECK(lessons[0].at("lesson") == "02");
    for (const auto& rung : lessons) CHECK(rung.at("logits_xxh64") == digest);
  }
}

TEST_CASE("the ladder program without times prints the same table twice") {
  const std::string line = "$B/ladder --device cpu --workload simple --lessons 2,3 --without-times";
  const kvtest::Outcome run = kvtest::shell(line);
  CHECK(run.code == 0);
  CHECK(run.out.find("03 paged_blocks   428      96") != std::string::npos);
  CHECK(run.out.find("tokens/s") == std::string::npos);
  CHECK(run.out == kvtest::shell(line).out);
  const kvtest::Outcome narrow = kvtest::shell("COLUMNS=60 " + line);
  std::istringstream table(narrow.out.substr(narrow.out.find("lesson ")));
  for (std::string words; std::getline(table, words);) CHECK(words.size() <= 60);
  CHECK(narrow.out.find("Left out: half of each digest, at once, copied, passes. ") !=
        std::string::npos);
}

TEST_CASE("the ladder program says how many tokens each lesson has so far") {
  const kvtest::Outcome run = kvtest::shell(
      "$B/ladder --device cpu --workload simple --max-tokens 3 --lessons 2,3 --progress");
  CHECK(run.code == 0);
  const std::string last = "\n12 of 12 tokens\n";
  const size_t first = run.err.find(last);
  CHECK(run.err.find(last, first + 1) != std::string::npos);  // of the second lesson
}

TEST_CASE("the ladder program names what is wrong and exits with 2") {
  for (const char* args :
       {"--model /nowhere", "--max-tokens 0", "--device gpu", "--temperature nan", "--prompt ''",
        "--prompt a --max-tokens 100000", "--top-p 0", "--unknown", "--kernel slow",
        "--workload busy", "--lessons 90", "--lessons 3,,4", "--lessons 3x", "--kv-tokens -1",
        "--kv-tokens 16 --lessons 3", "--kv-tokens 16 --lessons 8"}) {
    CAPTURE(args);
    kvtest::check_refused(kvtest::shell(std::string("$B/ladder ") + args), "error: ");
  }
}

TEST_CASE("no lesson takes more memory than --kv-tokens") {
  for (const char* args : {"--kv-tokens 255 --lessons 2", "--lessons 2 --max-seq-len 1024"}) {
    CAPTURE(args);
    kvtest::check_refused(kvtest::shell(std::string("$B/ladder ") + args),
                          "error: lesson 02 needs ");
  }
  for (const auto& lesson : ladder::lessons()) {
    if (lesson.number < "03") continue;
    kvtest::check_refused(
        kvtest::shell("$B/ladder --prompt a --max-tokens 2 --kv-tokens 8 --lessons " +
                      lesson.number),
        "error: --kv-tokens 8: wanted 0");
  }
}

TEST_CASE("a memory that is too small for one lesson is refused before any lesson works") {
  for (const char* tokens : {"1", "16"}) {
    const auto run = kvtest::shell(std::string("$B/ladder --device cpu --kv-tokens ") + tokens);
    kvtest::check_refused(run, "--kv-tokens");
    CHECK(std::ranges::count(run.out, '\n') <= 2);
  }
}

TEST_CASE("many prompts, eight configurations of memory, no differing bit") {
#if defined(KV_SANITIZED)
  constexpr int kPrompts = 25;
#else
  constexpr int kPrompts = 500;
#endif
  kv::Model model = kv::Model::load(kTiny, kv::Device::kCpu);
  const auto prompts = static_cast<int>(kvtest::number_from("KV_PROMPTS", kPrompts));
  const auto seed = static_cast<uint64_t>(kvtest::number_from("KV_RANDOM_SEED", 1));
  ladder::check_prompts(model, prompts, seed);
  model.set_kernel(kv::Kernel::kPlain);
  ladder::check_prompts(model, std::min(prompts, 100), seed);
}
