// The promise, as a test: every lesson, equal bits.
#include "ladder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "common/base/parallel.h"
#include "common/model/generation.h"
#include "common/model/tokenizer.h"
#include "prompts.h"
#include "tests/support/same_bits.h"

namespace {

const std::filesystem::path kTiny = KV_SOURCE_DIR "/models/tiny";

kv::Request request(const kv::Tokenizer& tokenizer, const std::string& text, int max_tokens) {
  kv::Request r;
  r.prompt = tokenizer.encode(text);
  r.max_tokens = max_tokens;
  return r;
}

std::vector<kv::Request> some_requests() {
  const auto tokenizer = kv::Tokenizer::load(kTiny);
  return {request(tokenizer, "Once upon a time", 20), request(tokenizer, "One day, a fox", 7),
          request(tokenizer, std::string(400, 'a'), 3), request(tokenizer, "I", 1),
          request(tokenizer, "The", 0)};
}

}  // namespace

TEST_CASE("every lesson gives the same bits on the CPU") {
  kv::Model model = kv::Model::load(kTiny, kv::Device::kCpu);
  const auto requests = some_requests();
  const auto rungs = ladder::climb(model, requests, ladder::lessons(), {});
  REQUIRE(rungs.size() == ladder::lessons().size());
  REQUIRE(rungs.size() >= 2);
  CHECK(ladder::first_mismatch(rungs) == std::nullopt);
  for (const auto& rung : rungs) CHECK(rung.tokens == 20 + 7 + 3 + 1);
}

TEST_CASE("every lesson gives the same bits on plain kernels, and they are others") {
  kv::Model model = kv::Model::load(kTiny, kv::Device::kCpu);
  const auto requests = some_requests();
  const uint64_t fast = ladder::climb(model, requests, ladder::lessons(), {})[0].digest;
  model.set_kernel(kv::Kernel::kPlain);
  const auto rungs = ladder::climb(model, requests, ladder::lessons(), {});
  CHECK(ladder::first_mismatch(rungs) == std::nullopt);
  CHECK(rungs[0].digest != fast);
}

TEST_CASE("the bits do not depend on the batch or the number of threads") {
  kv::Model model = kv::Model::load(kTiny, kv::Device::kCpu);
  const auto requests = some_requests();
  const int threads = kv::num_threads();
  for (const auto& lesson : ladder::lessons()) {
    CAPTURE(lesson.number);
    const auto together = lesson.make_engine(model, {})->generate(requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      CAPTURE(i);
      kv::set_num_threads(1 + static_cast<int>(i));
      const auto alone = lesson.make_engine(model, {})->generate({&requests[i], 1});
      CHECK(alone.completions[0].tokens == together.completions[i].tokens);
      CHECK(alone.completions[0].logits_xxh64 == together.completions[i].logits_xxh64);
    }
    kv::set_num_threads(threads);
  }
}

TEST_CASE("a request draws the same tokens in every lesson, wherever it stands in a batch") {
  kv::Model model = kv::Model::load(kTiny, kv::Device::kCpu);
  auto requests = some_requests();
  for (auto& r : requests) {
    r.sampling = {.temperature = 0.9f, .top_k = 40, .top_p = 0.95f, .seed = 7};
  }
  const auto samples = kv::samples_of(requests[0], 2);
  requests.insert(requests.begin() + 1, samples[0]);
  requests.insert(requests.end(), samples.begin(), samples.end());
  const auto check = [&](const kv::GenerateResult& result) {
    const auto tokens = [&](size_t i) { return result.completions[i].tokens; };
    CHECK(tokens(1) == tokens(0));
    CHECK(tokens(requests.size() - 2) == tokens(0));
    CHECK(tokens(requests.size() - 1) != tokens(0));  // its other sample
  };
  const auto rungs = ladder::climb(model, requests, ladder::lessons(), {});
  CHECK(ladder::first_mismatch(rungs) == std::nullopt);
  for (const ladder::Rung& rung : rungs) {
    CAPTURE(rung.number);
    check(rung.result);
  }
  // Blocks found again, and requests that are preempted and resume.
  lesson08::ServingEngine small(model, {.block_size = 1, .num_blocks = 420}, {});
  const auto served = small.serve(requests, {});
  CHECK(served.num_preemptions > 0);
  CHECK(served.generated.counters.named("cache_hit_tokens") > 0);
  kvtest::check_equal(served.generated, rungs[0].result);
}

