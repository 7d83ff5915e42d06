// The programs that read and write a model's files, run as a user runs them.
#include <fmt/format.h>

#include <sstream>

#include "qwen3/config.h"
#include "qwen3/safetensors.h"
#include "qwen3/tokenizer.h"
#include "tests/files/small_tokenizer.h"
#include "tests/files/support.h"
#include "tests/support/shell.h"

using namespace kv;
using namespace kv::testing;
using kvtest::check_refused;
using kvtest::Outcome;

namespace {

// Runs `program arguments`; `input` is its standard input.
Outcome run(const std::string& program, const std::string& arguments,
            const std::string& input = "") {
  return kvtest::shell("$B/" + program + " " + arguments, input);
}

struct ModelDir {
  TempDir dir;
  ModelDir() { dir.write("tokenizer.json", small_tokenizer({{"a", "b"}}).dump()); }
  std::string option() const { return "--model '" + dir.path().string() + "' "; }
};

}  // namespace

TEST_CASE("tokenize: a line in, a list out, and back; of nothing, nothing") {
  const ModelDir model;
  const Outcome nothing = run("tokenize", model.option());
  CHECK(nothing.code == 0);
  CHECK(nothing.out.empty());
  const std::string text = "ab c\nab\r\n\n\xC3\xA9<|end|>\nno newline at the end";
  const Outcome ids = run("tokenize", model.option(), text);
  CHECK(ids.code == 0);
  CHECK(ids.err.empty());
  CHECK(ids.out.starts_with("[256,32,99]\n[256,13]\n[]\n[195,169,60,124,"));
  const Outcome back = run("tokenize", model.option() + "--decode", ids.out);
  CHECK(back.code == 0);
  CHECK(back.out == text + "\n");
  CHECK(run("tokenize", model.option() + "'ab c'").out == "[256,32,99]\n");
  check_refused(run("tokenize", model.option() + "''"), "wanted at least one character");
}

TEST_CASE("tokenize: added tokens only when asked for") {
  const ModelDir model;
  CHECK(run("tokenize", model.option() + "--special", "a<|end|><think>\n").out == "[97,257,258]\n");
  CHECK(run("tokenize", model.option() + "--decode", "[97, 257, 258]\n").out ==
        "a<|end|><think>\n");
}

TEST_CASE("tokenize: wrong input gives one line and exit code 2") {
  const ModelDir model;
  const std::string decode = model.option() + "--decode";
  check_refused(run("tokenize", decode, "[1]\n[1,\n"), "line 2: not valid JSON");
  check_refused(run("tokenize", decode, "7\n"), "line 1: 7, wanted a JSON list of ids");
  check_refused(run("tokenize", decode, "[\"a\"]\n"), "an id is \"a\"");
  check_refused(run("tokenize", decode, "[-1]\n"), "an id is -1");
  check_refused(run("tokenize", decode, "[1]\n[1,259]\n"),
                "line 2: token id 259: unknown, wanted one of");
  check_refused(run("tokenize", decode, "[1]\n\n"),
                "line 2: empty, wanted a JSON list of ids, [] for no id");
  check_refused(run("tokenize", "--model /no/such/folder", ""),
                "/no/such/folder/tokenizer.json: no such file");
  check_refused(run("tokenize", "--modle x", ""), "--modle");
  check_refused(run("tokenize", model.option() + ">/dev/full", "a\n"), "cannot write");
}

TEST_CASE("help fits the terminal, and descriptions stand in their column") {
  for (const size_t columns : {size_t{40}, size_t{60}, size_t{80}}) {
    const Outcome help = kvtest::shell(fmt::format("COLUMNS={} $B/make_model --help", columns));
    CHECK(contains(help.out, "  --max-positions N"));
    CHECK(contains(help.out, "268435456)\n"));
    std::istringstream lines(help.out.substr(help.out.find("\noptions:") + 1));
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      CAPTURE(line);
      CHECK((line.size() <= columns || !contains(line.substr(columns / 2), " ")));
      CHECK((line.empty() || line.starts_with("  -") ||
             line.starts_with(std::string(columns / 2 < 34 ? columns / 2 : 34, ' '))));
    }
  }
}

TEST_CASE("make_model: Ctrl-C gives exit code 130 and leaves no part of a model") {
  const Outcome stopped = kvtest::shell(
      "$B/make_model --like qwen3-0.6b --out $T/m & while ! [ -d $T/m ]; do sleep 0.01; done; "
      "kill -INT $!; wait $!; code=$?; ls $T/m; exit $code");
  CHECK(stopped.code == 130);
  CHECK(stopped.out.empty());
}

