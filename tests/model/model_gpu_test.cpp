// The model on CUDA: passes replayed from a graph are the passes themselves. And the yardstick of
// its products.

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "qwen3/model.h"
#include "tests/model/cublas.h"
#include "tests/support/device_arrays.h"
#include "tests/support/random_model.h"
#include "tests/support/temp_dir.h"

using kvtest::same_bits;

namespace {

/// Attention that is nothing but a fill of its output: with a number that follows from the window.
class ConstantAttention : public kv::Attention {
 public:
  ConstantAttention(const kv::ModelConfig& config, bool replayed)
      : row_bytes_(static_cast<size_t>(config.q_width()) * sizeof(kv::BFloat16)),
        replayed_(replayed) {}

  void begin_pass(const kv::PassRows&, kv::PassArrays& arrays) override {
    if (replayed_) arrays.allow_replay();
    arrays.launches_depend_on(bound);
  }

  void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override {
    if (fails) throw std::runtime_error("this pass cannot be launched");
    ++calls;
    kv::fill_bytes(rows.out, 0x3C - rows.window, row_bytes_ * static_cast<size_t>(rows.num_rows),
                   stream);
  }

  uint64_t bound = 0;
  bool fails = false;
  int calls = 0;

 private:
  size_t row_bytes_;
  bool replayed_;
};

std::vector<float> logits_of(kv::Model& model, kv::Attention& attention,
                             const std::vector<int32_t>& tokens) {
  kv::PassRows rows;
  rows.add(0, tokens, 0);
  const auto logits = model.forward(rows, attention);
  return {logits.begin(), logits.end()};
}

struct Fixture {
  Fixture() : model(load()) {}
  static kv::Model load() {
    const kvtest::TempDir dir;
    kvtest::write_model(dir.path(), kvtest::RandomModel{});
    return kv::Model::load(dir.path(), kv::Device::kCuda);
  }
  kv::Model model;
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "graphs: a replayed pass reads the new tokens and gives the same bits" *
                               doctest::test_suite("any_order")) {
  ConstantAttention eager(model.config(), false);
  ConstantAttention keyed(model.config(), true);
  const std::vector<int32_t> tokens[] = {{1, 2}, {3, 4}, {5, 6}, {1, 2}};
  std::vector<std::vector<float>> wanted;
  for (const auto& t : tokens) wanted.push_back(logits_of(model, eager, t));
  CHECK(model.graph_replays() == 0);
  CHECK(!same_bits(wanted[0], wanted[1]));

  for (size_t i = 0; i < 4; ++i) CHECK(same_bits(logits_of(model, keyed, tokens[i]), wanted[i]));
  CHECK(model.graph_replays() == 3);                    // all but the first
  CHECK(keyed.calls == 2 * model.config().num_layers);  // as it is, and captured
  CHECK(same_bits(logits_of(model, keyed, {9}), logits_of(model, eager, {9})));
  CHECK(model.graph_replays() == 3);  // another number of rows is another graph
  keyed.bound = 1;
  CHECK(same_bits(logits_of(model, keyed, {9}), logits_of(model, eager, {9})));
  ConstantAttention other(model.config(), true);
  for (int i = 0; i < 2; ++i) logits_of(model, other, tokens[0]);
  CHECK(model.graph_replays() == 4);  // so is another bound, and another attention
}

TEST_CASE_FIXTURE(Fixture,
                  "graphs: a larger pass moves the workspace and the graphs are made again" *
                      doctest::test_suite("any_order")) {
  ConstantAttention eager(model.config(), false);
  ConstantAttention keyed(model.config(), true);
  const std::vector<float> wanted = logits_of(model, eager, {3});
  for (int i = 0; i < 3; ++i) CHECK(same_bits(logits_of(model, keyed, {3}), wanted));
  CHECK(model.graph_replays() == 2);
  logits_of(model, keyed, std::vector<int32_t>(40, 5));
  for (int i = 0; i < 3; ++i) CHECK(same_bits(logits_of(model, keyed, {3}), wanted));
  CHECK(model.graph_replays() == 4);
}

TEST_CASE_FIXTURE(Fixture,
                  "graphs: a pass that fails while it is captured leaves the model usable" *
                      doctest::test_suite("any_order")) {
  ConstantAttention keyed(model.config(), true);
  const std::vector<float> wanted = logits_of(model, keyed, {3});
  keyed.fails = true;
  CHECK_THROWS_AS(logits_of(model, keyed, {3}), std::runtime_error);
  keyed.fails = false;
  for (int i = 0; i < 2; ++i) CHECK(same_bits(logits_of(model, keyed, {3}), wanted));
  CHECK(model.graph_replays() == 2);
}

TEST_CASE_FIXTURE(Fixture, "graphs: none outlives the windows that it was captured with" *
                               doctest::test_suite("any_order")) {
  ConstantAttention eager(model.config(), false);
  ConstantAttention keyed(model.config(), true);
  const auto num_layers = static_cast<size_t>(model.config().num_layers);
  for (const int window : {0, 4, 8, 4}) {
    CAPTURE(window);
    model.set_windows(std::vector<int>(num_layers, window));
    const std::vector<float> wanted = logits_of(model, eager, {3});
    for (int i = 0; i < 2; ++i) CHECK(same_bits(logits_of(model, keyed, {3}), wanted));
  }
}

TEST_CASE("cuBLAS, if it is here, gets what the course's product gets") {
  const kv::Stream stream(kv::Device::kCuda);
  const Cublas cublas(stream);
  if (!cublas.found()) {
    MESSAGE("no libcublas.so.13 or .12 on LD_LIBRARY_PATH");
    return;
  }
  const std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8};              // [2, 4]
  const std::vector<float> w{1, 0, 0, 0, 0, 1, 0, 2, 1, 1, 1, 1};  // [3, 4]
  const auto upload = [&](const std::vector<float>& values) {
    std::vector<kv::BFloat16> rounded;
    for (const float v : values) rounded.push_back(kv::to_bfloat16(v));
    return kvtest::upload(rounded, stream);
  };
  const auto device_x = upload(x), device_w = upload(w), out = kvtest::poisoned(12, stream);
  cublas.multiply(device_x.data(), 2, 4, device_w.data(), 3, out.data());
  CHECK(kvtest::floats_of(kvtest::download<kv::BFloat16>(out.data(), 6, stream)) ==
        std::vector<float>{1, 10, 10, 5, 22, 26});
  const auto sums = kvtest::upload(std::vector<float>{100, 200, 300, 400, 500, 600}, stream);
  cublas.multiply(device_x.data(), 2, 4, device_w.data(), 3, sums.data(), kv::DType::kF32, true);
  CHECK(kvtest::download<float>(sums.data(), 6, stream) ==
        std::vector<float>{101, 210, 310, 405, 522, 626});
}