TEST_CASE("a lesson with other bits is reported by name") {
  std::vector<ladder::Rung> rungs(3);
  for (int i = 0; i < 3; ++i) {
    rungs[static_cast<size_t>(i)].number = "0" + std::to_string(i + 1);
    rungs[static_cast<size_t>(i)].digest = 5;
    rungs[static_cast<size_t>(i)].result.completions.resize(1);
  }
  CHECK(ladder::first_mismatch(rungs) == std::nullopt);
  rungs[2].digest = 6;
  REQUIRE(ladder::first_mismatch(rungs).has_value());
  CHECK(ladder::first_mismatch(rungs)->find("lesson 03 gives other bits than lesson 01") == 0);
  rungs[2].digest = 5;
  rungs[1].result.completions[0].tokens = {1};
  CHECK(ladder::first_mismatch(rungs)->find("lesson 02 gives other tokens") == 0);
}

namespace {

struct Run {
  int code;
  std::string out;
};

// Runs the ladder program, its standard error into the same text if `both`.
Run run_program(const std::string& args, bool both = false) {
  const std::string command =
      std::string(KV_BINARY_DIR "/bin/ladder ") + args + (both ? " 2>&1" : " 2>/dev/null");
  std::FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Run run{0, {}};
  char buffer[4096];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) run.out.append(buffer, n);
  run.code = WEXITSTATUS(pclose(pipe));
  return run;
}

}  // namespace

TEST_CASE("the ladder program prints its table as JSON") {
  const Run run = run_program("--device cpu --max-tokens 4 --json -");
  REQUIRE(run.code == 0);
  const auto json = nlohmann::json::parse(run.out);
  REQUIRE(json.at("lessons").size() == ladder::lessons().size());
  for (const auto& rung : json.at("lessons")) {
    CHECK(rung.at("device") == "cpu");
    CHECK(rung.at("tokens") == 16);
    CHECK(rung.at("logits_xxh64") == json["lessons"][0]["logits_xxh64"]);
    CHECK(rung.at("logits_xxh64").get<std::string>().size() == 16);
    CHECK(rung.at("kv_rows_computed") > 0);
    CHECK(rung.at("kv_bytes_reserved") >= rung.at("kv_bytes_used"));
    CHECK(rung.at("seconds") > 0.0);
  }
}

TEST_CASE("the ladder program runs on plain kernels") {
  const auto digest_of = [](const std::string& kernel) {
    const Run run = run_program("--device cpu --max-tokens 4 --json - --kernel " + kernel);
    REQUIRE(run.code == 0);
    return nlohmann::json::parse(run.out).at("lessons").back().at("logits_xxh64");
  };
  CHECK(digest_of("plain") != digest_of("fast"));
}

TEST_CASE("the ladder program names what is wrong and exits with 2") {
  for (const char* args :
       {"--model /nowhere", "--max-tokens -1", "--device gpu", "--temperature nan", "--prompt ''",
        "--max-tokens 100000", "--top-p 0", "--unknown", "--kernel slow"}) {
    CAPTURE(args);
    const Run run = run_program(args, true);
    CHECK(run.code == 2);
    CHECK(run.out.find("error: ") != std::string::npos);
  }
}

TEST_CASE("asking for CUDA where there is none never becomes the CPU") {
  if (kv::cuda_available()) return;
  const Run run = run_program("--device cuda", true);
  CHECK(run.code == 2);
  CHECK(run.out.find("error: ") == 0);
  CHECK(std::count(run.out.begin(), run.out.end(), '\n') == 1);
}

TEST_CASE("500 prompts, eight configurations of memory, no differing bit") {
#if defined(__SANITIZE_ADDRESS__)
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
