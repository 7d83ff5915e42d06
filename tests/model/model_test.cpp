// The forward pass: right, and the same bits however its rows come.

#include "qwen3/model.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/error.h"
#include "tests/model/reference_forward.h"
#include "tests/support/device_arrays.h"
#include "tests/support/plain_attention.h"
#include "tests/support/random_model.h"
#include "tests/support/temp_dir.h"

using kvtest::PlainAttention;
using kvtest::RandomModel;
using kvtest::same_bits;
using kvtest::TempDir;
using Sequences = std::vector<std::vector<int32_t>>;

namespace {

std::vector<int32_t> range(int begin, int n) {
  std::vector<int32_t> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), begin);
  return out;
}

std::vector<int32_t> some_tokens(int n, int seed, int vocab = 97) {
  std::vector<int32_t> out;
  for (int i = 0; i < n; ++i) out.push_back((seed * 31 + i * 17 + i * i) % vocab);
  return out;
}

kv::Model load(const RandomModel& shape) {
  const TempDir dir;  // mapped files outlive their names
  kvtest::write_model(dir.path(), shape);
  return kv::Model::load(dir.path(), kv::Device::kCpu);
}

/// Logits of all rows of whole sequences, run as one pass.
std::vector<float> run(kv::Model& model, const Sequences& sequences,
                       std::vector<int32_t> logit_rows = {}) {
  kv::PassRows rows;
  for (const std::vector<int32_t>& s : sequences) rows.add(0, s, 0);
  if (logit_rows.empty()) logit_rows = range(0, rows.num_rows());
  rows.logit_rows = logit_rows;
  PlainAttention attention(model.config());
  const std::span<const float> out = model.forward(rows, attention);
  CHECK(attention.layers_seen == range(0, model.config().num_layers));
  return {out.begin(), out.end()};
}

/// Relative to the size of the logits: their errors come from sums over the same hidden state.
double relative_error(const std::vector<float>& got, const kvtest::Rows& want) {
  double error = 0;
  double scale = 0;
  size_t i = 0;
  for (const std::vector<double>& row : want) {
    for (const double w : row) {
      const double d = static_cast<double>(got.at(i++)) - w;
      error += d * d;
      scale += w * w;
    }
  }
  return std::sqrt(error / scale);
}

}  // namespace

TEST_CASE("model: agrees with plain loops in double precision" * doctest::test_suite("sweep")) {
  struct Shape {
    int heads, kv_heads, dim;
  };
  for (const Shape s : {Shape{4, 2, 16}, Shape{4, 4, 8}, Shape{8, 1, 10}, Shape{3, 3, 20}}) {
    for (const bool tied : {true, false}) {
      for (const std::string dtype : {"BF16", "F16", "F32"}) {
        const RandomModel shape{.num_heads = s.heads,
                                .num_kv_heads = s.kv_heads,
                                .head_dim = s.dim,
                                .tied = tied,
                                .dtype = dtype,
                                .seed = 3};
        const kvtest::Tensors tensors = kvtest::random_tensors(shape);
        kv::Model model = load(shape);
        const std::vector<int32_t> tokens = some_tokens(23, 5);
        const double error = relative_error(
            run(model, {tokens}), kvtest::ReferenceForward(shape, tensors).logits(tokens));
        INFO("heads ", s.heads, "/", s.kv_heads, " head_dim ", s.dim, " ", dtype, " tied ", tied);
        // fp32 rounds at 6e-8; two layers of sums over up to 80 terms leave a small multiple.
        CHECK(error <= 2e-6);
      }
    }
  }
}

TEST_CASE("model: equal weights give equal bits, fused, of any dtype, with a prefix or without") {
  const Sequences one = {some_tokens(19, 2)};
  kv::Model plain = load({});
  const std::vector<float> want = run(plain, one);
  for (const RandomModel& shape : {RandomModel{.fused = true}, RandomModel{.dtype = "F16"},
                                   RandomModel{.dtype = "F32"}, RandomModel{.prefix = ""}}) {
    CAPTURE(shape.dtype);
    CAPTURE(shape.prefix);
    kv::Model model = load(shape);
    CHECK(same_bits(run(model, one), want));
  }
}

TEST_CASE("model: a sequence has the same bits alone and in any batch") {
  kv::Model model = load({});
  const Sequences all = {some_tokens(7, 1), some_tokens(1, 2), some_tokens(30, 3),
                         some_tokens(64, 4), some_tokens(17, 5)};
  const std::vector<float> batch = run(model, all);
  size_t at = 0;
  for (const std::vector<int32_t>& s : all) {
    const std::vector<float> alone = run(model, {s});
    CHECK(same_bits(alone, std::span(batch).subspan(at, alone.size())));
    at += alone.size();
  }
  const Sequences reversed(all.rbegin(), all.rend());
  const std::vector<float> other = run(model, reversed);
  const size_t last = all.back().size() * 97;
  CHECK(same_bits(std::span(other).first(last), std::span(batch).last(last)));
}

