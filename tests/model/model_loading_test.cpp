// Loading: which weights a folder must hold, and what is said when it does not. The readers of the
// files have their own tests.

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <string>

#include "common/error.h"
#include "qwen3/model.h"
#include "tests/support/plain_attention.h"
#include "tests/support/random_model.h"
#include "tests/support/temp_dir.h"

using kvtest::RandomModel;
using kvtest::TempDir;
using kvtest::Tensors;

namespace {

/// The message of loading a model; empty if it loads.
std::string message_of_loading(const std::filesystem::path& dir) {
  try {
    kv::Model::load(dir, kv::Device::kCpu);
  } catch (const kv::UserError& e) {
    const std::string text = e.what();
    CHECK(text.find('\n') == std::string::npos);
    return text;
  }
  return "";
}

/// The same of a model whose tensors were changed.
std::string message(const RandomModel& shape, const std::function<void(Tensors&)>& change) {
  const TempDir dir;
  Tensors tensors = kvtest::random_tensors(shape);
  change(tensors);
  kvtest::write_model(dir.path(), shape, tensors);
  return message_of_loading(dir.path());
}

void check_contains(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    INFO(text, "  should contain  ", part);
    CHECK(text.find(part) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("model: every tensor that is missing is named with the shape wanted") {
  for (const bool tied : {true, false}) {
    RandomModel shape;
    shape.tied = tied;
    for (const auto& [name, tensor] : kvtest::random_tensors(shape)) {
      if (name == "model.embed_tokens.weight") continue;  // its absence is the next case
      const std::string text = message(shape, [key = name](Tensors& t) { t.erase(key); });
      check_contains(text, {"page_by_page_", name.c_str(), "missing", "[", "again"});
    }
  }
}

TEST_CASE("model: a folder without any embedding names it") {
  const std::string text = message({}, [](Tensors& t) { t.erase("model.embed_tokens.weight"); });
  check_contains(text, {"'model.embed_tokens.weight'", "missing", "[97, 48]"});
}

TEST_CASE("model: every tensor of a wrong shape is named with both shapes") {
  RandomModel shape;
  shape.tied = false;
  for (const auto& [name, tensor] : kvtest::random_tensors(shape)) {
    const std::string text = message(shape, [&, key = name](Tensors& t) {
      // One more column, or one more element of a vector.
      auto& bad = t.at(key);
      bad.shape.back() += 1;
      int64_t n = 2;
      for (const int64_t d : bad.shape) n *= d;
      bad.bytes.assign(static_cast<size_t>(n), std::byte{0});
    });
    check_contains(text, {name.c_str(), "has shape [", "config.json wants ["});
  }
}

TEST_CASE("model: the right number of values in another shape is refused") {
  const std::string text = message({}, [](Tensors& t) {
    auto& w = t.at("model.layers.0.mlp.down_proj.weight");
    std::swap(w.shape[0], w.shape[1]);
  });
  check_contains(text, {"down_proj", "[80, 48]", "[48, 80]"});
  const std::string rank = message({}, [](Tensors& t) {
    t.at("model.norm.weight").shape = {48, 1};
  });
  check_contains(rank, {"'model.norm.weight'", "[48, 1]", "[48]"});
}

TEST_CASE("model: a dtype that weights cannot have is refused by name") {
  const std::string text =
      message({}, [](Tensors& t) { t.at("model.layers.1.mlp.up_proj.weight").dtype = "I16"; });
  check_contains(text, {"up_proj", "I16", "BF16, F16 or F32"});
}

TEST_CASE("model: fewer or more layers in the file than in config.json are refused") {
  for (const auto& [num_layers, tensor] :
       {std::pair{3, "model.layers.2."}, {1, "model.layers.1."}}) {
    RandomModel shape;
    const TempDir dir;
    kvtest::write_model(dir.path(), shape);
    shape.num_layers = num_layers;
    kvtest::write_config(dir.path(), shape);
    const std::string text = message_of_loading(dir.path());
    check_contains(text, {tensor});
    if (num_layers == 1) check_contains(text, {"num_hidden_layers = 1"});
  }
}

TEST_CASE("model: a tied model may carry its head if it is the embedding, and no other") {
  const auto carry = [](Tensors& t) { t["lm_head.weight"] = t.at("model.embed_tokens.weight"); };
  CHECK(message({}, carry).empty());
  const std::string text = message({}, [&](Tensors& t) {
    carry(t);
    t.at("lm_head.weight").bytes.back() ^= std::byte{1};
  });
  check_contains(text, {"lm_head.weight", "differs", "tie_word_embeddings = true"});
}

TEST_CASE("model: tensors that it does not compute with are refused by name, but RoPE's table") {
  for (const std::string name : {"q_proj.bias", "q_proj.weight_scale", "rotary_emb.inv_freq"}) {
    const std::string all = "model.layers.0.self_attn." + name;
    const auto extra = [&](Tensors& t) { t[all] = kvtest::make_tensor("F32", {1}, {1.0f}); };
    CHECK(message({}, extra).empty() == (name == "rotary_emb.inv_freq"));
    if (name != "rotary_emb.inv_freq") check_contains(message({}, extra), {all.c_str()});
  }
}

TEST_CASE("model: weights that the file puts at odd addresses give the same bits") {
  RandomModel shape;
  shape.dtype = "F32";
  kv::PassRows rows;
  rows.add(0, std::vector<int32_t>{1, 2, 3}, 0);
  rows.logit_rows = {0, 1, 2};
  std::vector<float> logits[2];
  for (const bool odd : {false, true}) {
    const TempDir dir;
    Tensors tensors = kvtest::random_tensors(shape);
    // First in the file, one byte long: everything after it is at an odd address.
    if (odd) tensors["a.rotary_emb.inv_freq"] = {"U8", {1}, {std::byte{7}}};
    kvtest::write_model(dir.path(), shape, tensors);
    kv::Model model = kv::Model::load(dir.path(), kv::Device::kCpu);
    kvtest::PlainAttention attention(model.config());
    const std::span<const float> out = model.forward(rows, attention);
    logits[odd ? 1 : 0].assign(out.begin(), out.end());
  }
  CHECK(std::memcmp(logits[0].data(), logits[1].data(), logits[0].size() * 4) == 0);
}

TEST_CASE("model: reports its size and its progress") {
  const TempDir dir;
  const RandomModel shape;
  const Tensors tensors = kvtest::random_tensors(shape);
  kvtest::write_model(dir.path(), shape, tensors);
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<int64_t>(tensor.bytes.size());
  int64_t done = 0;
  int64_t total = 0;
  kv::Model model = kv::Model::load(dir.path(), kv::Device::kCpu, [&](int64_t d, int64_t t) {
    done = d;
    total = t;
  });
  CHECK(model.weight_bytes() == bytes);
  CHECK(done == bytes);
  CHECK(total == bytes);
  CHECK(model.device() == kv::Device::kCpu);
  CHECK(model.graph_replays() == 0);
}