TEST_CASE("make_model: the folder it makes can be read, whatever the shape") {
  for (const std::string options :
       {"", "--dtype f16 --tie --shards 3", "--dtype f32 --no-tie --kv-heads 8 --head-dim 16"}) {
    CAPTURE(options);
    const TempDir dir;
    const std::string out = dir.path().string();
    const Outcome result =
        run("make_model",
            fmt::format("--like tiny --layers 2 --vocab 300 --out '{}' {}", out, options));
    CAPTURE(result.err);
    REQUIRE(result.code == 0);
    const ModelConfig config = load_config(dir.path());
    CHECK(config.num_layers == 2);
    CHECK(config.vocab_size == 300);
    CHECK(config.tie_word_embeddings == !contains(options, "--no-tie"));
    const Weights weights = Weights::open(dir.path());
    CHECK(weights.names().size() == (config.tie_word_embeddings ? 24 : 25));
    const TensorView* q = weights.find("model.layers.1.self_attn.q_proj.weight");
    REQUIRE(q != nullptr);
    CHECK(q->shape == std::vector<int64_t>{config.q_width(), config.hidden_size});
    CHECK(std::filesystem::exists(dir.path() / "model.safetensors") ==
          !contains(options, "--shards"));
  }
}

TEST_CASE("make_model: same seed, same weights, in one file or many") {
  const TempDir dir;
  const auto make = [&](const std::string& name, const std::string& options) {
    const std::string out = (dir.path() / name).string();
    REQUIRE(
        run("make_model", fmt::format("--layers 1 --vocab 300 --out '{}' {}", out, options)).code ==
        0);
    return Weights::open(out);
  };
  const Weights one = make("one", "--seed 7");
  const Weights many = make("many", "--seed 7 --shards 4");
  const Weights other = make("other", "--seed 8");
  const auto bytes = [](const Weights& weights, const std::string& name) {
    const TensorView* t = weights.find(name);
    REQUIRE(t != nullptr);
    return std::string(reinterpret_cast<const char*>(t->data), t->bytes);
  };
  for (const std::string& name : one.names()) {
    CAPTURE(name);
    CHECK(bytes(one, name) == bytes(many, name));
    CHECK((bytes(one, name) == bytes(other, name)) == contains(name, "norm"));
  }
}

TEST_CASE("make_model: weights have mean 0 and standard deviation 0.02") {
  const TempDir dir;
  REQUIRE(run("make_model", "--layers 1 --dtype f32 --out '" + dir.path().string() + "'").code ==
          0);
  const Weights weights = Weights::open(dir.path());
  const TensorView* t = weights.find("model.embed_tokens.weight");
  REQUIRE(t != nullptr);
  const auto* values = reinterpret_cast<const float*>(t->data);
  const size_t count = t->bytes / sizeof(float);
  double sum = 0;
  double squares = 0;
  for (size_t i = 0; i < count; ++i) {
    sum += double{values[i]};
    squares += double{values[i]} * double{values[i]};
  }
  const double n = static_cast<double>(count);
  CHECK(std::abs(sum / n) <= 2e-4);  // 5 sigma of the mean of 2^18 numbers
  CHECK(std::abs(std::sqrt(squares / n) - 0.02) <= 2e-4);
}

TEST_CASE("make_model: wrong options give one line and exit code 2") {
  const TempDir dir;
  const std::string out = "--out '" + (dir.path() / "m").string() + "' ";
  check_refused(run("make_model", ""), "--out");
  check_refused(run("make_model", out + "--heads 3"), "3 attention heads cannot share 2");
  check_refused(run("make_model", out + "--head-dim 33"), "\"head_dim\" is 33");
  check_refused(run("make_model", out + "--head-dim 258"), "--head-dim: '258' is not allowed");
  check_refused(run("make_model", out + "--layers 0"), "--layers: '0' is not allowed");
  check_refused(run("make_model", out + "--layers -1"), "--layers");
  check_refused(run("make_model", out + "--vocab 99999999999999999999"), "--vocab");
  check_refused(run("make_model", out + "--like gpt2"), "gpt2");
  check_refused(run("make_model", out + "--dtype int8"), "int8");
  CHECK(!std::filesystem::exists(dir.path() / "m"));
  dir.write("file", "");
  check_refused(run("make_model", "--out '" + dir.path().string() + "'"),
                "wanted a new or an empty folder");
  check_refused(run("make_model", "--out '" + (dir.path() / "file").string() + "'"),
                "wanted a new or an empty folder");
  check_refused(run("make_model", "--out /proc/none"), "wanted a new or an empty folder");
}