TEST_CASE("model: a prefix has the same bits as in the longer sequence") {
  kv::Model model = load({});
  const std::vector<int32_t> tokens = some_tokens(40, 6);
  const std::vector<float> whole = run(model, {tokens});
  for (const int n : {1, 2, 15, 16, 17, 39}) {
    const std::vector<float> prefix = run(model, {{tokens.begin(), tokens.begin() + n}});
    CHECK(same_bits(prefix, std::span(whole).first(prefix.size())));
  }
}

TEST_CASE("model: only the wanted rows give logits and their bits stay") {
  kv::Model model = load({});
  const Sequences one = {some_tokens(20, 7)};
  const std::vector<float> all = run(model, one);
  for (const std::vector<int32_t>& rows :
       {std::vector<int32_t>{19}, {0}, {3, 4, 11}, range(0, 20)}) {
    const std::vector<float> some = run(model, one, rows);
    CHECK(some.size() == rows.size() * 97);
    for (size_t i = 0; i < rows.size(); ++i) {
      CHECK(same_bits(std::span(some).subspan(i * 97, 97),
                      std::span(all).subspan(static_cast<size_t>(rows[i]) * 97, 97)));
    }
  }
}

TEST_CASE("model: a pass may want no logits at all") {
  kv::Model model = load({});
  kv::PassRows rows;
  rows.add(0, std::vector<int32_t>{1, 2}, 0, false);
  PlainAttention attention(model.config());
  CHECK(model.forward(rows, attention).empty());
  CHECK(attention.layers_seen.size() == 2);
}

TEST_CASE("model: a token id outside the vocabulary is refused before anything runs") {
  kv::Model model = load({});
  PlainAttention attention(model.config());
  for (const int32_t bad : {-1, 97, 2147483647}) {
    kv::PassRows rows;
    rows.add(0, std::vector<int32_t>{5, bad}, 0);
    const std::string id = std::to_string(bad);
    CHECK_THROWS_WITH_AS(
        model.forward(rows, attention),
        ("token id " + id + " is not in the vocabulary: wanted 0 to 96; use this model's tokenizer")
            .c_str(),
        kv::UserError);
  }
  CHECK(attention.layers_seen.empty());
}

TEST_CASE("model: a pass that contradicts itself is refused") {
  kv::Model model = load({});
  PlainAttention attention(model.config());
  kv::PassRows good;
  good.add(0, std::vector<int32_t>{0, 1}, 0);
  const auto refused = [&](auto change) {
    kv::PassRows rows = good;
    change(rows);
    CHECK_THROWS_AS(model.forward(rows, attention), std::logic_error);
  };
  refused([](kv::PassRows& rows) { rows.positions = {0}; });
  refused([](kv::PassRows& rows) { rows = {}; });
  refused([](kv::PassRows& rows) { rows.logit_rows = {1, 0}; });
  refused([](kv::PassRows& rows) { rows.logit_rows = {1, 1}; });
  refused([](kv::PassRows& rows) { rows.logit_rows = {2}; });
  refused([](kv::PassRows& rows) { rows.positions = {0, -1}; });
  refused([](kv::PassRows& rows) { rows.first_row = {0, 1}; });
  refused([](kv::PassRows& rows) { rows.seq_len = {2, 2}; });
  CHECK(attention.layers_seen.empty());
}

TEST_CASE("model: windows are one for each layer, or none") {
  kv::Model model = load({});
  const auto num_layers = static_cast<size_t>(model.config().num_layers);
  CHECK_THROWS_AS(model.set_windows(std::vector<int>(num_layers + 1, 8)), std::invalid_argument);
  CHECK_THROWS_AS(model.set_windows(std::vector<int>(num_layers, -1)), std::invalid_argument);
  CHECK(model.config().windows.empty());
  model.set_windows(std::vector<int>(num_layers, 8));
  CHECK(model.config().window_of(0) == 8);
  model.set_windows({});
  CHECK(model.config().window_of(0) == 0);
}

TEST_CASE("model: a pass after a larger pass and after a failed one is right") {
  kv::Model model = load({});
  const std::vector<float> small = run(model, {some_tokens(3, 8)});
  run(model, {some_tokens(90, 9)});
  CHECK(same_bits(run(model, {some_tokens(3, 8)}), small));
  PlainAttention attention(model.config());
  kv::PassRows bad;
  bad.add(0, std::vector<int32_t>{97}, 0);
  CHECK_THROWS_AS(model.forward(bad, attention), kv::UserError);
  CHECK(same_bits(run(model, {some_tokens(3, 8)}), small));
}
