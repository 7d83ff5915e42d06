// Whom a server of lesson 13 believes: poison, and what helps; tenants, and an adapter's blocks.

#include <cstring>

#include "bad_stores.h"
#include "lessons/12_file_tier/checksum_blocks.h"

using namespace lesson13_test;
using lesson06::ExtraKey;

namespace {

/// Other K and V under the same name, with the right sums.
std::string poisoned(std::string_view value) {
  constexpr size_t kHeader = 56 + 16 * sizeof(int32_t);
  std::string now(value);
  now[kHeader + 40] = static_cast<char>(now[kHeader + 40] ^ 0x40);
  const auto content = std::as_bytes(std::span(now)).subspan(kHeader);
  const uint64_t checksum = lesson12::checksum_of(content);
  std::memcpy(now.data() + 48, &checksum, sizeof checksum);
  return now;
}

}  // namespace

TEST_CASE_FIXTURE(TwoServers, "poison with the right sums is a hit: sums prove nothing about K") {
  bad.changed = [](size_t, std::string_view value) { return poisoned(value); };
  SharedTierEngine engine(model, {.num_blocks = 40}, bad, {}, always());
  const auto result = engine.generate(requests);
  CHECK(metrics_of(engine).num_fetched == 8 * 3);
  CHECK(metrics_of(engine).num_damaged == 0);
  for (size_t i = 0; i < requests.size(); ++i) {
    CHECK(result.completions[i].logits_xxh64 != wanted.completions[i].logits_xxh64);
  }
}

TEST_CASE_FIXTURE(TwoServers, "poison is refused by servers with a secret") {
  MemoryStore common;
  SharedTierEngine writer(model, {.num_blocks = 40}, common, {}, always(60, {.secret = "s"}));
  writer.generate(requests);
  BadStore poisons(common);
  poisons.changed = [](size_t, std::string_view value) {
    return poisoned(value.substr(0, value.size() - 32)) +
           std::string(value.substr(value.size() - 32));
  };
  const SharedMetrics metrics = serve(poisons, {.secret = "s"});
  CHECK(metrics.num_damaged == 8);
  CHECK(metrics.num_fetched == 0);
  CHECK(serve(common, {.secret = "s"}).num_fetched == 8 * 3);
  CHECK(serve(common, {.secret = "another"}).num_damaged == 8);
}

TEST_CASE_FIXTURE(TwoServers, "poison is found by computing a sample again, and replaced") {
  bad.changed = [](size_t, std::string_view value) { return poisoned(value); };
  const SharedMetrics metrics = serve(bad, {.check_every = 1});
  CHECK(metrics.num_checked == 8 * 3);
  CHECK(metrics.num_poisoned == 8 * 3);
  CHECK(computed == wanted.counters.kv_rows_computed);
  const SharedMetrics sound = serve(store, {.check_every = 2});
  CHECK(sound.num_checked == 4 * 3);
  CHECK(sound.num_poisoned == 0);
}

TEST_CASE_FIXTURE(TwoServers, "another tenant finds nothing, and an adapter's blocks stay here") {
  MemoryStore common;
  const auto found = [&](const lesson13::ExtraKeys& keys) {
    lesson13::Server server(model, {.num_blocks = 40}, {}, always(), common);
    server.submit(0, requests[0], {.extra_keys = keys});
    run(server);
    return server.tier().metrics().num_fetched;
  };
  const lesson13::ExtraKeys tenant{{ExtraKey::Kind::kSalt, "tenant"}};
  CHECK(found(tenant) == 0);
  CHECK(found(tenant) == 3);
  CHECK(found({{ExtraKey::Kind::kSalt, "other"}}) == 0);
  CHECK(found({}) == 0);
  CHECK(found({}) == 3);
  const size_t before = common.values().size();
  CHECK(found({{ExtraKey::Kind::kAdapter, "7"}}) == 0);
  CHECK(common.values().size() == before);
}
