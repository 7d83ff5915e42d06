// The program that writes logits, run as a user runs it; and the environment that every program
// obeys.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "qwen3/safetensors.h"
#include "tests/model/reference_forward.h"
#include "tests/support/random_model.h"
#include "tests/support/shell.h"

using kvtest::Outcome;
using kvtest::RandomModel;
using kvtest::TempDir;
using kvtest::text_of;

namespace {

/// A small model, and the program run on it; --out is `out` in the model's folder.
struct Bench {
  TempDir dir;
  RandomModel shape;
  Bench() { kvtest::write_model(dir.path(), shape); }

  std::filesystem::path out_file() const { return dir.path() / "out.safetensors"; }

  Outcome run(const std::string& arguments, const std::string& environment = "") const {
    return kvtest::shell("M='" + dir.path().string() + "'; " + environment +
                         " $B/logits --model $M " + arguments);
  }
  std::string out() const { return " --device cpu --out $M/out.safetensors"; }

  void check_refused(const Outcome& outcome, const std::string& part) const {
    kvtest::check_refused(outcome, part);
    CHECK(!std::filesystem::exists(out_file()));
  }
};

}  // namespace

TEST_CASE("logits: writes the logits of every token") {
  const Bench bench;
  const Outcome outcome = bench.run("--token-ids '5, 0,96,5'" + bench.out());
  CHECK(outcome.code == 0);
  CHECK(outcome.err.empty());
  const kv::SafetensorsFile file = kv::SafetensorsFile::open(bench.out_file());
  CHECK(file.tensors().size() == 1);
  const kv::TensorView& logits = file.tensors().at("logits");
  CHECK(logits.dtype == "F32");
  CHECK(logits.shape == std::vector<int64_t>{4, 97});

  const kvtest::Tensors tensors = kvtest::random_tensors(bench.shape);
  const kvtest::Rows want = kvtest::ReferenceForward(bench.shape, tensors).logits({5, 0, 96, 5});
  double error = 0;
  double scale = 0;
  for (size_t i = 0; i < 4 * 97; ++i) {
    float got = 0;
    std::memcpy(&got, logits.data + i * 4, 4);
    error = std::max(error, std::abs(static_cast<double>(got) - want[i / 97][i % 97]));
    scale = std::max(scale, std::abs(want[i / 97][i % 97]));
    if (std::isnan(got)) error = got;
  }
  CHECK(error <= 2e-6 * scale);  // as in the model's own tests
}

TEST_CASE("logits: neither the threads nor the instruction set change the file") {
  const Bench bench;
  const std::string arguments = "--token-ids 1,2,3,4,5,6,7" + bench.out();
  CHECK(bench.run(arguments).code == 0);
  const std::string want = text_of(bench.out_file());
  for (const char* environment : {"KV_THREADS=1", "KV_THREADS=7", "KV_ISA=portable",
                                  "KV_ISA=portable KV_THREADS=3", "KV_THREADS= KV_ISA="}) {
    std::filesystem::remove(bench.out_file());
    CHECK(bench.run(arguments, environment).code == 0);
    CHECK(text_of(bench.out_file()) == want);
  }
}

TEST_CASE("logits: wrong token ids are refused") {
  const Bench bench;
  const auto refused = [&](const std::string& ids, const std::string& part) {
    bench.check_refused(bench.run("--token-ids '" + ids + "'" + bench.out()), part);
  };
  refused("97", "token id 97 is not in the vocabulary: wanted 0 to 96");
  refused("1,-1", "token id -1");
  refused("1,,2", "item 2 is ''");
  refused("", "item 1 is ''");
  refused("1,2,", "item 3 is ''");
  refused("1,x", "item 2 is 'x'");
  refused("1.5", "item 1 is '1.5'");
  refused("2147483648", "item 1 is '2147483648'");
}

TEST_CASE("logits: more tokens than the model has positions are refused with both numbers") {
  const Bench bench;
  std::string ids = "0";
  for (int i = 1; i < 1025; ++i) ids += ",1";
  bench.check_refused(bench.run("--token-ids " + ids + bench.out()), "found 1025 ids");
}

TEST_CASE("logits: what is missing, no model, or cannot be written, is refused") {
  const Bench bench;
  bench.check_refused(bench.run("--token-ids 1 --device cpu --out /nowhere/x.safetensors"),
                      "/nowhere/x.safetensors");
  bench.check_refused(bench.run("--token-ids 1"), "--out");
  bench.check_refused(bench.run(bench.out()), "--token-ids");
  bench.check_refused(bench.run("--token-ids 1 --device abacus --out x"), "abacus");
  std::filesystem::remove(bench.dir.path() / "config.json");
  bench.check_refused(bench.run("--token-ids 1" + bench.out()), "config.json");
}

TEST_CASE("environment: numbers of threads and instruction sets that make no sense are refused") {
  const Bench bench;
  const std::string arguments = "--token-ids 1" + bench.out();
  for (const char* bad : {"0", "-1", "two", "99999999999999999999", "4x"}) {
    bench.check_refused(bench.run(arguments, std::string("KV_THREADS=") + bad), "KV_THREADS");
  }
  bench.check_refused(bench.run(arguments, "KV_ISA=mmx"), "KV_ISA: found 'mmx'");
}
