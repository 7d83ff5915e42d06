// What sinks and rises, and the bits of lesson 02.

#include <fstream>

#include "common/base/error.h"
#include "tiered.h"

using lesson11::HostTierOptions;
using lesson11::LoadPolicy;

namespace {

/// Eight texts of three or four full blocks each.
std::vector<kv::Request> texts() {
  std::vector<kv::Request> requests;
  for (int i = 0; i < 8; ++i) requests.push_back(kvtest::request_of(50 + i, 12, i));
  return requests;
}

}  // namespace

TEST_CASE("rounds, restarts, pools of any size, hashes that collide: the bits of a flat cache") {
  kv::Model& model = kvtest::shipped_model();
  for (const auto kernel : {kv::Kernel::kFast, kv::Kernel::kPlain}) {
    model.set_kernel(kernel);
    lesson11_test::check_rounds(model, kernel == kv::Kernel::kFast ? 16 : 6);
  }
  model.set_kernel(kv::Kernel::kFast);
}

TEST_CASE("what the device has evicted is loaded and not computed again") {
  kv::Model& model = kvtest::shipped_model();
  const auto requests = texts();
  const lesson08::ServeOptions serve{};
  lesson08::ServingEngine plain(model, {.num_blocks = 10}, serve);
  TieredEngine engine(model, {.num_blocks = 10}, serve,
                      {.host_blocks = 60, .policy = LoadPolicy::kAlways});
  plain.generate(requests), engine.generate(requests);
  const auto before = plain.generate(requests), now = engine.generate(requests);
  kvtest::check_equal(now, before);
  // 8 texts of which all full blocks of the prompt are found, 3 blocks or 48 tokens each.
  CHECK(now.counters.named("found_tokens") + now.counters.named("loaded_tokens") >= 8 * 48);
  CHECK(now.counters.named("loaded_tokens") >= 5 * 48);
  CHECK(now.counters.kv_rows_computed <= before.counters.kv_rows_computed - 5 * 48);
}

TEST_CASE("after a restart the file has what was on the device and on the host") {
  kv::Model& model = kvtest::shipped_model();
  const kvtest::TempDir folder;
  const auto requests = texts();
  const HostTierOptions tiers{.host_blocks = 40,
                              .file = folder.path() / "blocks",
                              .file_blocks = 100,
                              .policy = LoadPolicy::kAlways};
  const auto first = TieredEngine(model, {.num_blocks = 10}, {}, tiers).generate(requests);
  TieredEngine again(model, {.num_blocks = 10}, {}, tiers);
  const auto second = again.generate(requests);
  kvtest::check_equal(second, first);
  CHECK(again.manager()->tier_metrics(1).num_risen >= 8 * 3);
  CHECK(second.counters.kv_rows_computed <= first.counters.kv_rows_computed - 8 * 48);
}

TEST_CASE("a flipped bit in the file costs blocks, and changes nothing") {
  kv::Model& model = kvtest::shipped_model();
  const kvtest::TempDir folder;
  const auto file = folder.path() / "blocks";
  const auto requests = texts();
  const HostTierOptions tiers{
      .host_blocks = 40, .file = file, .file_blocks = 60, .policy = LoadPolicy::kAlways};
  const auto first = TieredEngine(model, {.num_blocks = 10}, {}, tiers).generate(requests);
  const auto size = std::filesystem::file_size(file);
  int64_t damaged = 0;
  for (int flip = 1; flip < 12; ++flip) {
    CAPTURE(flip);
    const auto at = static_cast<std::streamoff>(4096 + size * static_cast<size_t>(flip) / 13);
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekg(at);
    const char was = static_cast<char>(bytes.get());
    bytes.seekp(at);
    bytes.put(static_cast<char>(was ^ 0x10));
    bytes.close();
    TieredEngine engine(model, {.num_blocks = 10}, {}, tiers);
    kvtest::check_equal(engine.generate(requests), first);
    damaged += engine.manager()->tier_metrics(1).num_damaged;
  }
  CHECK(damaged > 0);
}

TEST_CASE("another model's file is refused before anything is computed, and stays as it was") {
  kv::Model& model = kvtest::shipped_model();
  const kvtest::TempDir folder;
  const auto file = folder.path() / "blocks";
  const auto requests = texts();
  const HostTierOptions tiers{.host_blocks = 12, .file = file};
  TieredEngine(model, {.num_blocks = 10}, {}, tiers).generate(requests);
  const kvtest::WindowedModel windowed(20);  // the same weights, other layers
  kv::Model other = kv::Model::load(windowed.folder(), kv::Device::kCpu);
  TieredEngine refused(other, {.num_blocks = 10}, {}, tiers);
  CHECK_THROWS_AS(refused.generate(requests), kv::UserError);
  CHECK(refused.manager() == nullptr);
  TieredEngine again(model, {.num_blocks = 10}, {}, tiers);
  again.generate(requests);
  CHECK(again.manager()->tier_metrics(1).num_risen > 0);
}

TEST_CASE("what is forgotten after a change of the weights is forgotten in every pool") {
  kv::Model& model = kvtest::shipped_model();
  const kvtest::TempDir folder;
  const auto requests = texts();
  const HostTierOptions tiers{.host_blocks = 60,
                              .file = folder.path() / "blocks",
                              .file_blocks = 60,
                              .policy = LoadPolicy::kAlways};
  TieredEngine engine(model, {.num_blocks = 10}, {}, tiers);
  const auto first = engine.generate(requests);
  engine.reset_prefix_cache();
  const auto second = engine.generate(requests);
  CHECK(second.counters.kv_rows_computed == first.counters.kv_rows_computed);
}

TEST_CASE("callbacks that throw at any token leave no block in use, above nor below") {
  kv::Model& model = kvtest::shipped_model();
  const auto requests = lesson08_test::mixed(6);
  TieredEngine engine(model, {.num_blocks = 14}, {.scheduler = {.max_tokens_per_pass = 32}},
                      {.host_blocks = 50, .policy = LoadPolicy::kAlways});
  lesson08_test::check_throwing_callbacks(engine, requests, lesson08_test::flat(model, requests),
                                          40);
  engine.manager()->check_tiers();
}

TEST_CASE("padded passes and tokens that the device chooses change nothing") {
  lesson08_test::check_padded<TieredEngine>(kvtest::shipped_model(), 30);
}
